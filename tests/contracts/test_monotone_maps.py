"""Every map from logit to logit against every law, on deliberately sharp weights."""

import numpy as np
import pytest
import torch

from monocal.core.monotonicity import NotMonotone, probe_logits
from monocal.lab.reconstructions.adacalib_map import AdaCalibMap
from monocal.lab.reconstructions.adacalib_statistics import value_statistics
from monocal.lab.reconstructions.mcnet_map import McnetMap
from monocal.neural.torch_maps import (
    DescMap,
    FacMap,
    MonotoneMap,
    PiecewiseMap,
    SbcrMap,
    UmcMap,
    assert_monotone,
)

KNOTS = [-4.0, -2.5, -1.0, 0.0, 0.7, 2.0]
WIDTH = 12


def adacalib(hard_monotone):
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=4000)
    labels = (rng.uniform(size=4000) < scores**2).astype(float)
    values = rng.integers(0, 3, size=4000)
    parts = [value_statistics(scores, labels, values, 5, n_bins) for n_bins in (5, 10)]
    return AdaCalibMap(
        [torch.as_tensor(part.edges) for part in parts],
        [torch.as_tensor(part.statistics) for part in parts],
        torch.as_tensor(np.bincount(values, minlength=5)),
        hard_monotone=hard_monotone,
    )


MAPS = {
    "umc concat": lambda: UmcMap(WIDTH, identity_start=False),
    "umc concat no rescaling": lambda: UmcMap(WIDTH, identity_start=False, rescaling=False),
    "umc knots": lambda: UmcMap(WIDTH, integrand="knots", knots=KNOTS, trunk=(32, 16), identity_start=False),
    "umc two knots": lambda: UmcMap(WIDTH, integrand="knots", knots=[0.0, 1.0], trunk=(8,), identity_start=False),
    "umc without features": lambda: UmcMap(0, identity_start=False, rescaling=False),
    "umc knots without features": lambda: UmcMap(0, integrand="knots", knots=KNOTS, identity_start=False),
    "umc clenshaw-curtis": lambda: UmcMap(WIDTH, integral="clenshaw_curtis", identity_start=False),
    "umc as UMNN integrates": lambda: UmcMap(WIDTH, integral="umnn", identity_start=False),
    "umc gauss-legendre": lambda: UmcMap(WIDTH, integral="gauss_legendre", n_steps=32, identity_start=False),
    "fac": lambda: FacMap(WIDTH),
    "fac hard": lambda: FacMap(WIDTH, hard_monotone=True),
    "mcnet": lambda: McnetMap(WIDTH, knots=KNOTS, hidden=(32, 16), identity_start=False),
    "sbcr": lambda: SbcrMap(WIDTH),
    "sbcr without features": lambda: SbcrMap(0),
    "desc": lambda: DescMap(3, 4),
    "desc hard": lambda: DescMap(3, 4, hard_monotone=True),
    "piecewise": lambda: PiecewiseMap(),
    "piecewise hard": lambda: PiecewiseMap(hard_monotone=True),
    "adacalib": lambda: adacalib(False),
    "adacalib hard": lambda: adacalib(True),
}
EVERY = pytest.mark.parametrize("name", MAPS)
GUARANTEED = [name for name, build in MAPS.items() if build().monotone != "none"]


