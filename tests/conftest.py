"""Rows that several test files share."""

from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture
def t10():
    """Ten samples with two fields, small enough to work out by hand: scores s, labels y, fields z and g."""
    return SimpleNamespace(
        s=np.array([0.05, 0.12, 0.18, 0.25, 0.33, 0.41, 0.48, 0.62, 0.77, 0.91]),
        y=np.array([0, 0, 1, 0, 0, 1, 0, 1, 0, 1]),
        z=np.array(["a", "a", "b", "b", "a", "c", "c", "b", "a", "c"]),
        g=np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1]),
    )
