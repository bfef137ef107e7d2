"""Refresh, gate and watch on Spark tables: what they find in the same rows of a file."""

import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.models.refresh import refresh_model


@pytest.fixture(scope="module")
def models(rows, tmp_path_factory):
    """A model of the oldest third active, and a challenger."""
    place = tmp_path_factory.mktemp("models")
    given = {"score": "pctr", "label": "click", "fields": ["device"], "time": "timestamp"}
    for method in ("none", "wide_logistic"):
        monocal.fit(rows.slice(0, 10_000), method=method, **given).save(place / method)
    return place


@pytest.fixture(scope="module")
def newer(spark, rows, tmp_path_factory):
    """Newer rows as a file, and as a shuffled Spark table with further columns."""
    path = tmp_path_factory.mktemp("newer") / "day.parquet"
    pq.write_table(rows.slice(10_000), path)
    return path, spark.read.parquet(str(path)).repartition(5)


def test_a_gate_compares_row_by_row(models, newer):
    path, df = newer
    old, new = models / "none", models / "wide_logistic"
    found, local = (monocal.gate(old, new, table, by=["device"]) for table in (df, str(path)))
    click, expected = found.tasks["click"], local.tasks["click"]
    assert found.passed == local.passed
    assert found.n_rows == local.n_rows == 20_000
    assert click.overall.difference == pytest.approx(expected.overall.difference, rel=1e-9)
    assert click.pcoc == pytest.approx(expected.pcoc, rel=1e-12)
    assert {segment.value for segment in click.segments} == {segment.value for segment in expected.segments}


def test_a_refresh_learns_the_same(models, newer, rows):
    path, df = newer
    model = monocal.load(models / "wide_logistic")
    found, local = (refresh_model(model, table) for table in (df, str(path)))
    assert found.predict(rows) == pytest.approx(local.predict(rows), rel=1e-6)
    assert found.info["learned_from"] == local.info["learned_from"]


def test_a_watch_sees_the_same_days_from_the_command_line(models, newer, tmp_path, capsys):
    path, _ = newer
    told = []
    for engine in ("local", "spark"):
        options = ["--time", "timestamp", "--every", "86400", "--by", "device", "--state", str(tmp_path / engine)]
        arguments = ["watch", str(models / "wide_logistic"), str(path), *options, "--engine", engine, "--json"]
        told.append((main(arguments), capsys.readouterr().out))
    assert told[0] == told[1]
