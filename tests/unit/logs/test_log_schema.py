import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.logs.schema import LogSchema


def test_one_label_column_names_its_task():
    schema = LogSchema(labels="click", fields=["site"], scores="pctr")
    assert dict(schema.labels) == {"click": "click"}
    assert schema.scores == {"click": "pctr"}


def test_columns_lists_every_column_once():
    schema = LogSchema(labels={"view": "is_view"}, fields=["user", "item"], time="t", group="user", sampling_rate="r")
    assert schema.columns == ("is_view", "user", "item", "t", "r")


def test_plain_values_give_an_equal_schema():
    schema = LogSchema(labels=["a", "b"], fields=["x"], weight="w", scores={"a": "s"}, scores_are="logit")
    assert LogSchema.from_dict(schema.to_dict()) == schema


def test_toml_with_and_without_a_schema_table(tmp_path):
    body = 'labels = "click"\nfields = ["site"]\ntime = "hour"\nsampling_rate = 0.5\n'
    (tmp_path / "a.toml").write_text(body)
    (tmp_path / "b.toml").write_text("[schema]\n" + body)
    expected = LogSchema(labels="click", fields=["site"], time="hour", sampling_rate=0.5)
    assert LogSchema.from_toml(tmp_path / "a.toml") == expected
    assert LogSchema.from_toml(tmp_path / "b.toml") == expected


def test_unknown_toml_key_is_refused_with_the_nearest_one(tmp_path):
    (tmp_path / "a.toml").write_text('label = "click"\n')
    with pytest.raises(UnknownName, match=r"key of a.toml: got 'label'; .* did you mean 'labels'\?"):
        LogSchema.from_toml(tmp_path / "a.toml")


def test_broken_toml_says_where(tmp_path):
    (tmp_path / "a.toml").write_text("labels = \n")
    with pytest.raises(InvalidInput, match=r"a.toml \(.*line 1.*\); wanted a readable TOML file"):
        LogSchema.from_toml(tmp_path / "a.toml")
    with pytest.raises(InvalidInput, match=r"none\.toml"):
        LogSchema.from_toml(tmp_path / "none.toml")


def test_toml_without_labels(tmp_path):
    (tmp_path / "a.toml").write_text('fields = ["site"]\n')
    with pytest.raises(InvalidInput, match=r"a.toml: got no labels"):
        LogSchema.from_toml(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("schema", "missing", "role", "near"),
    [
        (LogSchema(labels="clicks", fields=["site"]), "clicks", "label of task 'clicks'", "click"),
        (LogSchema(labels="click", fields=["siteid"]), "siteid", "field", "site"),
        (LogSchema(labels="click", time="hours"), "hours", "time", "hour"),
        (LogSchema(labels="click", group="user"), "user", "group", "user_id"),
        (LogSchema(labels="click", weight="wight"), "wight", "weight", "weight"),
        (LogSchema(labels="click", scores="ctr"), "ctr", "score of task 'click'", "pctr"),
    ],
)
def test_missing_column_is_named_with_its_role_and_the_nearest_column(schema, missing, role, near):
    available = ["click", "site", "hour", "user_id", "weight", "pctr"]
    with pytest.raises(UnknownName) as caught:
        schema.check_columns(available)
    assert str(caught.value).startswith(f"{role} column: got '{missing}'")
    assert str(caught.value).endswith(f"did you mean '{near}'?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": []}, "labels: got no task"),
        ({"labels": "click", "fields": "site"}, r"fields: got 'site'; .*write \['site'\]"),
        ({"labels": "click", "fields": ["a", "a"]}, "fields: got 'a' twice"),
        ({"labels": "click", "fields": ["click"]}, "fields: got 'click', which is also a label"),
        ({"labels": "click", "fields": ["s"], "scores": "s"}, "fields: got 's', which is also"),
        ({"labels": "click", "fields": [""]}, "field: got ''; wanted a column name"),
        ({"labels": "click", "sampling_rate": 0.0}, "sampling_rate: got 0.0"),
        ({"labels": ["a", "b"], "scores": "s"}, "scores: got 's'; wanted a column per task"),
        ({"labels": ["click"], "scores": {"clik": "s"}}, "task of scores: got 'clik'.*did you mean 'click'"),
        ({"labels": "click", "scores_are": "odds"}, "scores_are: got 'odds'"),
    ],
)
def test_a_schema_that_cannot_work_is_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        LogSchema(**arguments)
