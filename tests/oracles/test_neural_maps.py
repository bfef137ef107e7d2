"""Worked numbers of the neural maps, computed by hand in float64."""

import numpy as np
import pytest
import torch

from monocal.lab.reconstructions.adacalib_map import AdaCalibMap
from monocal.neural.desc.torch_map import desc_bases
from monocal.neural.modules.broken_line import BrokenLine, disorder, equal_probability_knots, interpolate
from monocal.neural.torch_maps import (
    ContextEncoder,
    DescMap,
    FacMap,
    PiecewiseMap,
    SbcrMap,
    UmcMap,
)
from monocal.neural.umc.quadrature import clenshaw_curtis, gauss_legendre, quadrature


def n_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def umc_example(integral):
    """One feature x = 0.5; first layer [[.5, -.3], [-.4, .2]] with bias (.1, 0); output (.7, -.6) with bias -.2.

    The example has one hidden layer; a second layer that is the identity leaves its non-negative units alone.
    """
    umc = UmcMap(1, hidden=(2, 2), integral=integral, rescaling_hidden=(2,))
    with torch.no_grad():
        umc.curve.slopes.copy_(torch.tensor([0.5, -0.4]))
        umc.offsets.weight.copy_(torch.tensor([[-0.3], [0.2]]))
        umc.offsets.bias.copy_(torch.tensor([0.1, 0.0]))
        umc.curve.second.weight.copy_(torch.eye(2))
        umc.curve.third.weight.copy_(torch.tensor([[0.7, -0.6]]))
        umc.curve.third.bias.fill_(-0.2)
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
    areas = umc.curve(logits, umc.offsets(x)).detach()
    # the tabulated values carry the quadrature's own error; the exact one is given for the last row
    np.testing.assert_allclose(areas, expected, atol=3e-5 if integral == "exact" else 3e-7)
    assert areas[3] == pytest.approx(expected[3], abs=2e-7)
    heights = umc.curve.heights(logits.float()[:, None], umc.offsets(x))[:, 0].detach()
    np.testing.assert_allclose(heights, HEIGHTS, atol=3e-7)
    np.testing.assert_allclose(heights.double() / (SCORES * (1 - SCORES)), SLOPES, rtol=1e-6)


def test_umc_worked_gradients():
    umc = umc_example("clenshaw_curtis")
    x = torch.full((1, 1), 0.5)
    umc.curve(torch.logit(SCORES[3:]), umc.offsets(x)).sum().backward()
    assert umc.curve.third.bias.grad.item() == pytest.approx(2.1194990178, abs=1e-6)
    np.testing.assert_allclose(umc.curve.third.weight.grad[0], [1.0943341205, 0.0098570849], atol=1e-6)


