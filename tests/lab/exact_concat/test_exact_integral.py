"""The exact integral against a float64 reference that finds every kink, and against worked numbers."""

import itertools

import numpy as np
import pytest
import torch

from monocal.core.monotonicity import assert_monotone
from monocal.lab.exact_concat.integral import exact_integral, exact_integral_backward

NAMES = ("limits", "offsets", "slopes", "second_weights", "second_biases", "third_weights", "third_bias")


def random_net(n_rows, n_first=50, n_second=50, *, sharp=1.0, third_bias=None, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape, scale=1.0):
        return (rng.normal(size=shape) * scale).astype(np.float32)

    return {
        "limits": normal(n_rows, scale=spread),
        "offsets": normal(n_rows, n_first),
        "slopes": normal(n_first, scale=sharp),
        "second_weights": normal(n_second, n_first, scale=sharp * np.sqrt(2 / (n_first + n_second))),
        "second_biases": normal(n_second, scale=0.3),
        "third_weights": normal(n_second, scale=sharp / np.sqrt(n_second)),
        "third_bias": float(normal()) if third_bias is None else third_bias,
    }


def breaks_of_row(net, row):
    """Every place between 0 and the limit where a ReLU or the sign of u switches, found in float64."""
    a, w = net["offsets"][row].astype(np.float64), net["slopes"].astype(np.float64)
    w2, b2 = net["second_weights"].astype(np.float64), net["second_biases"].astype(np.float64)
    w3, b3 = net["third_weights"].astype(np.float64), float(net["third_bias"])
    limit = float(net["limits"][row])

    def inside(places, low, high):
        places = places[np.isfinite(places)]
        return places[(places > min(low, high)) & (places < max(low, high))]

    def split(points, lines):
        """Adds to every interval the zeros of functions that are linear on it."""
        found = [points]
        for low, high in itertools.pairwise(points):
            at_low, at_high = lines(low), lines(high)
            with np.errstate(divide="ignore", invalid="ignore"):
                found.append(inside(low - at_low * (high - low) / (at_high - at_low), low, high))
        return np.sort(np.concatenate(found))

    def second(t):
        return w2 @ np.maximum(a + w * t, 0.0) + b2

    def output(t):
        return np.atleast_1d(w3 @ np.maximum(second(t), 0.0) + b3)

    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.sort(np.concatenate([[0.0, limit], inside(-a / w, 0.0, limit)]))
    return split(split(first, second), output)


def reference(net):
    """The integral by 20 Gauss nodes between neighbouring breaks, as a differentiable float64 torch function."""
    leaves = {name: torch.tensor(np.asarray(net[name], np.float64), requires_grad=True) for name in NAMES}
    nodes, weights = np.polynomial.legendre.leggauss(20)
    areas = []
    for row in range(len(net["limits"])):
        points = breaks_of_row(net, row)
        low, high = points[:-1, None], points[1:, None]
        places = torch.tensor(((low + high) / 2 + (high - low) / 2 * nodes).ravel())
        lengths = torch.tensor(((high - low) / 2 * weights).ravel()) * np.sign(float(net["limits"][row]) or 1.0)
        first = torch.relu(places[:, None] * leaves["slopes"] + leaves["offsets"][row])
        second = torch.relu(first @ leaves["second_weights"].T + leaves["second_biases"])
        u = second @ leaves["third_weights"] + leaves["third_bias"]
        areas.append((lengths * (torch.exp(u.clamp(max=0.0)) + u.clamp(min=0.0))).sum())
    return torch.stack(areas), leaves


def integrand_at_limit(net):
    first = np.maximum(net["offsets"].astype(np.float64) + np.outer(net["limits"], net["slopes"]), 0.0)
    second = np.maximum(first @ net["second_weights"].astype(np.float64).T + net["second_biases"], 0.0)
    u = second @ net["third_weights"].astype(np.float64) + net["third_bias"]
    return np.exp(np.minimum(u, 0.0)) + np.maximum(u, 0.0)


def relative(found, expected):
    scale = np.abs(np.asarray(expected)).max()
    return float(np.abs(np.asarray(found) - np.asarray(expected)).max() / max(scale, 1e-300))


SHAPES = [(50, 50), (1, 1), (1, 7), (7, 1), (13, 8), (200, 200), (64, 33)]
TOLERANCE = {(50, 50): 1e-6, (200, 200): 5e-6}


