"""Gradients of every map are the mathematical ones where it is put together from pieces, and at the start.

Releases of torch differ in the gradient of `clamp` at its bounds. A start as the identity and knots at quantiles of the
score put many numbers exactly where two pieces meet.
"""

from functools import partial

import numpy as np
import pytest
import torch

from monocal.compiled.jit import LOG_SCALE_LIMIT
from monocal.lab.exact_concat.torch_map import ConcatMap
from monocal.lab.reconstructions.adacalib_map import AdaCalibMap, interpolate
from monocal.lab.reconstructions.adacalib_statistics import value_statistics
from monocal.lab.reconstructions.mcnet_map import McnetMap
from monocal.neural import maps
from monocal.neural.network import MonotoneMap
from monocal.ops.torch_ops import TorchOps

KNOTS = [-2.5, -1.0, 0.0, 0.7, 2.0]
WIDTH = 2
MOST_NUMBERS = 60
"""Of a large array of weights every n-th is looked at."""
LOGITS = [*KNOTS, -4.0, -0.5, 0.3, 1.25, 3.0]
"""Every knot, both sides beyond them, and places in between."""


def at_knots(knots=KNOTS, width=WIDTH, rescaling=True, **arguments):
    parts = maps.umc_parts(width, knots, (3,), rescaling=rescaling, **arguments)
    return MonotoneMap(parts, partial(maps.umc, rescaling=rescaling), context_width=width)


def concat(integral, width=WIDTH, **arguments):
    return ConcatMap(width, integral=integral, n_steps=6, hidden=(3, 2), rescaling_hidden=(3,), **arguments)


def of_constants(constants, knots=KNOTS):
    """A map without features whose raw heights, log-scale and shift are given."""
    umc = at_knots(knots, 0)
    with torch.no_grad():
        umc.constants.copy_(torch.tensor(constants))
    return umc


def fac(n_knots, rises):
    parts = maps.fac_parts(WIDTH, n_knots, (3,), identity_start=True)
    return MonotoneMap(parts, partial(maps.fac, rises=rises), context_width=WIDTH)


def line(values):
    """A rising broken line through these values."""
    line_map = MonotoneMap(maps.line_parts(len(values)), partial(maps.broken_line, rises=True))
    with torch.no_grad():
        line_map.values.copy_(torch.tensor(values))
    return line_map


def sbcr(width, **arguments):
    parts = maps.sbcr_parts(width, 4, (3,), **arguments)
    return MonotoneMap(parts, partial(maps.sbcr, n_bins=4), context_width=width)


def desc(sees_score):
    return MonotoneMap(maps.desc_parts(2, 1, (3,), sees_score=sees_score), maps.desc, context_width=WIDTH)


@pytest.fixture(autouse=True)
def lines_without_epsilon(monkeypatch):
    """A straight line has its corners where pieces of equal slope meet, which the authors' epsilon would bend."""
    monkeypatch.setattr(maps, "LINE_EPSILON", 0.0)


def adacalib(hard_monotone):
    random = np.random.default_rng(0)
    scores = random.uniform(size=4000)
    labels = (random.uniform(size=4000) < scores**2).astype(float)
    values = random.integers(0, 3, size=4000)
    parts = [value_statistics(scores, labels, values, 4, n_bins) for n_bins in (3, 5)]
    return AdaCalibMap(
        [torch.as_tensor(part.edges) for part in parts],
        [torch.as_tensor(part.statistics) for part in parts],
        torch.as_tensor(np.bincount(values, minlength=4)),
        n_dimensions=2,
        hidden=(3,),
        hard_monotone=hard_monotone,
    )


