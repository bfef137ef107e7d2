"""The population stability index: its formula, its noise, and one definition everywhere."""

import math

import numpy as np
import pytest

from monocal.metrics.drift import stability_index


def test_it_is_its_formula():
    p, q = np.array([30.5, 70.5]) / 101.0, np.array([60.5, 40.5]) / 101.0
    assert stability_index([30, 70], [60, 40]).value == pytest.approx(np.sum((q - p) * np.log(q / p)))


def test_swapping_the_samples_changes_nothing():
    assert stability_index([10, 0, 90], [5, 20, 25]) == pytest.approx(stability_index([5, 20, 25], [10, 0, 90]))


def test_noise_is_what_two_samples_of_one_distribution_show():
    rng = np.random.default_rng(0)
    shares = np.full(20, 0.05)
    seen = [stability_index(rng.multinomial(3000, shares), rng.multinomial(2000, shares)) for _ in range(400)]
    assert np.mean([found.value for found in seen]) == pytest.approx(seen[0].noise, rel=0.1)


def test_an_empty_bin_weighs_as_much_as_the_rows_warrant():
    few, many = (stability_index([n, n], [2 * n, 0]).value for n in (10, 10_000))
    assert 0.0 < few < many < math.inf


def test_without_rows_it_is_unknown():
    assert all(math.isnan(number) for number in stability_index([0, 0], [3, 4]))
    assert all(math.isnan(number) for number in stability_index([3, 4], [0, 0]))
