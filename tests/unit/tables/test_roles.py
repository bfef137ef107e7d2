"""Roles: named, checked, saved as plain values; a wrong one is refused by the argument that named it."""

import pytest

from monocal.core.errors import InvalidInput
from monocal.tables.roles import Roles


def test_columns_are_listed_once_and_plain_values_give_equal_roles():
    assert Roles(score="pctr", label="click").scores == {"click": "pctr"}
    roles = Roles(tasks={"view": "is_view"}, fields=["user", "item"], time="t", group="user", sampling_rate="r")
    assert roles.columns == ("is_view", "user", "item", "t", "r")
    other = Roles(tasks={"a": ("a", "s"), "b": "b"}, fields=["x"], weight="w", scores_are="logit")
    for each in (roles, other):
        assert Roles.from_dict(each.to_dict()) == each


def test_toml_with_and_without_a_schema_table(tmp_path):
    body = 'label = "click"\nfields = ["site"]\ntime = "hour"\nsampling_rate = 0.5\n'
    for text in (body, "[schema]\n" + body):
        (tmp_path / "a.toml").write_text(text)
        expected = Roles(label="click", fields=["site"], time="hour", sampling_rate=0.5)
        assert Roles.from_toml(tmp_path / "a.toml") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('labels = "click"\n', r"key of a.toml: got 'labels'; .* did you mean 'label'\?"),
        ("label = \n", r"a.toml \(.*line 1.*\); expected a readable TOML file"),
        ('fields = ["site"]\n', r"label: got None; expected the name of the label column"),
    ],
)
def test_toml_that_cannot_be_used(text, message, tmp_path):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        Roles.from_toml(tmp_path / "a.toml")
    with pytest.raises(InvalidInput, match=r"none\.toml"):
        Roles.from_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": "s"}, "label: got None"),
        ({"label": "y", "tasks": {"a": "b"}}, "tasks: got tasks and score or label"),
        ({"label": "click", "fields": "site"}, r"fields: got 'site'; .*write \['site'\]"),
        ({"label": "click", "fields": ["a", "a"]}, "fields: got 'a' twice"),
        ({"label": "click", "fields": ["click"]}, "fields: got 'click', which is also a label"),
        ({"label": "click", "fields": ["s"], "score": "s"}, "fields: got 's', which is also"),
        ({"label": "click", "fields": [""]}, "fields: got ''; expected a column name"),
        ({"label": "click", "sampling_rate": 0.0}, "sampling_rate: got 0.0"),
        ({"label": "click", "sampling_rate": 1.5}, "sampling_rate: got 1.5"),
        ({"label": "click", "scores_are": "odds"}, "scores_are: got 'odds'"),
        ({"label": "click", "soft_labels": True, "label_time": "came"}, "soft_labels"),
    ],
)
def test_roles_that_cannot_work_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Roles(**arguments)


@pytest.mark.parametrize("missing", ["event_time", "label_time", "window"])
def test_late_labels_take_three_together(missing):
    given = {"event_time": "ts", "label_time": "paid", "window": "7d"}
    assert Roles(label="click", **given).has_late_labels
    assert not Roles(label="click").has_late_labels
    with pytest.raises(InvalidInput, match=f"^{missing}: got None"):
        _ = Roles(label="click", **{**given, missing: None}).has_late_labels
