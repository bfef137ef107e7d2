"""Vocabularies and fits by passes, against one machine."""

import numpy as np
import pytest

import monocal
import monocal.spark as ms
from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.team import Alone, Shards
from monocal.vocabulary.vocabulary import Vocabulary

FIELDS = ["site_id", "device", "user_id"]


@pytest.mark.parametrize("limits", [{}, {"min_count": 3, "max_size": 50}])
def test_a_vocabulary_has_the_same_values_in_the_same_order(spark, folder, rows, limits):
    found = ms.vocabulary(spark.read.parquet(str(folder)), FIELDS, **limits)
    assert found.fingerprint == Vocabulary.of_table(rows, FIELDS, **limits).fingerprint


def test_hashed_fields_are_not_counted(spark, folder):
    df = spark.read.parquet(str(folder))
    assert ms.vocabulary(df, ["user_id"], hashed_fields={"user_id": 100}).sizes == (101,)
    with pytest.raises(UnknownName, match="hashed field"):
        ms.vocabulary(df, ["user_id"], hashed_fields={"user": 100})
    with pytest.raises(UnknownName, match="field column"):
        ms.vocabulary(df, ["user"])


@pytest.mark.parametrize("method", ["platt", "histogram", "isotonic"])
def test_a_fit_gives_the_answers_of_one_machine(spark, folder, rows, method):
    roles = {"score": "pctr", "label": "click", "weight": "weight", "sampling_rate": "rate", "time": "timestamp"}
    model = ms.fit(spark.read.parquet(str(folder)), method=method, **roles)
    local = monocal.fit(rows, method=method, **roles)
    np.testing.assert_allclose(model.predict(rows), local.predict(rows), rtol=1e-11)
    assert model.info["learned_from"] == local.info["learned_from"]
    facts, expected = model.info["tasks"]["click"], local.info["tasks"]["click"]
    assert facts["n_rows"] == expected["n_rows"]
    assert facts["label_rate"] == pytest.approx(expected["label_rate"])
    np.testing.assert_allclose(facts["score_edges_logit"], expected["score_edges_logit"], atol=2e-3)


def test_a_fitted_model_is_an_ordinary_one(spark, folder, rows, tmp_path):
    tasks = {"click": ("click", "pctr"), "buy": ("buy", "true_p")}
    model = ms.fit(spark.read.parquet(str(folder)), method="platt", tasks=tasks, fields=["device"])
    model.save(tmp_path / "model")
    loaded = monocal.load(tmp_path / "model")
    local = monocal.fit(rows, method="platt", tasks=tasks, fields=["device"])
    assert loaded.vocabulary.fingerprint == local.vocabulary.fingerprint
    assert loaded.canary["ids"].shape == (32, 1)
    for task, expected in local.predict(rows).items():
        np.testing.assert_allclose(loaded.predict(rows, task), expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "desc"}, "fit it on one machine"),
        ({"method": "umc"}, "a column that tells older rows from newer ones"),
        ({"method": "histogram", "binning": "mass"}, "bins of equal mass"),
        ({"method": "platt", "guard": True}, "guard: got True; wanted off"),
        ({"method": "platt", "recent_share": 0.2}, "recent_share: got 0.2; wanted off"),
    ],
)
def test_what_needs_rows_in_order_is_refused_before_any_job(spark, arguments, message):
    df = spark.createDataFrame([(0.2, 0)], "p double, y int")
    with pytest.raises(InvalidInput, match=message):
        ms.fit(df, score="p", label="y", **arguments)


def test_tasks_of_a_barrier_stage_fit_what_one_process_fits_on_the_same_shards(spark, folder):
    from pyspark.sql import functions as F

    df = spark.read.parquet(str(folder))
    model = ms.fit(df, method="wide_logistic", score="pctr", label="click", fields=["site_id", "device"], workers=2)
    columns = ["click", "site_id", "device", "pctr"]
    dealt = df.select(*columns).repartition(2, *columns).withColumn("shard", F.spark_partition_id())
    table = dealt.toArrow().sort_by([("shard", "ascending"), *((name, "ascending") for name in columns)])
    edges = np.searchsorted(table["shard"].to_numpy(), [0, 1, 2])
    alone = calibrator("wide_logistic").fit(
        table["pctr"].to_numpy(),
        table["click"].to_numpy(),
        features=model.vocabulary.encode(table),
        shards=Shards(Alone(), 2, (0, 1), edges),
    )
    found = model.tasks[0].calibrator
    np.testing.assert_allclose(found.shifts_, alone.shifts_, rtol=0.0, atol=1e-12)
    assert model.info["n_rows"] == table.num_rows
    again = ms.fit(df, method="wide_logistic", score="pctr", label="click", fields=["site_id", "device"], workers=2)
    assert again.fingerprint == model.fingerprint


def test_a_network_is_fitted_in_a_barrier_stage_with_the_same_bits_again(spark, folder, rows):
    df = spark.read.parquet(str(folder)).where("row < 6000")
    given = {"score": "pctr", "label": "click", "fields": ["device"], "time": "timestamp", "workers": 2}
    settings = {"method": "umc", "size": "small", "n_epochs": 1, "n_dimensions": 4}
    models = [ms.fit(df, **given, **settings) for _ in range(2)]
    assert models[0].fingerprint == models[1].fingerprint
    some = rows.slice(0, 6_000)
    local = monocal.fit(some, **{name: given[name] for name in ("score", "label", "fields", "time")}, **settings)
    np.testing.assert_allclose(models[0].predict(some).mean(), local.predict(some).mean(), rtol=0.02)


def test_more_workers_than_slots_are_refused_and_the_session_lives(spark, folder):
    df = spark.read.parquet(str(folder))
    with pytest.raises(InvalidInput, match="at most the 2 slots"):
        ms.fit(df, method="wide_logistic", score="pctr", label="click", workers=3)
    assert df.count() == 30_000