def context_for(monotone_map, n_rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if isinstance(monotone_map, AdaCalibMap):
        return torch.randint(0, 5, (n_rows, 1), generator=generator)
    if monotone_map.context_width == 0:
        return None
    return torch.randn(n_rows, monotone_map.context_width, generator=generator)


def sharpen_(monotone_map, factor, seed=1):
    """Makes every weight matrix `factor` times larger and disturbs everything else, as hard training could."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in monotone_map.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.mul_(factor).add_(0.3 * noise if parameter.ndim < 2 else 0.05 * noise)


def test_guaranteed_maps_are_the_expected_ones():
    assert set(MAPS) - set(GUARANTEED) == {
        "umc clenshaw-curtis",
        "umc gauss-legendre",
        "umc as UMNN integrates",
        "fac",
        "desc",
        "piecewise",
        "adacalib",
    }


@pytest.mark.parametrize("name", GUARANTEED)
@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_never_decreases_on_sharp_weights(name, factor):
    monotone_map = MAPS[name]().eval()
    sharpen_(monotone_map, factor)
    check = assert_monotone(monotone_map, context_for(monotone_map, 8))
    assert check.worst_fall == 0.0


def test_never_decreases_with_a_saturated_integrand():
    monotone_map = MAPS["umc concat"]()
    sharpen_(monotone_map, 4.0)
    with torch.no_grad():
        monotone_map.curve.third.bias.fill_(-20.0)
    assert assert_monotone(monotone_map, context_for(monotone_map, 12)).worst_fall == 0.0


def test_knots_never_decrease_between_neighbouring_float64_numbers():
    monotone_map = MAPS["umc knots"]()
    sharpen_(monotone_map, 10.0)
    starts = np.concatenate([KNOTS, np.random.default_rng(0).uniform(-6, 6, 200)])
    chain = [np.nextafter(starts, -np.inf), starts]
    for _ in range(20):
        chain.append(np.nextafter(chain[-1], np.inf))
    logits = np.unique(np.concatenate(chain))
    assert assert_monotone(monotone_map, context_for(monotone_map, 20), logits=logits).worst_fall == 0.0


@pytest.mark.parametrize("name", ["umc clenshaw-curtis", "umc gauss-legendre", "desc", "fac", "piecewise", "adacalib"])
def test_maps_tagged_none_do_decrease_somewhere(name):
    """The tag is honest: weights exist on which the map falls."""
    monotone_map = MAPS[name]().eval()
    sharpen_(monotone_map, -1.0 if name == "adacalib" else 10.0)
    with pytest.raises(NotMonotone, match="down by"):
        assert_monotone(monotone_map, context_for(monotone_map, 8))


@EVERY
def test_every_parameter_receives_a_gradient(name):
    monotone_map = MAPS[name]().train()
    if name.startswith(("fac", "piecewise")):  # ordered values leave the penalty flat
        with torch.no_grad():
            monotone_map.line.values[40], monotone_map.line.values[41] = 1.0, -1.0
    context = context_for(monotone_map, 600)
    logits = torch.linspace(-6, 5, 600)
    loss = monotone_map(logits, context).square().mean() + monotone_map.penalty()
    loss.backward()
    for parameter_name, parameter in monotone_map.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@EVERY
def test_one_row_equals_the_same_row_in_a_batch(name):
    monotone_map = MAPS[name]().eval()
    context, logits = context_for(monotone_map, 40), torch.linspace(-5, 5, 40)
    together = monotone_map(logits, context)
    for row in (0, 17, 39):
        alone = monotone_map(logits[row : row + 1], None if context is None else context[row : row + 1])
        torch.testing.assert_close(alone, together[row : row + 1], rtol=1e-5, atol=1e-5)


@EVERY
def test_curves_agree_with_forward(name):
    monotone_map = MAPS[name]().eval()
    context, logits = context_for(monotone_map, 3), torch.linspace(-5, 5, 30)
    curves = monotone_map.curves(logits, context)
    assert curves.shape == (1 if context is None else 3, 30)
    for c, curve in enumerate(curves):
        copies = None if context is None else context[c][None].expand(30, -1)
        torch.testing.assert_close(curve, monotone_map(logits, copies), rtol=1e-5, atol=1e-5)


@EVERY
def test_finite_for_extreme_logits_and_in_the_dtype_of_the_input(name):
    monotone_map = MAPS[name]().eval()
    logits = torch.tensor([-40.0, -16.2, 0.0, 16.2, 40.0])
    for dtype in (torch.float32, torch.float64):
        result = monotone_map(logits.to(dtype), context_for(monotone_map, 5))
        assert result.dtype == dtype
        assert torch.isfinite(result).all()


@EVERY
def test_saving_and_loading_the_state_gives_identical_numbers(name):
    first, second = MAPS[name]().eval(), MAPS[name]().eval()
    sharpen_(first, 1.3)
    context, logits = context_for(first, 20), torch.linspace(-4, 4, 20)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(logits, context), second(logits, context))


@EVERY
def test_building_is_deterministic_and_leaves_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    first, second = MAPS[name](), MAPS[name]()
    assert torch.equal(before, torch.random.get_rng_state())
    for (key, weight), (_, other) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
        assert torch.equal(weight, other), key


@pytest.mark.parametrize(
    "build",
    [
        lambda: UmcMap(WIDTH),
        lambda: UmcMap(WIDTH, rescaling=False),
        lambda: UmcMap(WIDTH, integral="clenshaw_curtis"),
        lambda: UmcMap(WIDTH, integrand="knots", knots=KNOTS, trunk=(16,)),
        lambda: UmcMap(0),
        lambda: UmcMap(0, integrand="knots", knots=KNOTS),
    ],
)
def test_identity_start_returns_the_input(build):
    monotone_map: MonotoneMap = build()
    logits = torch.tensor(np.r_[probe_logits(n_points=101), -40.0, 40.0], dtype=torch.float32)
    result = monotone_map(logits, context_for(monotone_map, len(logits)))
    torch.testing.assert_close(result, logits, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    "build", [lambda: FacMap(WIDTH, identity_start=True), lambda: SbcrMap(WIDTH, identity_start=True)]
)
def test_identity_start_returns_the_input_within_the_range_of_the_method(build):
    monotone_map = build()
    logits = torch.linspace(-4.5, 4.5, 41)
    torch.testing.assert_close(monotone_map(logits, context_for(monotone_map, 41)), logits, rtol=0, atol=1e-3)


@EVERY
def test_a_wrong_context_is_refused_in_words(name):
    monotone_map = MAPS[name]()
    if monotone_map.context_width == 0:
        assert monotone_map(torch.zeros(2), torch.zeros(2, 7)).shape == (2,)
        return
    with pytest.raises(ValueError, match=r"context: got None; expected a tensor of shape \(rows, \d+\)"):
        monotone_map(torch.zeros(2))
    with pytest.raises(ValueError, match=r"context: got a tensor of shape \(2, 99\)"):
        monotone_map(torch.zeros(2), torch.zeros(2, 99))
    with pytest.raises(ValueError, match="logits: got a tensor of shape"):
        monotone_map(torch.zeros(2, 1), torch.zeros(2, monotone_map.context_width))


def test_chains_of_neighbouring_numbers_find_what_a_grid_misses():
    class Wobbling(MonotoneMap):
        def __init__(self):
            super().__init__(0, "none")

        def _condition(self, context, n_rows):
            return ()

        def _evaluate(self, logits, condition):
            return logits - 1e-3 * torch.sin(1e6 * logits)

    assert assert_monotone(Wobbling(), logits=probe_logits(n_chains=0)).worst_fall == 0.0
    with pytest.raises(NotMonotone):
        assert_monotone(Wobbling())