BIN_EDGES = torch.logit(torch.arange(1, 4, dtype=torch.float64) / 4).tolist()
MAPS = {
    "umc at the start": (at_knots, LOGITS),
    "umc at a random start": (lambda: at_knots(identity_start=False), LOGITS),
    "umc not rescaled": (lambda: at_knots(rescaling=False), LOGITS),
    "umc without features": (lambda: of_constants([0.0] * 7), LOGITS),
    "umc of equal heights above 1": (lambda: of_constants([0.4] * 5 + [0.1, -0.2]), LOGITS),
    "umc of equal heights below 1": (lambda: of_constants([-0.7] * 5 + [0.1, -0.2]), LOGITS),
    "umc of some equal heights": (lambda: of_constants([0.4, 0.4, 0.0, -0.3, -0.3, 0.1, 0.0]), LOGITS),
    "umc of the largest scale": (lambda: of_constants([0.0] * 5 + [LOG_SCALE_LIMIT, 0.0]), LOGITS),
    "umc of two knots": (lambda: of_constants([0.0] * 4, knots=[0.0, 1.0]), [-1.0, 0.0, 0.25, 1.0, 2.0]),
    "mcnet at the start": (lambda: McnetMap(maps.umc_parts(WIDTH, KNOTS, (3,)), context_width=WIDTH), LOGITS),
    **{f"umc {rule} at the start": (lambda rule=rule: concat(rule), LOGITS) for rule in ("clenshaw_curtis", "umnn")},
    "umc gauss_legendre at a random start": (lambda: concat("gauss_legendre", identity_start=False), LOGITS),
    "umc by quadrature without features": (lambda: concat("clenshaw_curtis", 0), LOGITS),
    "fac at the start": (lambda: fac(5, False), LOGITS),
    "fac in order at the start": (lambda: fac(3, True), [*LOGITS, *BIN_EDGES]),
    "a straight line": (lambda: line([2 * edge for edge in BIN_EDGES]), [*LOGITS, *BIN_EDGES]),
    "a flat line": (lambda: line([0.5, 0.1, 0.2]), [*LOGITS, *BIN_EDGES]),
    "sbcr at the start": (lambda: sbcr(WIDTH, identity_start=True), [*LOGITS, *BIN_EDGES, -40.0, 40.0]),
    "sbcr without features": (lambda: sbcr(0), [*LOGITS, *BIN_EDGES]),
    "desc": (lambda: desc(True), [-20.0, -16.0, -1.234, 0.321, 16.0, 20.0]),
    "desc in order": (lambda: desc(False), [*LOGITS, -16.0, 16.0]),
    "adacalib": (lambda: adacalib(False), LOGITS),
    "adacalib in order": (lambda: adacalib(True), LOGITS),
}


