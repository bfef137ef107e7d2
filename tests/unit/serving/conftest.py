"""Small fitted models for the engine."""

import numpy as np
import pytest

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models import Fusion

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
TASKS = {"click": ("click", "pctr"), "effective_view": ("effective_view", "pev"), "long_view": ("long_view", "plv")}


@pytest.fixture(scope="package")
def log():
    return simulate_log(4000, seed=3, tasks=("click", "effective_view", "long_view")).table()


@pytest.fixture(scope="package")
def model(log):
    """Three tasks, six fields, a fusion rule."""
    fitted = monocal.fit(log, method="wide_logistic", tasks=TASKS, fields=FIELDS)
    return fitted.with_fusion(Fusion({"click": 1.0, "long_view": 2.0}, {"long_view": 0.5}))


@pytest.fixture
def rng():
    return np.random.default_rng(11)
