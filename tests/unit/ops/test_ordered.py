"""Exponential, logarithm and sigmoid of exported graphs: order, position, accuracy."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from monocal.ops.onnx_graph import GraphBuilder, Node
from monocal.ops.onnx_ops import OnnxOps


def session_of(write):
    graph = GraphBuilder()
    graph.answer(write(OnnxOps(graph), Node(graph, "x")), "y")
    shapes = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows"]) for name in "xy"]
    whole = helper.make_graph(graph.nodes, "one", shapes[:1], shapes[1:], graph.constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def chains(centres, n=2000):
    """Runs of neighbouring float64 numbers."""
    return np.concatenate([c + np.arange(-n // 2, n // 2) * np.spacing(c) for c in centres])


STEP = np.log(2.0) / 16
LOGITS = np.unique(
    np.concatenate([np.linspace(-45, 45, 50_001), chains([-37.0, -3.1, -0.7, 1e-9, 0.3, 5 * STEP, 1.7, 2.9, 39.0])])
)
POSITIVE = np.unique(
    np.concatenate([np.exp(np.linspace(-30, 40, 50_001)), chains([1e-7, 0.3, 0.5, 1.0, 1.7, 2.0, 9e5])])
)
CASES = {
    "exp": (OnnxOps.exp, LOGITS, np.exp, {"rtol": 4e-15}),
    "log": (OnnxOps.log, POSITIVE, np.log, {"atol": 2e-14, "rtol": 0}),
    "sigmoid": (OnnxOps.sigmoid, LOGITS, lambda z: 1 / (1 + np.exp(-z)), {"rtol": 4e-15}),
    "softplus": (OnnxOps.softplus, LOGITS[LOGITS < 40], lambda z: np.logaddexp(0, z), {"atol": 2e-14, "rtol": 0}),
    "logit": (
        lambda ops, x: ops.logit(x, 1e-7),
        POSITIVE[(POSITIVE > 2e-7) & (POSITIVE < 0.9999)],
        lambda p: np.log(p) - np.log1p(-p),
        {"atol": 4e-14, "rtol": 0},
    ),
}
EVERY = pytest.mark.parametrize("name", CASES)


@EVERY
def test_never_decreases_between_neighbouring_numbers(name):
    write, x, _, _ = CASES[name]
    assert np.diff(session_of(write)(x)).min() >= 0.0


@EVERY
def test_agrees_with_numpy(name):
    write, x, expected, tolerance = CASES[name]
    np.testing.assert_allclose(session_of(write)(x), expected(x), **tolerance)


@EVERY
def test_the_same_number_in_another_place_gives_the_same_result(name):
    write, x, _, _ = CASES[name]
    run = session_of(write)
    whole = run(x)
    for n in (1, 2, 3, 7, 9):
        assert np.array_equal(run(x[100 : 100 + n]), whole[100 : 100 + n])


def test_a_runtimes_own_sigmoid_does_decrease():
    """Why the graphs have one of their own."""
    own = session_of(lambda ops, x: ops.graph.apply("Sigmoid", x))
    assert np.diff(own(LOGITS)).min() < 0.0


def test_far_arguments_stay_finite():
    run = session_of(OnnxOps.sigmoid)
    assert run(np.array([-1e300, -800.0, 800.0, 1e300])).tolist() == pytest.approx([0.0, 0.0, 1.0, 1.0])
