"""Several methods on the same rows."""

import pytest

from monocal.core.errors import UnknownName
from monocal.judging.compare_methods import compare_methods
from monocal.judging.judged_fit import fit_and_judge
from monocal.lab.simulator import simulate_log

LOG = simulate_log(20_000, world="affine").table()
COLUMNS = {"score": "pctr", "label": "click", "time": "timestamp"}


def test_reports_equal_those_of_a_single_fit():
    found = compare_methods(LOG, ["platt"], **COLUMNS)
    alone = fit_and_judge(LOG, method="platt", **COLUMNS).tasks["click"]
    assert found.result("platt").report.value("log_loss") == alone.after.value("log_loss")
    assert found.result("none").report.value("log_loss") == pytest.approx(alone.before.value("log_loss"))


def test_proper_scores_are_sorted_by_value():
    found = compare_methods(LOG, ["platt", "temperature"], metric="log_loss", **COLUMNS)
    losses = [one.report.value("log_loss") for one in found.results]
    assert losses == sorted(losses)
    assert found.best.method == "platt"
    assert found.verdict_against_best(found.best) is None
    assert found.verdict_against_best(found.result("none")) == "worse"


def test_calibrated_scores_tie_with_what_leaves_them_alone():
    log = simulate_log(20_000, world="calibrated").table()
    found = compare_methods(log, ["platt"], metric="log_loss", **COLUMNS)
    assert found.tied_with_best == [found.results[1].method]


def test_unknown_names_are_refused_before_anything_is_fitted():
    with pytest.raises(UnknownName, match="did you mean 'platt'"):
        compare_methods(LOG, ["plat"], **COLUMNS)
    with pytest.raises(UnknownName, match="method of arguments: got 'beta'"):
        compare_methods(LOG, ["platt"], arguments={"beta": {}}, **COLUMNS)
    with pytest.raises(UnknownName, match="method: got 'beta'; wanted one of"):
        compare_methods(LOG, ["platt"], **COLUMNS).result("beta")


def test_of_a_prepared_log_one_task_is_compared():
    from monocal.core.roles import Roles
    from monocal.logs.row_log import log_of_rows
    from monocal.tables.read import read

    table = simulate_log(4_000, world="multitask").table()
    tasks = {"click": ("click", "pctr"), "view": ("long_view", "plv")}
    log = log_of_rows(read(table, Roles.of(tasks=tasks, time="timestamp")))
    one, other = compare_methods(log, ["platt"]), compare_methods(log, ["platt"], label="view")
    labels = [found.best.report.forecast.labels.mean() for found in (one, other)]
    assert labels[0] > labels[1]
    with pytest.raises(UnknownName, match="task: got 'views'; wanted one of click, view"):
        compare_methods(log, ["platt"], label="views")
