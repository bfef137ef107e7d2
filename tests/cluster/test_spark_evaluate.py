"""`monocal.spark.evaluate` against `monocal evaluate`: every metric, with the tolerance that its docstring states."""

import math

import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.evaluation.table import evaluate_table
from monocal.metrics import METRICS
from monocal.spark.evaluate import NEEDS_ALL_ROWS, SKETCHED

TASKS = {"click": ("click", "pctr"), "buy": ("buy", "true_p")}


@pytest.fixture(scope="module")
def model(rows):
    fields = {"fields": ["site_id", "device"], "numeric": ["price"]}
    return monocal.fit(rows.slice(0, 6_000), method="wide_logistic", tasks=TASKS, sampling_rate="rate", **fields)


def test_every_metric_has_the_number_of_one_machine_or_says_why_not(spark, folder, rows, model):
    given = {"model": model, "weight": "weight", "metrics": list(METRICS), "time": "timestamp"}
    window = {"since": str(rows["timestamp"][500].as_py())}
    df = spark.read.parquet(str(folder)).repartition(9, "site_id")  # some partitions stay empty, a value lives in one
    found = ms.evaluate(df, **given, **window)
    with pytest.warns(MonocalWarning, match="fitted on"):  # numbers are compared, not used
        local = evaluate_table(rows, **given, **window)
    for task in TASKS:
        for stage, expected in local.tasks[task].stages.items():
            on_spark = found.tasks[task].stages[stage]
            assert on_spark.n_rows == expected.n_rows
            for name in METRICS:
                if name in ("gauc", "ndcg"):
                    assert on_spark.reason(name) == NEEDS_ALL_ROWS
                    assert math.isnan(on_spark.value(name))
                elif name in SKETCHED:
                    # the calibrated `buy` is nearly constant, so that many rows share a cell and bounds are wide
                    bound = on_spark.details(name)["error_bound"]
                    assert abs(on_spark.value(name) - expected.value(name)) <= bound
                    assert task == "buy" or bound <= 3e-2
                else:
                    assert on_spark.value(name) == pytest.approx(expected.value(name), rel=1e-12)
                    assert on_spark.details(name) == pytest.approx(expected.details(name), rel=1e-9)
    assert found.tasks["click"].interval_reason("log_loss") == "resampling needs all rows in one place"


def test_what_is_missing_is_said(spark):
    df = spark.createDataFrame([(0.2, 0), (0.4, 0)], "p double, y int")
    found = ms.evaluate(df, score="p", label="y", metrics=["fece", "auc", "log_loss"]).tasks["y"]
    assert found.reason("fece") == "no field was given"
    assert found.reason("auc").startswith("all labels are 0")
    assert "log_loss" in str(found)
    with pytest.raises(InvalidInput, match="no rows with a label"):
        ms.evaluate(df.limit(0), score="p", label="y")
    with pytest.raises(InvalidInput, match=r"label column 'y': got 2 at row 1 of the table; .* from its row 0 on"):
        ms.evaluate(df.selectExpr("p", "int(p * 5) AS y").coalesce(1), score="p", label="y")
