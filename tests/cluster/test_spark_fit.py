"""Vocabularies and fits of Spark tables, against one machine."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput, UnknownName
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

FIELDS = ["site_id", "device", "user_id"]
UMC = {"method": monocal.Umc(size="small", n_epochs=1, n_dimensions=4), "time": "timestamp"}


@pytest.mark.parametrize("limits", [{}, {"min_count": 3, "max_size": 50}])
def test_a_vocabulary_has_the_same_values_in_the_same_order(spark, folder, rows, limits):
    found = ms.vocabulary(spark.read.parquet(str(folder)), FIELDS, **limits)
    assert found.fingerprint == Vocabulary.of_table(rows, FIELDS, **limits).fingerprint


def test_hashed_fields_are_not_counted(spark, folder, rows):
    df = spark.read.parquet(str(folder))
    found = ms.vocabulary(df, ["user_id", "device"], hashed_fields={"user_id": 100})
    device = Vocabulary.of_table(rows, ["device"])["device"]
    assert found.fingerprint == Vocabulary((FieldVocabulary.hashed("user_id", 100), device)).fingerprint
    for fields, hashed in ((["user_id"], {"user": 100}), (["user"], {})):
        with pytest.raises(UnknownName, match="user"):
            ms.vocabulary(df, fields, hashed_fields=hashed)


def test_two_tasks_of_sampled_weighted_rows_are_fitted_as_on_one_machine(spark, folder, rows, tmp_path):
    # whose shares differ in the fourth digit where rows are cut otherwise
    given = {
        "method": monocal.WideLogistic(carry="none"),
        "tasks": {"click": ("click", "pctr"), "buy": ("buy", "true_p")},
    }
    given |= {"fields": ["site_id", "device"], "weight": "weight", "sampling_rate": "rate", "time": "timestamp"}
    df = spark.read.parquet(str(folder)).where("row < 6000")
    found, few = ms.fit(df, **given, workers=2), rows.slice(0, 6_000)
    local = monocal.fit(few, **given)
    loaded = monocal.load(found.save(tmp_path / "model"))
    for task, expected in local.predict(few).items():
        np.testing.assert_allclose(loaded.predict(few, task), expected, rtol=1e-9)
    assert loaded.vocabulary.fingerprint == local.vocabulary.fingerprint
    for fact in ("n_rows", "learned_from", "time_column", "row_sample"):
        assert loaded.info[fact] == local.info[fact]
    assert loaded.info["tasks"]["click"]["label_rate"] == pytest.approx(local.info["tasks"]["click"]["label_rate"])


def test_soft_labels_are_fitted_as_on_one_machine(spark, folder, rows):
    """Labels are quarters: one machine keeps weights of their pieces in float32."""
    given = {"method": monocal.WideLogistic(carry="none"), "score": "pctr", "label": "votes", "soft_labels": True}
    given |= {"fields": ["device"], "time": "timestamp"}
    df = spark.read.parquet(str(folder)).where("row < 6000")
    found = ms.fit(df.selectExpr("*", "ceil(true_p * 4) / 4 AS votes"), **given)
    few = rows.slice(0, 6_000)
    few = few.append_column("votes", pa.array(np.ceil(few["true_p"].to_numpy() * 4.0) / 4.0))
    np.testing.assert_allclose(found.predict(few), monocal.fit(few, **given).predict(few), rtol=1e-8)
    assert found.info["soft_labels"]


def test_a_network_has_the_same_bits_again_and_learns_what_one_machine_learns(spark, folder, rows):
    given = {**UMC, "score": "pctr", "label": "click", "fields": ["site_id", "device"]}
    df = spark.read.parquet(str(folder)).where("row < 12000")
    first, again = (ms.fit(table, **given, workers=2) for table in (df, df.repartition(5)))
    assert first.fingerprint == again.fingerprint
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"  # it is off inside the stage alone
    test, local = rows.slice(12_000), monocal.fit(rows.slice(0, 12_000), **given)
    found = [monocal.evaluate(test["click"], model.predict(test), metrics=["log_loss"]) for model in (first, local)]
    assert found[0].value("log_loss") == pytest.approx(found[1].value("log_loss"), abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "isotonic"}, r"one that several processes can fit together.*Hint: monocal\.fit\(df"),
        ({"method": "umc"}, "a column that tells older rows from newer ones"),
        ({"method": "wide_logistic", "numeric": ["price"]}, "apply and evaluate take that model"),
        ({"method": "wide_logistic", "label_time": "paid"}, "labels that have all come"),
        ({"method": monocal.WideLogistic(carry="none"), "workers": 3}, "workers: got 3; expected at most the 2 slots"),
    ],
)
def test_what_cannot_be_fitted_there_is_refused_before_any_job_and_the_session_lives(spark, arguments, message):
    df = spark.createDataFrame([(0.2, 0)], "p double, y int")
    with pytest.raises(InvalidInput, match=message):
        ms.fit(df, score="p", label="y", **arguments)
    assert df.count() == 1


def test_a_bad_row_and_a_task_without_rows_are_named(spark):
    df = spark.range(50).selectExpr("0.01D * id AS p", "int(id % 2) AS y", "IF(id = 37, -1D, 1D) AS w")
    with pytest.raises(InvalidInput, match="weights: got -1"):
        ms.fit(df, method=monocal.WideLogistic(carry="none"), score="p", label="y", weight="w")
    with pytest.raises(InvalidInput, match="workers: got a task without rows"):
        ms.fit(df.where("id = 3"), method=monocal.WideLogistic(carry="none"), score="p", label="y")
