"""What a fit carries forward is chosen by field names, shown to people, and kept by the artefact."""

import pytest

import monocal
from monocal.core.errors import UnknownName
from monocal.lab.simulator import simulate_log
from monocal.models.inspect import inspect_folder

FIELDS = ["product_id", "store_id", "weekday"]


@pytest.fixture(scope="module")
def table():
    return simulate_log(8000, world="drifting").table()


def fit(table, **arguments):
    method = monocal.WideLogistic(**arguments)
    return monocal.fit(table, method=method, score="pctr", label="click", fields=FIELDS, time="timestamp")


def test_the_table_names_every_field_and_survives_saving(table, tmp_path):
    model = fit(table, carry={"store_id": 0.25})
    lines = model.carried("click")
    assert lines[0].split() == ["field", "values", "retained", "recurring", "values"]
    assert [line.split()[0] for line in lines[1:4]] == FIELDS
    assert "0.25 (given)" in lines[2]
    model.save(tmp_path / "model")
    text = inspect_folder(tmp_path / "model").text
    for line in lines:
        assert line in text


def test_a_field_that_names_the_day_is_named_with_the_way_out(table):
    days = [f"day {value // 86_400_000_000}" for value in table.column("timestamp").cast("int64").to_pylist()]
    seconds = [f"day {value // 86_400}" for value in table.column("timestamp").cast("int64").to_pylist()]
    dated = table.append_column("day", [days if len(set(days)) > 1 else seconds])
    model = monocal.fit(
        dated, method=monocal.WideLogistic(carry="auto"), score="pctr", label="click", fields=["product_id", "day"],
        time="timestamp",
    )  # fmt: skip
    assert any('carry={"day": 1.0} keeps it' in line for line in model.carried("click"))


def test_a_method_that_believes_everything_says_nothing(table):
    assert fit(table).carried("click") == []


def test_an_unknown_field_is_refused_with_the_nearest_one(table):
    with pytest.raises(UnknownName, match="did you mean 'store_id'"):
        fit(table, carry={"store": 1.0})
