"""Figures: what is drawn is what was measured, and no global state of matplotlib is touched."""

import sys

import numpy as np
import pytest

import monocal
from monocal.report import build_report
from monocal.report.figures import (
    curves_figure,
    drift_figure,
    pcoc_by_value_figure,
    reliability_figure,
)


@pytest.fixture(scope="module")
def task():
    log = monocal.simulate_log(8_000, seed=2).table()
    fields = ["device", "position"]
    model = monocal.fit(log.slice(0, 4_000), method="wide_logistic", score="pctr", label="click", fields=fields)
    return build_report(model, log.slice(4_000), time="timestamp", n_bootstrap=2, n_floor=2).task()


def test_the_reliability_figure_draws_both_curves(task):
    axes = reliability_figure(task.reliability).axes[0]
    drawn = {line.get_label(): line.get_xydata() for line in axes.lines}
    for side, curve in task.reliability.curves.items():
        assert np.array_equal(drawn[side], np.stack([curve.predicted, curve.observed], axis=1))
    assert axes.get_xscale() == "log"


def test_the_value_figure_draws_the_most_frequent_values(task):
    axes = pcoc_by_value_figure(task.fields[1], n_values=4).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(task.fields[1].values[:4])
    assert axes.lines[1].get_xdata() == pytest.approx(task.fields[1].errors.after.cells.pcoc[:4])


def test_the_drift_figure_draws_every_window(task):
    axes = drift_figure(task.drift).axes[0]
    assert len(axes.lines[0].get_xdata()) == task.drift.windows.n_windows


def test_the_curves_figure_draws_every_curve(task):
    assert len(curves_figure(task.curves).axes[0].lines) == len(task.curves.curves) + 1


def test_every_figure_can_be_saved_and_pyplot_stays_unloaded(task, tmp_path):
    loaded = "matplotlib.pyplot" in sys.modules
    for name, figure in {
        "reliability": reliability_figure(task.reliability),
        "values": pcoc_by_value_figure(task.fields[0]),
        "drift": drift_figure(task.drift),
        "curves": curves_figure(task.curves),
    }.items():
        figure.savefig(tmp_path / f"{name}.png", dpi=60)
        assert (tmp_path / f"{name}.png").stat().st_size > 3_000
    assert ("matplotlib.pyplot" in sys.modules) == loaded