def test_exact_and_quadrature_gradients_of_the_whole_map_agree():
    context, logits = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)), torch.linspace(-4, 3, 200)
    gradients = []
    for integral, n_steps in (("exact", 50), ("clenshaw_curtis", 2000)):
        umc = UmcMap(6, identity_start=False, integral=integral, n_steps=n_steps, hidden=(20, 20))
        umc(logits, context).square().mean().backward()
        gradients.append({name: p.grad for name, p in umc.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=2e-3, atol=2e-3 * float(gradient.abs().max()))


@pytest.mark.parametrize(("width", "expected"), [(336, 127_504), (224, 99_504)])
def test_umc_has_the_published_number_of_parameters(width, expected):
    assert n_parameters(UmcMap(width)) == expected


def test_baselines_have_the_published_number_of_parameters():
    assert n_parameters(FacMap(336)) == 107_901
    assert n_parameters(SbcrMap(336)) == 148_580
    assert n_parameters(DescMap(21, 16)) == 1_278_694


def test_clenshaw_curtis_weights():
    np.testing.assert_allclose(clenshaw_curtis(2)[1], [1 / 3, 4 / 3, 1 / 3], atol=1e-15)
    np.testing.assert_allclose(clenshaw_curtis(3)[1], [1 / 9, 8 / 9, 8 / 9, 1 / 9], atol=1e-15)
    np.testing.assert_allclose(clenshaw_curtis(4)[1], [1 / 15, 8 / 15, 4 / 5, 8 / 15, 1 / 15], atol=1e-15)
    weights = clenshaw_curtis(50)[1]
    np.testing.assert_allclose(weights[[0, 1, 2, 25]], [0.00040016, 0.00385157, 0.00790788, 0.06283121], atol=5e-9)
    assert weights.sum() == pytest.approx(2.0, abs=1e-14)


@pytest.mark.parametrize(("n_steps", "error"), [(2, 5.8e-4), (4, -3.4e-7), (10, 0.0)])
def test_clenshaw_curtis_of_the_exponential(n_steps, error):
    nodes, weights = clenshaw_curtis(n_steps)
    assert weights @ np.exp((nodes + 1) / 2) / 2 - (np.e - 1) == pytest.approx(error, rel=0.02, abs=1e-15)


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


@pytest.mark.parametrize(
    ("n_steps", "error", "digits"),
    [(2, -3.449e-2, 5e-6), (3, -1.438e-4, 5e-8), (4, -3.657e-5, 5e-9), (5, -4.34e-8, 5e-11), (10, -8e-15, 2e-15)],
)
def test_rule_of_the_public_code_of_the_exponential(n_steps, error, digits):
    nodes, weights = quadrature("umnn", n_steps)
    assert weights @ np.exp((nodes + 1) / 2) / 2 - (np.e - 1) == pytest.approx(error, abs=digits)


@pytest.mark.parametrize("n_steps", [3, 4, 5, 10, 20, 50])
def test_rule_of_the_public_code_of_a_parabola(n_steps):
    nodes, weights = quadrature("umnn", n_steps)
    assert weights @ (1 + (nodes + 1) ** 2) == pytest.approx(14 / 3, abs=1e-10)


def test_clenshaw_curtis_of_a_kink_and_of_a_parabola():
    for n_steps, expected in [(4, 1.1275805666), (10, 1.0776309656), (50, 1.0898640508)]:
        nodes, weights = clenshaw_curtis(n_steps)
        assert weights @ np.abs(nodes - 0.3) == pytest.approx(expected, abs=1e-10)
    for n_steps in (4, 50):
        nodes, weights = clenshaw_curtis(n_steps)
        t = np.log(4.0)
        assert t / 2 * weights @ (1 + 0.2 * (t * (nodes + 1) / 2) ** 2) == pytest.approx(1.5639075088, abs=1e-10)


def test_gauss_legendre_is_exact_for_high_degrees():
    nodes, weights = gauss_legendre(5)
    assert weights @ nodes**8 == pytest.approx(2 / 9, abs=1e-14)


def test_fac_line_oracle():
    line = PiecewiseMap(100)
    found = line(torch.tensor([-6.0, -2.0, 0.0, 1.5, 6.0], dtype=torch.float64))
    expected = [-4.6051701860, -2.0000040788, -0.0000498741, 1.4999430977, 4.6051701860]
    np.testing.assert_allclose(found.detach(), expected, atol=2e-6)  # the values are stored in float32


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (1e-4, [-2.0, -1.5668150420, -0.9999876700, -1.0493076573, 0.4]),
        (0.0, [-2.0, -1.5667708769, -1.0, -1.0493260692, 0.4]),
    ],
)
def test_fac_line_of_four_knots(epsilon, expected):
    line = BrokenLine(equal_probability_knots(4), epsilon)
    np.testing.assert_allclose(line.knots, [-1.3862943611, -0.4054651081, 0.4054651081, 1.3862943611], atol=1e-10)
    with torch.no_grad():
        line.values.copy_(torch.tensor([-2.0, -0.9, -1.1, 0.4]))
    found = line(torch.tensor([-3.0, -1.0, 0.0, 0.2, 3.0], dtype=torch.float64))
    np.testing.assert_allclose(found.detach(), expected, atol=1e-7)
    assert line.disorder().item() == pytest.approx(0.2, abs=1e-6)


def test_fac_adds_the_network_to_the_line():
    fac = FacMap(3, seed=4)
    x, logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.linspace(-3, 3, 5)
    shift = fac(logits, x) - PiecewiseMap(100)(logits)
    torch.testing.assert_close(shift, fac.shift(x)[:, 0], rtol=0, atol=1e-5)
    assert shift.std() > 0.1


def test_sbcr_oracle():
    sbcr = SbcrMap(0, n_bins=4)
    with torch.no_grad():
        sbcr.constants.copy_(torch.tensor([0.2, -0.5, 1.0, 0.3]))
    scores = torch.tensor([0.0, 0.1, 0.25, 0.6, 0.9, 1.0], dtype=torch.float64)
    logits = sbcr(torch.logit(scores).clamp(-50, 50))
    np.testing.assert_allclose(
        torch.sigmoid(logits).detach(),
        [0.0001, 0.0828621043, 0.2071552608, 0.4944385234, 0.9084232121, 0.9999],
        atol=1e-8,
    )
    expected = [-9.2102403670, -2.4040800057, -1.3421588492, -0.0222468238, 2.2945325304, 9.2102403670]
    np.testing.assert_allclose(logits.detach(), expected, atol=2e-7)


