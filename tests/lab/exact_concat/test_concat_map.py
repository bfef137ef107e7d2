"""The published form of UMC: worked numbers, quadrature rules, fall-backs and refusals."""

import numpy as np
import pytest
import torch

from monocal.core.errors import MonocalWarning
from monocal.core.monotonicity import assert_monotone
from monocal.lab.exact_concat.torch_map import ConcatMap, clenshaw_curtis, quadrature


def n_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def umc_example(integral):
    """One feature x = 0.5; first layer [[.5, -.3], [-.4, .2]] with bias (.1, 0); output (.7, -.6) with bias -.2.

    The example has one hidden layer; a second layer that is the identity leaves its non-negative units alone.
    """
    umc = ConcatMap(1, hidden=(2, 2), integral=integral, rescaling_hidden=(2,))
    with torch.no_grad():
        umc.integrand.slopes.copy_(torch.tensor([0.5, -0.4]))
        umc.offsets.weight.copy_(torch.tensor([[-0.3], [0.2]]))
        umc.offsets.bias.copy_(torch.tensor([0.1, 0.0]))
        umc.integrand.second.weight.copy_(torch.eye(2))
        umc.integrand.third.weight.copy_(torch.tensor([[0.7, -0.6]]))
        umc.integrand.third.bias.fill_(-0.2)
        umc.beta.fill_(0.05)
        umc.rescaler.last.bias.copy_(torch.tensor([0.1, -0.3]))
    return umc


SCORES = torch.tensor([0.05, 0.3, 0.5, 0.9], dtype=torch.float64)
HEIGHTS = [0.3803492555, 0.6291714484, 0.7710515858, 1.5340286021]
AREAS = [-1.6279263763, -0.5911672393, 0.0, 2.5269521138]
CALIBRATED = [0.1146724037, 0.2894447458, 0.4391182268, 0.9274371895]
SLOPES = [8.0073527470, 2.9960545161, 3.0842063432, 17.0447622452]


@pytest.mark.parametrize(("integral", "tolerance"), [("exact", 3e-6), ("clenshaw_curtis", 3e-7)])
def test_umc_worked_example(integral, tolerance):
    umc = umc_example(integral)
    x = torch.full((4, 1), 0.5)
    logits = torch.logit(SCORES)
    result = torch.sigmoid(umc(logits, x))
    np.testing.assert_allclose(result.detach(), CALIBRATED, atol=tolerance)
    expected = [*AREAS[:3], 2.5269322292] if integral == "exact" else AREAS
    areas = umc.integrand(logits, umc.offsets(x)).detach()
    # the tabulated values carry the quadrature's own error; the exact one is given for the last row
    np.testing.assert_allclose(areas, expected, atol=3e-5 if integral == "exact" else 3e-7)
    assert areas[3] == pytest.approx(expected[3], abs=2e-7)
    heights = umc.integrand.heights(logits.float()[:, None], umc.offsets(x))[:, 0].detach()
    np.testing.assert_allclose(heights, HEIGHTS, atol=3e-7)
    np.testing.assert_allclose(heights.double() / (SCORES * (1 - SCORES)), SLOPES, rtol=1e-6)


def test_umc_worked_gradients():
    umc = umc_example("clenshaw_curtis")
    x = torch.full((1, 1), 0.5)
    umc.integrand(torch.logit(SCORES[3:]), umc.offsets(x)).sum().backward()
    assert umc.integrand.third.bias.grad.item() == pytest.approx(2.1194990178, abs=1e-6)
    np.testing.assert_allclose(umc.integrand.third.weight.grad[0], [1.0943341205, 0.0098570849], atol=1e-6)


