"""Every exported calibrator keeps every law."""

import numpy as np
import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.lab.simulator import simulate_log
from monocal.neural.base import NeuralCalibrator
from monocal.testing.calibrator_laws import LAWS

ARGUMENTS = {
    "per_segment": {"min_events": 5},
    "umc_concat": {"size": "small"},
    "fac": {"hidden": (32,)},
    "sbcr": {"hidden": (32,)},
    "mcnet": {"hidden": (32,)},
    "desc": {"hidden": (16,), "n_dimensions": 4},
    "adacalib": {"candidate_bins": (5, 10)},
}
"""Options that make a method quick on a few thousand rows."""

VARIANTS = [
    ("histogram", {"binning": "mass"}),
    ("isotonic", {"recent_share": 0.2}),
    ("sir", {"binning": "mass", "n_bins": 15}),
    ("wide_logistic", {"recent_share": 0.2}),
    ("per_segment", {"method": "isotonic", "field": 1, "min_events": 20}),
    ("confcalib", {"fusion": "logit"}),
    ("confcalib", {"recent_share": 0.2}),
    ("mlplatt", {"query_side_fields": (1,)}),
    ("mbct", {"min_rows": 100, "min_positives": 5.0, "n_trees": 4}),
    ("platt", {"guard": True}),
    ("umc_concat", {"umnn": False}),
    ("umc_concat", {"use_features": False}),
    ("umc_concat", {"rescaling": False, "size": "small"}),
    ("umc", {"embeddings": "none"}),
    ("umc", {"sc_weight": 1.0, "auxiliary": "field"}),
    ("fac", {"hidden": (32,), "hard_monotone": True, "sc_weight": 1.0}),
    ("sbcr", {"hidden": (32,), "sc_weight": 1.0}),
    ("desc", {"hidden": (16,), "n_dimensions": 4, "hard_monotone": True, "sc_weight": 1.0}),
]


RANDOM_STARTS = [
    ("umc", {"wide": False}),
    ("umc_concat", {"preset": "authors", "n_epochs": 3, "batch_rows": 500}),
    ("adacalib", {"hard_monotone": True, "field": 1, "candidate_bins": (5, 10)}),
]
"""From a random start, or without shifts, a few thousand rows are not enough for laws about how good a fit is."""

NEEDS_MORE_ROWS = {"check_calibrated_scores_are_not_made_worse", "check_weights_are_repetitions"}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
@pytest.mark.parametrize("method", CALIBRATORS)
def test_law(method, law):
    law(calibrator(method, **ARGUMENTS.get(method, {})))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
@pytest.mark.parametrize(("method", "arguments"), VARIANTS, ids=[f"{m}-{'-'.join(a)}" for m, a in VARIANTS])
def test_law_holds_for_variants(method, arguments, law):
    law(calibrator(method, **arguments))


@pytest.mark.parametrize(
    "law", [law for law in LAWS if law.__name__ not in NEEDS_MORE_ROWS], ids=lambda law: law.__name__[6:]
)
@pytest.mark.parametrize(("method", "arguments"), RANDOM_STARTS, ids=[method for method, _ in RANDOM_STARTS])
def test_law_holds_after_a_random_start(method, arguments, law):
    law(calibrator(method, **arguments))


@pytest.mark.parametrize(
    "method", [name for name, kind in CALIBRATORS.items() if not issubclass(kind, NeuralCalibrator)]
)
def test_the_tag_says_whether_the_mean_is_kept(method):
    """The law only checks methods that promise it; one that forgets to promise would escape."""
    log = simulate_log(4000, seed=0)
    features = np.ascontiguousarray(log.features[:, [2, 5]])
    fitted = calibrator(method).fit(log.scores, log.labels, features=features)
    ratio = fitted.predict(log.scores, features=features).mean() / log.labels.mean()
    assert fitted.tags.keeps_mean == (abs(ratio - 1.0) < 1e-4)