@pytest.mark.parametrize(
    ("score", "power", "scaling", "log", "uniform"),
    [
        (0.05, 0.0535398494, 0.0494000070, 0.0744106266, 0.0591168277),
        (0.3, 0.2578262996, 0.2643469133, 0.3902973378, 0.3041568502),
        (0.9, 0.8776376579, 0.9132647126, 0.9285164048, 0.9064729251),
    ],
)
def test_desc_bases_oracle(score, power, scaling, log, uniform):
    bases = desc_bases(torch.logit(torch.tensor([score], dtype=torch.float64)))[0]
    found = [bases[:16].mean(), bases[16:32].mean(), bases[32:].mean(), bases.mean()]
    np.testing.assert_allclose(found, [power, scaling, log, uniform], atol=1e-10)


def test_desc_composition_oracle():
    """Shapes .5477225575 (power .5) and .3446953624 (log .5) at .3, attention (.25, .75), value .9."""
    desc = DescMap(2, 4, hard_monotone=True)
    with torch.no_grad():
        for module in (*desc.shapes, desc.field_attention, desc.value):
            module.last.weight.zero_()
        for module, basis in zip(desc.shapes, (0, 32), strict=True):
            module.last.bias[basis] = 60.0
        desc.field_attention.last.bias.copy_(torch.log(torch.tensor([0.25, 0.75])))
        desc.value.last.bias.fill_(np.log(9.0))
    result = torch.sigmoid(desc(torch.logit(torch.tensor([0.3], dtype=torch.float64)), torch.ones(1, 8)))
    assert result.item() == pytest.approx(0.9 * (0.25 * 0.5477225575 + 0.75 * 0.3446953624), abs=1e-7)


def test_desc_attention_leaves_out_the_field_itself():
    """With two fields each attends to the other with weight 1, whatever the vectors are."""
    desc = DescMap(2, 3, hard_monotone=True)
    seen = []
    for shape in desc.shapes:
        shape.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    context = torch.arange(6.0).reshape(1, 6)
    desc(torch.zeros(1), context)
    assert seen[0][0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert seen[1][0].tolist() == [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]


def test_adacalib_oracles():
    places = torch.tensor([[0.0, 0.2, 1.0]], dtype=torch.float64).repeat(4, 1)
    values = torch.tensor([[0.02, 0.15, 0.6]], dtype=torch.float64).repeat(4, 1)
    found = interpolate(places, values, torch.tensor([0.1, 0.2, 0.5, 1.0], dtype=torch.float64))
    np.testing.assert_allclose(found, [0.085, 0.15, 0.31875, 0.6], atol=1e-15)
    assert disorder(torch.tensor([0.2, 0.15, 0.6])).item() == pytest.approx(0.05)


def test_adacalib_mixes_in_training_and_chooses_in_evaluation():
    """Three candidates weighed by the softmax of (1.2, .3, -.5), then by its maximum."""
    edges = [torch.tensor([[0.0, cut, 1.0]]) for cut in (0.2, 0.5, 0.7)]
    adacalib = AdaCalibMap(edges, [torch.zeros(1, 3, 4)] * 3, torch.ones(1))
    with torch.no_grad():
        adacalib.choice.last.weight.zero_()
        adacalib.choice.last.bias.copy_(torch.tensor([1.2, 0.3, -0.5]))
        heights = adacalib._heights(0, torch.tensor([0]), adacalib.vectors)
        score = torch.tensor([0.35], dtype=torch.float64)
        lines = [interpolate(edge.double(), heights, score).item() for edge in edges]
        context, logits = torch.zeros(1, 1), torch.logit(score)
        mixed = torch.sigmoid(adacalib.train()(logits, context)).item()
        chosen = torch.sigmoid(adacalib.eval()(logits, context)).item()
    assert mixed == pytest.approx(np.dot([0.6292263625, 0.2558243481, 0.1149492893], lines), abs=1e-7)
    assert chosen == pytest.approx(lines[0], abs=1e-9)


def test_umc_with_frozen_embeddings_sees_the_rankers_vectors():
    table = torch.arange(20.0).reshape(5, 4)
    encoder = ContextEncoder([3, 2], table=table)
    context = encoder(torch.tensor([[2, 1]], dtype=torch.int32))
    assert context.tolist() == [[8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0, 19.0]]
    assert list(encoder.parameters()) == []
