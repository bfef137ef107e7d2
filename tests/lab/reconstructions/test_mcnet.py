"""The two penalties of MCNet, which are all that it adds to UMC."""

import numpy as np
import pytest
import torch

from monocal.calibrators import calibrator
from monocal.lab.reconstructions.mcnet_map import McnetMap
from monocal.neural.maps import umc_parts

KNOTS = [-2.0, -1.0, 0.0, 1.0, 2.0]


def test_penalty_is_the_sum_of_falls_between_neighbouring_bins():
    """Rows in bins 0, 0, 2, 3: bin 1 is empty and left out."""
    network = McnetMap(umc_parts(0, KNOTS, ()), context_width=0, order_weight=2.0)
    logits = torch.tensor([-1.5, -1.2, 0.5, 1.5])
    p = np.array([0.4, 0.6, 0.2, 0.3])
    found = network._disorder(network._sums_of_bins(logits, torch.logit(torch.tensor(p))))
    assert found.item() == pytest.approx(2.0 * (0.5 - 0.2))
    network.train()
    network(logits)
    assert network.penalty().item() == 0.0  # the untrained map is the identity, and so in order


def test_penalty_brings_bins_back_into_order():
    """High scores belong to a site that clicks less, so that bins fall where the sites meet."""
    random = np.random.default_rng(0)
    z = random.normal(0.0, 2.0, size=6000)
    site = np.where(z < 0.0, 1, 2)
    clicks = random.random(6000) < 1.0 / (1.0 + np.exp(-z - np.where(site == 1, 1.0, -1.5)))
    falls = {}
    for weight in (0.0, 20.0):
        one = calibrator("mcnet", hidden=(16,), order_weight=weight, wide=False, carry="none", n_epochs=8, min_count=1)
        p = one.fit(z, clicks, features=site[:, None], scores_are="logit").predict(z, features=site[:, None])
        falls[weight] = p[(z > -0.5) & (z < 0.0)].mean() - p[(z > 0.0) & (z < 0.5)].mean()
    assert falls[0.0] > 0.2
    assert falls[20.0] < 0.5 * falls[0.0]


def test_without_its_penalties_it_is_umc():
    random = np.random.default_rng(1)
    z, features = random.normal(-1.0, 1.5, 4000), random.integers(1, 30, (4000, 2))
    clicks = random.random(4000) < 1.0 / (1.0 + np.exp(-0.7 * z - 0.3 * (features[:, 0] % 3)))
    answers = {}
    for name, options in {
        "umc": {},
        "without": {"order_weight": 0.0, "sc_weight": 0.0},
        "balanced": {"order_weight": 0.0},
    }.items():
        method = calibrator("umc" if name == "umc" else "mcnet", **options)
        answers[name] = method.fit(z, clicks, features=features, scores_are="logit").predict(z, features=features)
    assert np.array_equal(answers["without"], answers["umc"])
    assert not np.array_equal(answers["balanced"], answers["umc"])
