"""Worked numbers of the neural maps, computed by hand in float64."""

import numpy as np
import pytest
import torch

from monocal.lab.reconstructions.adacalib_map import AdaCalibMap, interpolate
from monocal.neural import maps
from monocal.neural.network import MonotoneMap, disorder
from monocal.ops.numpy_ops import NUMPY, NumpyOps


def n_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_maps_have_the_published_number_of_parameters():
    def count(parts):
        return n_parameters(MonotoneMap(parts, maps.umc))

    assert count(maps.fac_parts(336, 100, (200, 200))) == 107_901
    assert count(maps.sbcr_parts(336, 100, (256, 128, 128))) == 148_580
    assert count(maps.desc_parts(21, 16, (200, 200), sees_score=True)) == 1_278_694


def test_fac_line_oracle():
    knots = maps.equal_probability_knots(100)
    line = NumpyOps({"knots": knots, "values": knots})
    found = maps.broken_line(line, np.array([-6.0, -2.0, 0.0, 1.5, 6.0]), rises=False)
    np.testing.assert_allclose(
        found, [-4.6051701860, -2.0000040788, -0.0000498741, 1.4999430977, 4.6051701860], atol=1e-9
    )


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (1e-4, [-2.0, -1.5668150420, -0.9999876700, -1.0493076573, 0.4]),
        (0.0, [-2.0, -1.5667708769, -1.0, -1.0493260692, 0.4]),
    ],
)
def test_fac_line_of_four_knots(monkeypatch, epsilon, expected):
    monkeypatch.setattr(maps, "LINE_EPSILON", epsilon)
    knots, values = maps.equal_probability_knots(4), np.array([-2.0, -0.9, -1.1, 0.4])
    np.testing.assert_allclose(knots, [-1.3862943611, -0.4054651081, 0.4054651081, 1.3862943611], atol=1e-10)
    line = NumpyOps({"knots": knots, "values": values})
    found = maps.broken_line(line, np.array([-3.0, -1.0, 0.0, 0.2, 3.0]), rises=False)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert disorder(torch.as_tensor(values)).item() == pytest.approx(0.2, abs=1e-6)


def test_sbcr_oracle():
    masses = NumpyOps({"constants": np.array([0.2, -0.5, 1.0, 0.3])})
    scores = np.array([0.0, 0.1, 0.25, 0.6, 0.9, 1.0])
    with np.errstate(divide="ignore"):
        logits = maps.sbcr(masses, np.clip(np.log(scores / (1 - scores)), -50, 50), None, n_bins=4)
    p = [0.0001, 0.0828621043, 0.2071552608, 0.4944385234, 0.9084232121, 0.9999]
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), p, atol=1e-8)
    expected = [-9.2102403670, -2.4040800057, -1.3421588492, -0.0222468238, 2.2945325304, 9.2102403670]
    np.testing.assert_allclose(logits, expected, atol=2e-7)


def test_knots_are_exact_for_a_broken_line():
    """Heights 2, 0.5, 1 at -1, 0, 2: areas by the trapezium rule, measured from the middle."""
    t = np.array([-3.0, -1.0, -0.5, 0.0, 1.0, 2.0, 4.0])
    area = maps.knot_integral(NUMPY, t, np.array([-1.0, 0.0, 2.0]), np.tile([2.0, 0.5, 1.0], (len(t), 1)))
    np.testing.assert_allclose(area, [-5.25, -1.25, -0.4375, 0.0, 0.625, 1.5, 3.5], atol=1e-15)


def test_a_bounded_scale_cannot_overflow():
    umc = NumpyOps({"knots": np.array([-1.0, 1.0]), "beta": np.zeros(1), "constants": np.array([0.0, 0.0, 1e6, 0.0])})
    t = np.linspace(-4, 4, 30)
    np.testing.assert_allclose(maps.umc(umc, t, None), t * np.exp(15.0), rtol=1e-6)


@pytest.mark.parametrize(
    ("score", "power", "scaling", "log", "uniform"),
    [
        (0.05, 0.0535398494, 0.0494000070, 0.0744106266, 0.0591168277),
        (0.3, 0.2578262996, 0.2643469133, 0.3902973378, 0.3041568502),
        (0.9, 0.8776376579, 0.9132647126, 0.9285164048, 0.9064729251),
    ],
)
def test_desc_bases_oracle(score, power, scaling, log, uniform):
    bases = maps.desc_bases(NUMPY, np.log([score / (1 - score)]))[0]
    found = [bases[:16].mean(), bases[16:32].mean(), bases[32:].mean(), bases.mean()]
    np.testing.assert_allclose(found, [power, scaling, log, uniform], atol=1e-10)


def desc(n_dimensions):
    return MonotoneMap(
        maps.desc_parts(2, n_dimensions, (20,), sees_score=False), maps.desc, context_width=2 * n_dimensions
    )


def test_desc_composition_oracle():
    """Shapes .5477225575 (power .5) and .3446953624 (log .5) at .3, attention (.25, .75), value .9."""
    one = desc(4)
    shapes = [one.shape_0, one.shape_1]
    with torch.no_grad():
        for module in (*shapes, one.field_attention, one.value):
            module.last.weight.zero_()
        for module, basis in zip(shapes, (0, 32), strict=True):
            module.last.bias[basis] = 60.0
        one.field_attention.last.bias.copy_(torch.log(torch.tensor([0.25, 0.75])))
        one.value.last.bias.fill_(np.log(9.0))
    result = torch.sigmoid(one(torch.logit(torch.tensor([0.3], dtype=torch.float64)), torch.ones(1, 8)))
    assert result.item() == pytest.approx(0.9 * (0.25 * 0.5477225575 + 0.75 * 0.3446953624), abs=1e-7)


def test_desc_attention_leaves_out_the_field_itself():
    """With two fields each attends to the other with weight 1, whatever the vectors are."""
    one = desc(3)
    seen = []
    for shape in (one.shape_0, one.shape_1):
        shape.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    one(torch.zeros(1), torch.arange(6.0).reshape(1, 6))
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
