"""The stability index without rows on one side, and by its formula."""

import math

import numpy as np
import pytest

from monocal.metrics.drift import stability_index


@pytest.mark.parametrize(("reference", "counts"), [([0, 0], [5, 5]), ([5, 5], [0, 0]), ([0, 0], [0, 0])])
def test_undefined_if_either_side_has_no_rows(reference, counts):
    found = stability_index(reference, counts)
    assert math.isnan(found.value)
    assert math.isnan(found.noise)


def test_value_and_noise_are_their_formulas():
    a, b = np.array([120.0, 60.0, 20.0]), np.array([30.0, 10.0, 0.0])
    p, q = (a + 0.5) / (200.0 + 1.5), (b + 0.5) / (40.0 + 1.5)
    found = stability_index(a, b)
    assert found.value == pytest.approx(float(np.sum((q - p) * np.log(q / p))), rel=1e-12)
    assert found.noise == pytest.approx(2.0 * (1.0 / 200.0 + 1.0 / 40.0), rel=1e-12)
