"""Options and fall-backs of the UMC map that no law covers."""

import numpy as np
import pytest
import torch

from monocal.core.errors import MonocalWarning
from monocal.neural.torch_maps import UmcMap
from monocal.neural.umc.knot_integral import KnotIntegral
from monocal.neural.umc.quadrature import clenshaw_curtis, gauss_legendre, quadrature

CONTEXT = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
LOGITS = torch.linspace(-4, 4, 30)


def test_without_the_kernel_the_exact_integral_warns_and_uses_quadrature(monkeypatch):
    umc = UmcMap(5, identity_start=False)
    exact = umc(LOGITS, CONTEXT)
    monkeypatch.setattr("monocal.neural.modules.compiled_path.numba_is_installed", lambda: False)
    with pytest.warns(MonocalWarning, match="needs numba and CPU tensors; using Clenshaw-Curtis"):
        approximate = umc(LOGITS, CONTEXT)
    torch.testing.assert_close(approximate, exact, rtol=1e-2, atol=1e-2)
    assert not torch.equal(approximate, exact)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_runs_the_quadrature_path():
    umc = UmcMap(5, integral="clenshaw_curtis", identity_start=False)
    on_cpu = umc(LOGITS, CONTEXT)
    on_gpu = umc.to("cuda")(LOGITS.to("cuda"), CONTEXT.to("cuda"))
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-4, atol=1e-4)


def test_more_nodes_approach_the_exact_integral():
    def error(integral, n_steps):
        umc = UmcMap(5, identity_start=False, integral=integral, n_steps=n_steps)
        return (umc(LOGITS, CONTEXT) - UmcMap(5, identity_start=False)(LOGITS, CONTEXT)).abs().max().item()

    for integral in ("clenshaw_curtis", "gauss_legendre"):
        assert error(integral, 8) > 3 * error(integral, 50) > 9 * error(integral, 400)


def test_a_bounded_scale_cannot_overflow():
    umc = UmcMap(5)
    with torch.no_grad():
        umc.rescaler.last.bias[0] = 1e6
    result = umc(LOGITS.double(), CONTEXT)
    np.testing.assert_allclose(result.detach(), LOGITS.double() * np.exp(15.0), rtol=1e-6)


def test_threads_give_the_same_map():
    one, two = (UmcMap(5, identity_start=False, n_threads=n)(LOGITS, CONTEXT) for n in (1, 2))
    assert torch.equal(one, two)


def test_float64_modules_train_too():
    umc = UmcMap(5, identity_start=False).double()
    umc(LOGITS.double(), CONTEXT.double()).sum().backward()
    assert umc.curve.second.weight.grad.dtype == torch.float64


def test_knots_are_exact_for_a_broken_line():
    """Heights 2, 0.5, 1 at -1, 0, 2: areas by the trapezium rule, measured from the middle."""
    integral = KnotIntegral([-1.0, 0.0, 2.0])
    t = torch.tensor([-3.0, -1.0, -0.5, 0.0, 1.0, 2.0, 4.0], dtype=torch.float64)
    heights = torch.tensor([[2.0, 0.5, 1.0]]).repeat(len(t), 1)
    expected = [-5.25, -1.25, -0.4375, 0.0, 0.625, 1.5, 3.5]
    np.testing.assert_allclose(integral(t, *integral.prepare(heights)), expected, atol=1e-15)


def test_knots_have_a_continuous_derivative_equal_to_the_height():
    integral = KnotIntegral([-1.0, 0.0, 2.0])
    t = torch.tensor([-1.0 - 1e-9, -1.0 + 1e-9, 2.0 - 1e-9, 2.0 + 1e-9], dtype=torch.float64, requires_grad=True)
    heights = torch.tensor([[2.0, 0.5, 1.0]]).repeat(4, 1)
    integral(t, *integral.prepare(heights)).sum().backward()
    np.testing.assert_allclose(t.grad, [2.0, 2.0, 1.0, 1.0], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"integrand": "knot"}, "integrand: got 'knot'; .* did you mean 'knots'"),
        ({"integral": "exakt"}, "integral: got 'exakt'; .* did you mean 'exact'"),
        ({"integrand": "knots"}, "knots: got None; expected positions on the logit axis"),
        ({"integrand": "knots", "knots": [1.0, 1.0]}, r"knots: got \[1.0, 1.0\]; expected at least two increasing"),
        ({"hidden": (50, 1000)}, r"hidden: got \(50, 1000\); expected two widths from 1 to 512"),
        ({"rescaling_hidden": (0,)}, "hidden: got layers"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        UmcMap(5, **arguments)


def test_quadrature_refusals():
    with pytest.raises(ValueError, match="rule: got 'simpson'"):
        quadrature("simpson", 3)
    for rule in (clenshaw_curtis, gauss_legendre):
        with pytest.raises(ValueError, match="n_steps: got 0"):
            rule(0)


def test_quadrature_weights_cannot_be_changed_by_a_caller():
    with pytest.raises(ValueError, match="read-only"):
        clenshaw_curtis(4)[1][0] = 1.0
