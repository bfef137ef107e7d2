"""Every exported calibrator keeps every law."""

import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.testing.calibrator_laws import LAWS

ARGUMENTS = {
    "per_segment": {"min_events": 5},
    "desc": {"n_epochs": 1, "n_dimensions": 4},
}
"""Options that make a method quick on a few thousand rows."""

VARIANTS = [
    ("histogram", {"binning": "mass"}),
    ("isotonic", {"recent_share": 0.2}),
    ("sir", {"binning": "mass", "n_bins": 15}),
    ("platt", {"targets": "platt"}),
    ("wide_logistic", {"recent_share": 0.2}),
    ("per_segment", {"method": "isotonic", "field": 1, "min_events": 20}),
    ("platt", {"guard": True}),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
@pytest.mark.parametrize("method", CALIBRATORS)
def test_law(method, law):
    law(calibrator(method, **ARGUMENTS.get(method, {})))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
@pytest.mark.parametrize(("method", "arguments"), VARIANTS, ids=[f"{m}-{'-'.join(a)}" for m, a in VARIANTS])
def test_law_holds_for_variants(method, arguments, law):
    law(calibrator(method, **arguments))
