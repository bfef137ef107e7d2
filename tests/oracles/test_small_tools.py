"""Worked numbers of small exact tools: bounds of a rate, labels that have not come."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.scores import logit
from monocal.evaluation.stats import MatchedCounts, ratio_interval
from monocal.models.fit import fit_late
from monocal.tables.roles import Roles
from monocal.tables.table import Table


@pytest.mark.parametrize(
    ("positives", "trials", "bound"), [(0, 10, 0.25886555), (1, 20, 0.21610616), (3, 60, 0.12418721)]
)
def test_upper_bound_of_a_rate_by_clopper_and_pearson(positives, trials, bound):
    """One-sided at 5 % is the upper end of the interval at 90 %; an expected rate of 1 leaves one over the bound."""
    counts = MatchedCounts(*(np.array([float(number)]) for number in (positives, trials, trials)))
    low, _ = ratio_interval(counts, 0.9)
    assert 1.0 / low[0] == pytest.approx(bound, abs=5e-9)


def test_labels_that_have_not_come_shift_a_small_rate_by_the_logarithm_of_their_share():
    labels, counts, maturity = np.array([1, 0], np.int8), np.array([1.0, 1e9]), np.full(2, 0.4)
    scores = np.full(2, 1e-9)

    def fit(weights):
        fitted = calibrator("platt").fit(scores, labels, weights=weights)
        return fitted, fitted.predict(scores)

    roles = Roles(score="p", label="y", weight="n")
    rows = replace(Table.read({"p": scores, "y": labels, "n": counts}, roles), maturity=maturity)
    late = fit_late(fit, rows, "y").predict(scores[:1])
    naive = fit(counts)[1][:1]
    assert (logit(naive, 1e-15) - logit(late, 1e-15))[0] == pytest.approx(-0.9162907319, abs=1e-6)
    assert late[0] == pytest.approx(naive[0] / 0.4, rel=1e-6)
