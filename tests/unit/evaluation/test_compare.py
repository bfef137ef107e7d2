"""Several methods on the same rows."""

import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.core.errors import UnknownName
from monocal.evaluation.compare import compare
from monocal.evaluation.table import evaluate_table
from monocal.lab.simulator import simulate_log
from monocal.models.fit import fit

LOG = simulate_log(20_000, world="affine").table()
COLUMNS = {"score": "pctr", "label": "click", "time": "timestamp"}


def test_reports_equal_those_of_a_single_fit():
    found = compare(LOG, methods=["platt"], **COLUMNS)
    cut = found.holdout.n_fit
    model = fit(LOG.slice(0, cut), method="platt", **COLUMNS)
    alone = evaluate_table(LOG.slice(cut), model=model).tasks["click"]
    assert found.result("platt").evaluation.value("log_loss") == alone.value("log_loss")
    assert found.result("none").evaluation.value("log_loss") == pytest.approx(alone.before.value("log_loss"))
    assert [result.method for result in found.results] == ["platt", "none"]
    assert found.verdict_against_best(found.best) is None
    assert found.verdict_against_best(found.result("none")) == "worse"


def test_calibrated_scores_tie_with_what_leaves_them_alone():
    log = simulate_log(20_000, world="calibrated").table()
    found = compare(log, methods=["platt"], metric="log_loss", **COLUMNS)
    assert found.tied_with_best == [found.results[1].method]


def test_unknown_names_are_refused_before_anything_is_fitted():
    with pytest.raises(UnknownName, match="did you mean 'platt'"):
        compare(LOG, methods=["plat"], **COLUMNS)
    with pytest.raises(UnknownName, match="method of arguments: got 'beta'"):
        compare(LOG, methods=["platt"], arguments={"beta": {}}, **COLUMNS)
    with pytest.raises(UnknownName, match="method: got 'beta'; expected one of"):
        compare(LOG, methods=["platt"], **COLUMNS).result("beta")


def test_of_a_prepared_log_one_task_is_compared():
    from monocal.tables.roles import Roles
    from monocal.tables.table import Table

    table = simulate_log(4_000, world="multitask").table()
    tasks = {"click": ("click", "pctr"), "view": ("long_view", "plv")}
    log = Table.read(table, Roles(tasks=tasks, time="timestamp")).encoded()
    one, other = compare(log, methods=["platt"]), compare(log, methods=["platt"], label="view")
    labels = [found.best.evaluation.forecast.labels.mean() for found in (one, other)]
    assert labels[0] > labels[1]
    with pytest.raises(UnknownName, match="task: got 'views'; expected one of click, view"):
        compare(log, methods=["platt"], label="views")


def test_a_result_has_the_model_that_was_judged():
    found = compare(LOG, methods=["platt", "per_segment"], n_bootstrap=20, **COLUMNS)
    judged = found.result("platt")
    answers = judged.model.predict(LOG.slice(found.holdout.n_fit))
    assert (answers == judged.evaluation.forecast.probabilities).all()
    assert found.result("per_segment").model is None


def test_a_constant_forecast_is_not_the_best():
    """It has the smallest calibration error and tells no rows apart."""
    log = simulate_log(20_000, world="default").table()
    constant = calibrator("histogram", n_bins=1)
    columns = {"fields": ["site_id", "device"], "n_bootstrap": 50, **COLUMNS}
    found = compare(log, methods=[constant, "platt"], **columns)
    errors = {result.method: result.evaluation.value("ece") for result in found.results}
    assert min(errors, key=errors.__getitem__) == "histogram"
    assert found.metric == "log_loss"
    assert found.best.method == "platt"
    assert found.verdict_against_best(found.result("histogram")) == "worse"
    by_error = compare(log, methods=[constant, "platt"], metric="ece", **columns)
    assert by_error.best.method == "histogram"


@pytest.mark.parametrize(
    "method",
    sorted({"wide_logistic", *CALIBRATORS} - {"umc", "fac", "sbcr", "desc", "mcnet", "adacalib", "umc_concat"}),
)
def test_settings_are_those_of_a_fit(method):
    """The same name stands for the same arguments in both; networks are left out for their time."""
    columns = {"fields": ["site_id"], **COLUMNS}
    log = LOG.slice(0, 5_000)
    found = compare(log, methods=[method], n_bootstrap=10, **columns).result(method)
    alone = fit(log.slice(0, found.model.info["n_rows"]), method=method, **columns)
    assert (found.model.predict(log) == alone.predict(log)).all()
