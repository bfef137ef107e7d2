"""Traffic follows the stated power law; effects are centred on it."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.lab.simulator import Field
from monocal.lab.simulator.draws import draw_power_law, power_law_shares


@pytest.mark.parametrize("exponent", [0.7, 1.0, 1.4])
def test_draws_have_the_stated_shares(exponent):
    n = 400_000
    ids = draw_power_law(np.random.default_rng(0).random(n), 50, exponent)
    counts = np.bincount(ids, minlength=51)
    shares = power_law_shares(50, exponent)
    assert counts[0] == 0
    assert np.all(np.abs(counts[1:] - n * shares) < 5 * np.sqrt(n * shares))


def test_effects_have_the_stated_spread_over_traffic():
    field = Field("a", 1000, effect=0.5)
    effects, shares = field.effects(("key",)), power_law_shares(1000, 1.0)
    assert effects[0] == 0.0
    assert abs(shares @ effects[1:]) < 1e-12
    assert np.isclose(np.sqrt(shares @ effects[1:] ** 2), 0.5)


def test_bad_fields_explain_themselves():
    with pytest.raises(InvalidInput, match=r"Field\.size: got 0"):
        Field("a", 0)
    with pytest.raises(InvalidInput, match="24 values for an hour"):
        Field("hour", 12, source="hour")