def context_for(monotone_map, n_rows):
    """Returns rows of which every third is the zero vector, which unseen values have."""
    if isinstance(monotone_map, AdaCalibMap):
        return torch.arange(n_rows)[:, None] % 4
    if monotone_map.context_width == 0:
        return None
    context = torch.randn(n_rows, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    context[::3] = 0.0
    return context


def assert_gradient_between_one_sided_derivatives(value, leaves, step=1e-7, tolerance=1e-5):
    """Where both derivatives agree the gradient is their common value; at a genuine corner it lies between them."""
    found = torch.autograd.grad(value(), leaves, allow_unused=True)
    with torch.no_grad():
        base = value().item()
        rounding = 2e-15 * abs(base) / step
        for place, (leaf, gradient) in enumerate(zip(leaves, found, strict=True)):
            flat = leaf.view(-1)
            pull = torch.zeros_like(flat) if gradient is None else gradient.reshape(-1)
            for i in range(0, len(flat), len(flat) // MOST_NUMBERS + 1):
                start, sides = flat[i].item(), []
                for h in (-step, step):
                    flat[i] = start + h
                    near = value().item()
                    flat[i] = start + 2 * h
                    sides.append((4 * near - 3 * base - value().item()) / (2 * h))
                flat[i] = start
                slack = tolerance * max(1.0, *map(abs, sides)) + rounding
                assert min(sides) - slack <= pull[i].item() <= max(sides) + slack, (
                    f"leaf {place}, number {i}: {pull[i].item():.6g}, one-sided {sides[0]:.6g} and {sides[1]:.6g}"
                )


@pytest.mark.parametrize("name", MAPS)
def test_the_gradient_of_a_map_is_the_mathematical_one(name):
    build, places = MAPS[name]
    monotone_map = build().double().train()
    logits = torch.tensor(places, dtype=torch.float64, requires_grad=True)
    context = context_for(monotone_map, len(places))
    shares = torch.linspace(0.5, 1.5, len(places), dtype=torch.float64)

    def value():
        return (shares * monotone_map(logits, context)).sum() + monotone_map.penalty()

    assert_gradient_between_one_sided_derivatives(value, [logits, *monotone_map.parameters()])


@pytest.mark.parametrize("limit", [-1.5, 0.0, 1.5])
def test_the_gradient_of_the_exact_integral_is_the_mathematical_one_where_everything_is_zero(limit):
    """The compiled kernel is written for float32, so steps are wide and the law is looser."""
    umc = ConcatMap(1, hidden=(3, 2), rescaling=False)
    limits = torch.full((1,), limit, requires_grad=True)
    with torch.no_grad():
        umc.integrand.slopes.copy_(torch.tensor([0.5, -0.75, 1.0]))
        umc.integrand.second.weight.copy_(torch.tensor([[0.5, 1.0, 0.25], [0.75, 0.5, 1.0]]))
    for third in (0.0, 0.5):  # the integrand is 1 everywhere, and then has its corner at the score 0
        with torch.no_grad():
            umc.integrand.third.weight.fill_(third)
        leaves = [limits, *umc.parameters()]
        assert_gradient_between_one_sided_derivatives(
            lambda: umc(limits, torch.zeros(1, 1)).sum(), leaves, step=2.0**-7, tolerance=0.02
        )


def test_every_output_of_the_identity_start_learns_from_the_first_step():
    """On a release whose gradient of `clamp` is 0 at the bound, all heights stayed where they started."""
    umc = at_knots()
    logits = torch.tensor(LOGITS)
    umc(logits, context_for(umc, len(LOGITS)).float()).square().sum().backward()
    assert (umc.trunk.last.bias.grad != 0).all()
    assert (umc.trunk.last.weight.grad != 0).any(dim=1).all()


def test_the_positive_transform_has_the_derivative_1_at_0():
    places = torch.tensor([-800.0, -1.0, 0.0, 1.0, 800.0], dtype=torch.float64, requires_grad=True)
    values = maps.positive(TorchOps(torch.nn.Module()), places)
    values.sum().backward()
    assert values.tolist() == [0.0, np.exp(-1.0), 1.0, 2.0, 801.0]
    assert places.grad.tolist() == [0.0, np.exp(-1.0), 1.0, 1.0, 1.0]


@pytest.mark.parametrize("height", [0.25, 1.0, 3.0])
def test_equal_heights_at_knots_have_the_derivative_of_the_integral(height):
    """By hand: dU/dt is the height; a height's share of U is the area below its hat function."""
    knots = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    t = torch.tensor([-2.0, -1.0, -0.5, 0.0, 1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    heights = torch.full((7, 3), height, dtype=torch.float64, requires_grad=True)
    maps.knot_integral(TorchOps(torch.nn.Module()), t, knots, heights).sum().backward()
    assert t.grad.tolist() == pytest.approx([height] * 7, rel=1e-12)
    hats = [[-1.5, -0.5, 0], [-0.5, -0.5, 0], [-0.125, -0.375, 0], [0, 0, 0], [0, 0.75, 0.25], [0, 1, 1], [0, 1, 2]]
    np.testing.assert_allclose(heights.grad, hats, atol=1e-12)


@pytest.mark.parametrize("values", [[0.2, 0.4, 0.8], [0.5, 0.5, 0.5], [0.9, 0.5, 0.5]])
def test_interpolation_has_the_slopes_of_its_segments(values):
    places = torch.tensor([[0.0, 0.25, 0.75]], dtype=torch.float64).repeat(6, 1)
    line = torch.tensor([values], dtype=torch.float64).repeat(6, 1).requires_grad_()
    at = torch.tensor([0.0, 0.1, 0.25, 0.5, 0.74, 0.75], dtype=torch.float64, requires_grad=True)
    shares = torch.tensor([0.5, 0.7, 0.9, 1.1, 1.3, 1.5], dtype=torch.float64)
    assert_gradient_between_one_sided_derivatives(lambda: (shares * interpolate(places, line, at)).sum(), [line, at])


def test_a_bound_that_is_met_passes_the_gradient_on():
    """A start may lie on a bound; with the gradient of the bound instead it would never leave it."""
    ops, places = TorchOps(torch.nn.Module()), torch.ones(2, dtype=torch.float64, requires_grad=True)
    for held in (
        ops.minimum(places, 1.0),
        ops.maximum(places, 1.0),
        ops.clip(places, 1.0, 2.0),
        ops.clip(places, 0.0, 1.0),
    ):
        assert torch.autograd.grad(held.sum(), places)[0].tolist() == [1.0, 1.0]
