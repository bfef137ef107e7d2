"""The level of the newest rows: how much of it a network keeps, and that what a user asks for is obeyed."""

import numpy as np
import pytest

import monocal
from monocal.carry_over.describe import RetainedEffects
from monocal.core.scores import logit

N = 6_000
SMALL = {"size": "small", "n_dimensions": 2, "n_epochs": 1}


@pytest.fixture(scope="module")
def rows():
    """Rows whose newest fifth clicks more, in a field that tells nothing."""
    random = np.random.default_rng(0)
    rate = np.where(np.arange(N) < 0.8 * N, 0.10, 0.16)
    labels = (random.random(N) < rate).astype(float)
    return {"scores": np.full(N, 0.1), "labels": labels, "features": random.integers(1, 4, (N, 1))}


def fitted(rows, **arguments):
    return monocal.calibrator("umc", **SMALL, **arguments).fit(**rows)


@pytest.fixture(scope="module")
def half(rows):
    return fitted(rows)


def test_half_of_what_the_newest_fifth_asks_for_is_kept(half):
    taken, asked = half.carry_["level"]
    assert 0.2 < asked < 0.6
    assert taken == 0.5 * asked == half.recent_shift_


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_level_share_is_obeyed(rows, half, share):
    _, asked = half.carry_["level"]
    assert fitted(rows, level_share=share).recent_shift_ == pytest.approx(share * asked, abs=1e-12)


def test_recent_share_is_obeyed_where_effects_are_carried(rows, half):
    newest = fitted(rows, recent_share=0.05)
    taken, asked = newest.carry_["level"]
    assert taken == asked
    p = newest.predict(rows["scores"], features=rows["features"])
    other = half.predict(rows["scores"], features=rows["features"])
    moved = logit(p) - logit(other)
    np.testing.assert_allclose(moved, newest.recent_shift_ - half.recent_shift_, atol=1e-9)
    assert abs(moved[0]) > 1e-3


def test_recent_share_of_zero_takes_no_level(rows):
    assert fitted(rows, recent_share=0.0).recent_shift_ == 0.0


def test_without_carry_over_the_newest_rows_are_followed_in_full(rows):
    full, part = (fitted(rows, carry="none", level_share=share) for share in ("auto", 0.5))
    assert part.recent_shift_ == pytest.approx(0.5 * full.recent_shift_, abs=1e-12)
    assert full.recent_shift_ > 0.05


def test_the_level_taken_and_the_level_asked_for_are_shown(half):
    taken, asked = half.carry_["level"]
    expected = f"level: {taken:+.2f} taken, the newest rows ask for {asked:+.2f}"
    assert expected in RetainedEffects.of(half, ["field"]).remarks