def test_exact_and_quadrature_gradients_of_the_whole_map_agree():
    context, logits = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)), torch.linspace(-4, 3, 200)
    gradients = []
    for integral, n_steps in (("exact", 50), ("clenshaw_curtis", 2000)):
        umc = ConcatMap(6, identity_start=False, integral=integral, n_steps=n_steps, hidden=(20, 20))
        umc(logits, context).square().mean().backward()
        gradients.append({name: p.grad for name, p in umc.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=2e-3, atol=2e-3 * float(gradient.abs().max()))


@pytest.mark.parametrize(("width", "expected"), [(336, 127_504), (224, 99_504)])
def test_umc_has_the_published_number_of_parameters(width, expected):
    assert n_parameters(ConcatMap(width)) == expected


def test_clenshaw_curtis_weights():
    np.testing.assert_allclose(clenshaw_curtis(2)[1], [1 / 3, 4 / 3, 1 / 3], atol=1e-15)
    np.testing.assert_allclose(clenshaw_curtis(3)[1], [1 / 9, 8 / 9, 8 / 9, 1 / 9], atol=1e-15)
    np.testing.assert_allclose(clenshaw_curtis(4)[1], [1 / 15, 8 / 15, 4 / 5, 8 / 15, 1 / 15], atol=1e-15)
    weights = clenshaw_curtis(50)[1]
    np.testing.assert_allclose(weights[[0, 1, 2, 25]], [0.00040016, 0.00385157, 0.00790788, 0.06283121], atol=5e-9)
    assert weights.sum() == pytest.approx(2.0, abs=1e-14)


UNHALVED = {
    2: [1 / 6, 5 / 3, 1 / 6],
    4: [0.05, 0.5666667, 0.7666667, 0.5666667, 0.05],
    5: [0.04, 0.36074304, 0.59925696, 0.59925696, 0.36074304, 0.04],
    20: [0.00238095, 0.02422927, 0.0485035],
}


@pytest.mark.parametrize("n_steps", UNHALVED)
def test_rule_of_the_public_code_has_its_weights(n_steps):
    weights = quadrature("umnn", n_steps)[1]
    expected = UNHALVED[n_steps]
    np.testing.assert_allclose(weights[: len(expected)], expected, atol=5e-8)
    np.testing.assert_allclose(weights, weights[::-1], atol=1e-15)
    assert weights.sum() == pytest.approx(2.0, abs=1e-14)


def test_clenshaw_curtis_of_a_kink_and_of_a_parabola():
    for n_steps, expected in [(4, 1.1275805666), (10, 1.0776309656), (50, 1.0898640508)]:
        nodes, weights = clenshaw_curtis(n_steps)
        assert weights @ np.abs(nodes - 0.3) == pytest.approx(expected, abs=1e-10)
    for n_steps in (4, 50):
        nodes, weights = clenshaw_curtis(n_steps)
        t = np.log(4.0)
        assert t / 2 * weights @ (1 + 0.2 * (t * (nodes + 1) / 2) ** 2) == pytest.approx(1.5639075088, abs=1e-10)


CONTEXT = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
LOGITS = torch.linspace(-4, 4, 30)


def test_without_the_kernel_the_exact_integral_warns_and_uses_quadrature(monkeypatch):
    umc = ConcatMap(5, identity_start=False)
    exact = umc(LOGITS, CONTEXT)
    monkeypatch.setattr("monocal.lab.exact_concat.torch_map.numba_is_installed", lambda: False)
    with pytest.warns(MonocalWarning, match="needs numba and CPU tensors; using Clenshaw-Curtis"):
        approximate = umc(LOGITS, CONTEXT)
    torch.testing.assert_close(approximate, exact, rtol=1e-2, atol=1e-2)
    assert not torch.equal(approximate, exact)


def test_a_bounded_scale_cannot_overflow():
    umc = ConcatMap(5)
    with torch.no_grad():
        umc.rescaler.last.bias[0] = 1e6
    result = umc(LOGITS.double(), CONTEXT)
    np.testing.assert_allclose(result.detach(), LOGITS.double() * np.exp(15.0), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"integral": "exakt"}, "integral: got 'exakt'; .* did you mean 'exact'"),
        ({"hidden": (50, 1000)}, r"hidden: got \(50, 1000\); expected two widths from 1 to 512"),
        ({"rescaling_hidden": (0,)}, "hidden: got layers"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        ConcatMap(5, **arguments)


def swept(umc, context):
    @torch.no_grad()
    def curve(logits, rows):
        # the integrand's offsets once per row, because a matrix product may round by the position in a batch
        given = None if rows is None else torch.as_tensor(rows)
        offsets, scaling = umc._offsets_and_scaling(given if given is None else given[:1], 1)
        n_rows = len(logits)
        area = umc.integrand(torch.as_tensor(logits), offsets.expand(n_rows, -1))
        if scaling is not None:
            area = area * torch.exp(scaling[0, 0].double().clamp(-15.0, 15.0)) + scaling[0, 1].double()
        return area.numpy()

    return assert_monotone(curve, context)


def sharpened(factor, **arguments):
    umc = ConcatMap(arguments.pop("width", 12), identity_start=False, **arguments)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in umc.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.mul_(factor).add_(0.3 * noise if parameter.ndim < 2 else 0.05 * noise)
    return umc


@pytest.mark.parametrize("arguments", [{}, {"rescaling": False}, {"width": 0, "rescaling": False}], ids=str)
@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_the_exact_integral_never_decreases_on_sharp_weights(arguments, factor):
    umc = sharpened(factor, **arguments)
    context = np.random.default_rng(0).normal(size=(8, 12)).astype(np.float32) if umc.context_width else None
    assert swept(umc, context).worst_fall == 0.0


@pytest.mark.parametrize("rule", [{"integral": "clenshaw_curtis"}, {"integral": "gauss_legendre", "n_steps": 32}])
def test_quadrature_does_decrease_somewhere(rule):
    context = torch.randn(8, 12, generator=torch.Generator().manual_seed(0)).numpy()
    with pytest.raises(AssertionError, match="down by"):
        swept(sharpened(10.0, **rule), context)


@pytest.mark.parametrize("width", [5, 0])
def test_the_identity_start_returns_the_input(width):
    logits = torch.linspace(-40, 40, 101)
    context = torch.randn(101, width, generator=torch.Generator().manual_seed(0)) if width else None
    torch.testing.assert_close(ConcatMap(width)(logits, context), logits, rtol=2e-6, atol=1e-6)
