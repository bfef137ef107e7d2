"""`monocal.spark.apply` gives what `monocal apply` gives, on real executors."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput, UnknownName
from monocal.models.model import Fusion
from monocal.spark.workers import collected

FIELDS = ["site_id", "device", "hour"]


def fitted(rows, method, **options):
    few = rows.slice(0, 6_000)
    return monocal.fit(few, **{"score": "pctr", "label": "click", "fields": FIELDS, "method": method, **options})


@pytest.mark.parametrize("method", ["isotonic", "umc"])
def test_the_numbers_are_those_of_one_machine_in_the_same_order(spark, folder, rows, method):
    model = fitted(rows, monocal.Umc(n_epochs=1) if method == "umc" else method)
    scored = collected(ms.apply(spark.read.parquet(str(folder)), model))
    assert scored.column_names == [*rows.column_names, "pctr_calibrated"]
    at = scored["row"].to_numpy()
    files = [pq.read_table(path)["row"].to_numpy() for path in sorted(folder.iterdir())]
    for part in files:  # Spark orders files by size; inside a file rows keep their order
        where = np.flatnonzero(np.isin(at, part))
        assert (np.diff(where) == 1).all()
        assert (at[where] == part).all()
    assert (scored["pctr_calibrated"].to_numpy() == model.predict(rows)[at]).all()


def test_two_tasks_with_fusion_and_a_column_of_sampling_rates(spark, folder, rows):
    model = fitted(
        rows,
        "platt",
        score=None,
        label=None,
        tasks={"click": ("click", "pctr"), "buy": ("buy", "true_p")},
        sampling_rate="rate",
    ).with_fusion(Fusion({"click": 2.0, "buy": 1.0}))
    df = spark.read.parquet(str(folder))
    before = df.schema
    scored = collected(ms.apply(df, model, column={"buy": "p_buy"})).sort_by("row")
    assert df.schema == before
    expected = model.predict(rows)
    assert (scored["pctr_calibrated"].to_numpy() == expected["click"]).all()
    assert (scored["p_buy"].to_numpy() == expected["buy"]).all()
    assert (scored["fused_score"].to_numpy() == model.fusion.fuse(expected)).all()


def test_fields_of_every_type_find_their_values(spark, tmp_path):
    day = datetime.datetime(2024, 5, 1)
    n = 600
    moments = [day + datetime.timedelta(hours=number % 7) for number in range(n)]
    table = pa.table(
        {
            "p": np.linspace(0.05, 0.6, n),
            "y": (np.arange(n) % 3 == 0).astype(np.int8),
            "row": np.arange(n),
            "ms": pa.array(moments, pa.timestamp("ms")),
            "zoned": pa.array(moments, pa.timestamp("us", "Europe/Berlin")),
            "day": pa.array([moment.date() for moment in moments]),
            "flag": pa.array([number % 2 == 0 for number in range(n)]),
            "unsigned": pa.array([2**63 + number % 5 for number in range(n)], pa.uint64()),
            "tiny": pa.array([number % 4 for number in range(n)], pa.int8()),
            "coded": pa.array([f"v{number % 6}" for number in range(n)]).dictionary_encode(),
        }
    )
    fields = ["ms", "zoned", "day", "flag", "unsigned", "tiny", "coded"]
    pq.write_table(table, tmp_path / "t.parquet")
    model = monocal.fit(table, method="wide_logistic", score="p", label="y", fields=fields)
    assert (model.vocabulary.encode(table) > 0).all()
    scored = collected(ms.apply(spark.read.parquet(str(tmp_path / "t.parquet")), model)).sort_by("row")
    assert (scored["p_calibrated"].to_numpy() == model.predict(table)).all()


def test_intervals_of_a_model_with_numbers(spark, folder, rows):
    model = fitted(rows, "wide_logistic", fields=["site_id"], numeric=["rate", "weight"])
    df = spark.read.parquet(str(folder))
    scored = collected(ms.apply(df, model, interval=0.9)).sort_by("row")
    expected = model.predict(rows, interval=0.9)
    assert (scored["pctr_calibrated"].to_numpy() == expected.probabilities).all()
    assert (scored["pctr_calibrated_lower"].to_numpy() == expected.lower).all()
    assert (scored["pctr_calibrated_upper"].to_numpy() == expected.upper).all()
    with pytest.raises(InvalidInput, match="one with intervals of rows"):
        ms.apply(df, fitted(rows, "platt", fields=[]), interval=0.9)


def test_a_bad_row_is_named_or_becomes_null(spark, rows):
    model = fitted(rows, "platt", fields=[])
    scores = [(number, None if number == 37 else 7.0 if number == 38 else 0.01 * number) for number in range(40)]
    df = spark.createDataFrame(scores, "id int, pctr double").repartition(1).sortWithinPartitions("id")
    with pytest.raises(Exception, match=r"score column 'pctr': got null in row 37 of partition 0 \(2 such rows"):
        ms.apply(df, model).collect()
    found = [row.pctr_calibrated for row in ms.apply(df, model, on_error="null").collect()]
    assert found[37] is None
    assert found[38] is None
    good = pa.table({"pctr": [score for _, score in scores[:37]]})
    assert found[:37] == model.predict(good).tolist()
    with pytest.raises(InvalidInput, match=r"got null in row 37 of partition 0, 2 such rows"):
        ms.check_rows(df, model)
    ms.check_rows(df.limit(20), model)


def test_a_bad_row_of_a_file_is_named_with_the_file(spark, rows, tmp_path):
    good = pa.table({"pctr": [0.1, 0.2, 0.3]})
    pq.write_table(good, tmp_path / "monday.parquet")
    pq.write_table(pa.table({"pctr": [0.1, float("nan"), 0.3]}), tmp_path / "tuesday.parquet")
    with pytest.raises(InvalidInput, match=r"got nan in row 1 of partition \d+ \(file:.*tuesday\.parquet\)"):
        ms.check_rows(spark.read.parquet(str(tmp_path)), fitted(rows, "platt", fields=[]))


def test_a_table_without_a_column_is_refused_before_any_job(spark, rows):
    model = fitted(rows, "platt", fields=[])
    with pytest.raises(UnknownName, match="pctr"):
        ms.apply(spark.range(3), model)
    with pytest.raises(InvalidInput, match="which is there already"):
        ms.apply(spark.createDataFrame([(0.1,)], "pctr double"), model, column="pctr")
    with pytest.raises(InvalidInput, match="on_error"):
        ms.apply(spark.createDataFrame([(0.1,)], "pctr double"), model, on_error="skip")
