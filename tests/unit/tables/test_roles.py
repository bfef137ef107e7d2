"""Roles: named, checked, saved as plain values; a wrong one is refused by the argument that named it."""

import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.roles import Roles


def test_columns_are_listed_once_and_plain_values_give_equal_roles():
    assert dict(Roles(labels="click", scores="pctr").scores) == {"click": "pctr"}
    roles = Roles(labels={"view": "is_view"}, fields=["user", "item"], time="t", group="user", sampling_rate="r")
    assert roles.columns == ("is_view", "user", "item", "t", "r")
    other = Roles(labels=["a", "b"], fields=["x"], weight="w", scores={"a": "s"}, scores_are="logit")
    for each in (roles, other):
        assert Roles.from_dict(each.to_dict()) == each


def test_toml_with_and_without_a_schema_table(tmp_path):
    body = 'labels = "click"\nfields = ["site"]\ntime = "hour"\nsampling_rate = 0.5\n'
    for text in (body, "[schema]\n" + body):
        (tmp_path / "a.toml").write_text(text)
        expected = Roles(labels="click", fields=["site"], time="hour", sampling_rate=0.5)
        assert Roles.from_toml(tmp_path / "a.toml") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('label = "click"\n', r"key of a.toml: got 'label'; .* did you mean 'labels'\?"),
        ("labels = \n", r"a.toml \(.*line 1.*\); expected a readable TOML file"),
        ('fields = ["site"]\n', r"a.toml: got no labels"),
    ],
)
def test_toml_that_cannot_be_used(text, message, tmp_path):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        Roles.from_toml(tmp_path / "a.toml")
    with pytest.raises(InvalidInput, match=r"none\.toml"):
        Roles.from_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("roles", "missing", "argument", "near"),
    [
        (Roles(labels="clicks", fields=["site"]), "clicks", "label", "click"),
        (Roles(labels="click", fields=["siteid"]), "siteid", "fields", "site"),
        (Roles(labels="click", time="hours"), "hours", "time", "hour"),
        (Roles(labels="click", scores="ctr"), "ctr", "score", "pctr"),
        (Roles(labels="click", numeric=["our"]), "our", "numeric", "hour"),
        (Roles(labels="click", sampling_rate="pctrr"), "pctrr", "sampling_rate", "pctr"),
        (Roles(labels=["click", "site"], scores={"click": "pctr", "site": "pctrs"}), "pctrs", "tasks", "pctr"),
    ],
)
def test_missing_column_is_named_with_its_argument_and_the_nearest_column(roles, missing, argument, near):
    with pytest.raises(UnknownName) as caught:
        roles.check_columns(["click", "site", "hour", "user_id", "weight", "pctr"])
    assert str(caught.value).startswith(f"{argument}: got '{missing}'")
    assert str(caught.value).endswith(f"did you mean '{near}'?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": []}, "labels: got no task"),
        ({"labels": "click", "fields": "site"}, r"fields: got 'site'; .*write \['site'\]"),
        ({"labels": "click", "fields": ["a", "a"]}, "fields: got 'a' twice"),
        ({"labels": "click", "fields": ["click"]}, "fields: got 'click', which is also a label"),
        ({"labels": "click", "fields": ["s"], "scores": "s"}, "fields: got 's', which is also"),
        ({"labels": "click", "fields": [""]}, "fields: got ''; expected a column name"),
        ({"labels": "click", "sampling_rate": 0.0}, "sampling_rate: got 0.0"),
        ({"labels": "click", "sampling_rate": 1.5}, "sampling_rate: got 1.5"),
        ({"labels": ["a", "b"], "scores": "s"}, "scores: got 's'; expected a column per task"),
        ({"labels": ["click"], "scores": {"clik": "s"}}, "task of scores: got 'clik'.*did you mean 'click'"),
        ({"labels": "click", "scores_are": "odds"}, "scores_are: got 'odds'"),
        ({"labels": "click", "soft_labels": True, "label_time": "came"}, "soft_labels"),
    ],
)
def test_roles_that_cannot_work_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Roles(**arguments)


@pytest.mark.parametrize("missing", ["event_time", "label_time", "window"])
def test_late_labels_take_three_together(missing):
    given = {"event_time": "ts", "label_time": "paid", "window": "7d"}
    assert Roles("click", **given).has_late_labels
    assert not Roles("click").has_late_labels
    with pytest.raises(InvalidInput, match=f"^{missing}: got None"):
        _ = Roles("click", **{**given, missing: None}).has_late_labels
