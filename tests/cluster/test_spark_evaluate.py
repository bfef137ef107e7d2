"""`monocal.spark.evaluate` against `monocal evaluate`: every metric, with the tolerance that its docstring states."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.evaluation.table import evaluate_table
from monocal.metrics import METRICS

SKETCHED = {"auc", "adaptive_ece", "cal_n"}
TASKS = {"click": ("click", "pctr"), "buy": ("buy", "true_p")}


@pytest.fixture(scope="module")
def model(rows):
    return monocal.fit(
        rows.slice(0, 6_000), method="wide_logistic", tasks=TASKS, fields=["site_id", "device"], sampling_rate="rate"
    )


@pytest.fixture(scope="module")
def local(rows, model):
    with pytest.warns(MonocalWarning, match="fitted on"):  # numbers are compared, not believed
        return evaluate_table(rows, model=model, group="user_id", weight="weight", metrics=list(METRICS))


@pytest.fixture(scope="module")
def found(spark, folder, model):
    df = spark.read.parquet(str(folder)).repartition(9, "site_id")  # some partitions stay empty, a value lives in one
    return ms.evaluate(df, model=model, group="user_id", weight="weight", metrics=list(METRICS))


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_the_number_of_one_machine(local, found, name):
    for task in TASKS:
        for stage in ("before", "after"):
            one, report = found.tasks[task].stages[stage], local.tasks[task].stages[stage]
            assert one.n_rows == report.n_rows
            if name == "mvce":
                assert one.reason(name) == "needs every row in one place"
                assert math.isnan(one.value(name))
                continue
            assert one.reason(name) == report.reason(name)
            if name in SKETCHED:
                # the calibrated `buy` is nearly constant, so that many rows share a cell and bounds are wide
                bound = one.details(name)["error_bound"]
                assert abs(one.value(name) - report.value(name)) <= bound
                assert task == "buy" or bound <= 1e-2
            else:
                assert one.value(name) == pytest.approx(report.value(name), rel=1e-12)
                assert one.details(name) == pytest.approx(report.details(name), rel=1e-9)


def test_exact_auc_has_the_same_bits(spark, folder, rows):
    df = spark.read.parquet(str(folder))
    exact = ms.evaluate(df, score="pctr", label="click", metrics=["auc"], exact=True)
    local = evaluate_table(rows, score="pctr", label="click", metrics=["auc"])
    assert exact.tasks["click"].value("auc") == local.tasks["click"].value("auc")


def test_what_is_missing_is_said(spark):
    df = spark.createDataFrame([(0.2, 0), (0.4, 0)], "p double, y int")
    found = ms.evaluate(df, score="p", label="y", metrics=["fece", "gauc", "auc", "log_loss"]).tasks["y"]
    assert found.reason("fece") == "no field was given"
    assert found.reason("gauc") == "no groups were given"
    assert found.reason("auc").startswith("all labels are 0")
    assert "log_loss" in str(found)
    with pytest.raises(InvalidInput, match="no rows with a label"):
        ms.evaluate(df.limit(0), score="p", label="y")
    with pytest.raises(InvalidInput, match="the model's own score columns"):
        ms.evaluate(
            df, model=monocal.fit({"p": [0.1, 0.4], "y": [0, 1]}, method="none", score="p", label="y"), score="p"
        )


def test_the_command_line_applies_and_evaluates_on_spark(spark, folder, rows, model, tmp_path, capsys):
    from monocal.cli.main import main

    model.save(tmp_path / "model")
    scored = tmp_path / "scored"
    assert main(["apply", str(tmp_path / "model"), str(folder), "--out", str(scored), "--engine", "spark"]) == 0
    assert (scored / "_SUCCESS").exists()
    written = pq.read_table(scored).sort_by("row")
    assert written["pctr_calibrated"].to_numpy().tolist() == model.predict(rows)["click"].tolist()
    assert main(["apply", str(tmp_path / "model"), str(folder), "--out", str(scored), "--engine", "spark"]) == 2
    assert "a folder that is not there yet" in capsys.readouterr().err
    arguments = ["evaluate", str(tmp_path / "model"), str(folder), "--metrics", "pcoc,auc", "--engine", "spark"]
    assert main(arguments) == 0
    assert "from a sketch, at most" in capsys.readouterr().out


def test_a_bad_row_publishes_nothing(spark, tmp_path, capsys):
    from monocal.cli.main import main

    monocal.fit({"p": [0.1, 0.4], "y": [0, 1]}, method="none", score="p", label="y").save(tmp_path / "model")
    pq.write_table(pa.table({"p": [0.2, None]}), tmp_path / "bad.parquet")
    arguments = [str(tmp_path / "model"), str(tmp_path / "bad.parquet"), "--out", str(tmp_path / "out")]
    assert main(["apply", *arguments, "--engine", "spark"]) == 2
    assert "got null in row 1 of partition 0 (file:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
