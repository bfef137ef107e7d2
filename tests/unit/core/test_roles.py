import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.roles import Roles


def test_one_label_column_names_its_task():
    roles = Roles(labels="click", fields=["site"], scores="pctr")
    assert dict(roles.labels) == {"click": "click"}
    assert roles.scores == {"click": "pctr"}


def test_columns_lists_every_column_once():
    roles = Roles(labels={"view": "is_view"}, fields=["user", "item"], time="t", group="user", sampling_rate="r")
    assert roles.columns == ("is_view", "user", "item", "t", "r")


def test_plain_values_give_equal_roles():
    roles = Roles(labels=["a", "b"], fields=["x"], weight="w", scores={"a": "s"}, scores_are="logit")
    assert Roles.from_dict(roles.to_dict()) == roles


def test_toml_with_and_without_a_schema_table(tmp_path):
    body = 'labels = "click"\nfields = ["site"]\ntime = "hour"\nsampling_rate = 0.5\n'
    (tmp_path / "a.toml").write_text(body)
    (tmp_path / "b.toml").write_text("[schema]\n" + body)
    expected = Roles(labels="click", fields=["site"], time="hour", sampling_rate=0.5)
    assert Roles.from_toml(tmp_path / "a.toml") == expected
    assert Roles.from_toml(tmp_path / "b.toml") == expected


def test_unknown_toml_key_is_refused_with_the_nearest_one(tmp_path):
    (tmp_path / "a.toml").write_text('label = "click"\n')
    with pytest.raises(UnknownName, match=r"key of a.toml: got 'label'; .* did you mean 'labels'\?"):
        Roles.from_toml(tmp_path / "a.toml")


def test_broken_toml_says_where(tmp_path):
    (tmp_path / "a.toml").write_text("labels = \n")
    with pytest.raises(InvalidInput, match=r"a.toml \(.*line 1.*\); expected a readable TOML file"):
        Roles.from_toml(tmp_path / "a.toml")
    with pytest.raises(InvalidInput, match=r"none\.toml"):
        Roles.from_toml(tmp_path / "none.toml")


def test_toml_without_labels(tmp_path):
    (tmp_path / "a.toml").write_text('fields = ["site"]\n')
    with pytest.raises(InvalidInput, match=r"a.toml: got no labels"):
        Roles.from_toml(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("schema", "missing", "argument", "near"),
    [
        (Roles(labels="clicks", fields=["site"]), "clicks", "label", "click"),
        (Roles(labels="click", fields=["siteid"]), "siteid", "fields", "site"),
        (Roles(labels="click", time="hours"), "hours", "time", "hour"),
        (Roles(labels="click", group="user"), "user", "group", "user_id"),
        (Roles(labels="click", weight="wight"), "wight", "weight", "weight"),
        (Roles(labels="click", scores="ctr"), "ctr", "score", "pctr"),
        (Roles(labels="click", numeric=["our"]), "our", "numeric", "hour"),
        (Roles(labels="click", sampling_rate="pctrr"), "pctrr", "sampling_rate", "pctr"),
        (Roles(labels=["click", "site"], scores={"click": "pctr", "site": "pctrs"}), "pctrs", "tasks", "pctr"),
    ],
)
def test_missing_column_is_named_with_its_argument_and_the_nearest_column(schema, missing, argument, near):
    available = ["click", "site", "hour", "user_id", "weight", "pctr"]
    with pytest.raises(UnknownName) as caught:
        schema.check_columns(available)
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
        ({"labels": ["a", "b"], "scores": "s"}, "scores: got 's'; expected a column per task"),
        ({"labels": ["click"], "scores": {"clik": "s"}}, "task of scores: got 'clik'.*did you mean 'click'"),
        ({"labels": "click", "scores_are": "odds"}, "scores_are: got 'odds'"),
    ],
)
def test_roles_that_cannot_work_is_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Roles(**arguments)


@pytest.mark.parametrize("missing", ["event_time", "label_time", "window"])
def test_late_labels_take_three_together(missing):
    given = {"event_time": "ts", "label_time": "paid", "window": "7d"}
    assert Roles("click", **given).has_late_labels
    assert not Roles("click").has_late_labels
    with pytest.raises(InvalidInput, match=f"^{missing}: got None"):
        _ = Roles("click", **{**given, missing: None}).has_late_labels
