"""Rows whose true probabilities are known."""

import numpy as np
import pytest


@pytest.fixture
def world():
    """True probabilities of 40,000 rows, labels drawn from them, and the generator that drew them."""
    rng = np.random.default_rng(7)
    truth = rng.uniform(0.01, 0.2, 40_000)
    return truth, (rng.random(40_000) < truth).astype(int), rng