@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_gauss_between_all_breaks(shape):
    net = random_net(40 if max(shape) < 100 else 8, *shape, seed=shape[0])
    expected, _ = reference(net)
    found = exact_integral(**net)
    expected = expected.detach().numpy()
    assert np.abs(found - expected).max() < 2.5e-6 * max(1.0, np.abs(expected).max())
    assert np.median(np.abs(found - expected) / np.abs(expected)) < 2.5e-7


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_agree_with_autograd_through_the_same_pieces(shape):
    n_rows = 24 if max(shape) < 100 else 6
    net = random_net(n_rows, *shape, seed=3)
    upstream = np.random.default_rng(1).normal(size=n_rows)
    expected, leaves = reference(net)
    (expected * torch.tensor(upstream)).sum().backward()
    found = exact_integral_backward(upstream, **net)
    for name, gradient in zip(NAMES[1:], found[1:], strict=True):
        assert relative(gradient, leaves[name].grad.numpy()) < TOLERANCE.get(shape, 2e-6), name
    assert relative(found.d_limits, upstream * integrand_at_limit(net)) < 2e-6


def with_changes(**changes):
    net = random_net(30, 12, 10, seed=7)
    for name, value in changes.items():
        net[name] = np.full_like(net[name], value) if isinstance(net[name], np.ndarray) else value
    return net


EDGES = {
    "limits 16": with_changes(limits=16.0),
    "limits -16": with_changes(limits=-16.0),
    "no slope": with_changes(slopes=0.0),
    "offsets 0": with_changes(offsets=0.0),
    "duplicate kinks": with_changes(offsets=-1.0, slopes=2.0),
    "third weights 0": with_changes(third_weights=0.0),
    "dead second layer": with_changes(second_biases=-1e4),
    "second layer starts at its kink": with_changes(second_biases=0.0, offsets=0.0),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edge_cases_agree_with_the_reference(edge):
    net = EDGES[edge]
    upstream = np.linspace(-1, 1, 30)
    expected, leaves = reference(net)
    (expected * torch.tensor(upstream)).sum().backward()
    np.testing.assert_allclose(exact_integral(**net), expected.detach().numpy(), rtol=3e-6, atol=3e-6)
    found = exact_integral_backward(upstream, **net)
    for name, gradient in zip(NAMES[1:], found[1:], strict=True):
        if edge in ("offsets 0", "second layer starts at its kink") and name == "offsets":
            continue  # a kink at the lower limit has a one-sided derivative
        wanted_gradient = leaves[name].grad.numpy()
        np.testing.assert_allclose(
            gradient, wanted_gradient, rtol=1e-5, atol=1e-5 * max(1, np.abs(wanted_gradient).max())
        )


@pytest.mark.parametrize(("sharp", "third_bias"), [(1.0, None), (10.0, None), (10.0, -20.0), (4.0, 3.0), (1.0, -20.0)])
def test_never_decreases_in_floating_point(sharp, third_bias):
    net = random_net(24, sharp=sharp, third_bias=third_bias, seed=11)
    offsets = net.pop("offsets")
    net.pop("limits")

    def curve(logits, copies):
        return exact_integral(logits.astype(np.float32), copies, **net)

    check = assert_monotone(curve, offsets)
    assert check.worst_fall == 0.0
    assert check.n_steps > 24 * 2000


def test_never_decreases_across_every_break():
    """Chains of neighbouring float32 limits through every kink and crossing of a sharp net."""
    net = random_net(10, sharp=10.0, seed=5, spread=8.0)
    for row in range(10):
        one = {name: net[name][row : row + 1] if name in ("limits", "offsets") else net[name] for name in NAMES}
        middle = breaks_of_row(one, 0).astype(np.float32)
        chain = [middle]
        for _ in range(6):
            chain.append(np.nextafter(chain[-1], np.float32(np.inf)))
            chain.insert(0, np.nextafter(chain[0], np.float32(-np.inf)))
        limits = np.unique(np.concatenate(chain))
        copies = np.repeat(one["offsets"], len(limits), axis=0)
        assert np.diff(exact_integral(**{**one, "limits": limits, "offsets": copies})).min() >= 0.0


def test_threads_change_nothing_forward_and_only_rounding_backward():
    net, upstream = random_net(1000), np.ones(1000)
    assert np.array_equal(exact_integral(**net), exact_integral(**net, n_threads=3))
    once, twice = (exact_integral_backward(upstream, **net, n_threads=3) for _ in range(2))
    alone = exact_integral_backward(upstream, **net)
    for first, second, single in zip(once, twice, alone, strict=True):
        assert np.array_equal(first, second)
        assert relative(first, single) < 1e-6
