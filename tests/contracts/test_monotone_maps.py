"""Every map from logit to logit against every law, in every backend, on deliberately sharp weights."""

from functools import partial

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

from monocal.compiled.predict import umc_predictor
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.neural import maps
from monocal.neural.network import MonotoneMap
from monocal.ops.numpy_ops import NumpyOps
from monocal.ops.onnx_graph import GraphBuilder, Node
from monocal.ops.onnx_ops import OnnxOps

KNOTS = [-4.0, -2.5, -1.0, 0.0, 0.7, 2.0]
WIDTH = 12


def umc(width=WIDTH, knots=KNOTS, hidden=(32, 16), rescaling=True):
    parts = maps.umc_parts(width, knots, hidden, rescaling=rescaling, identity_start=False)
    return parts, partial(maps.umc, rescaling=rescaling), width


def fac(rises):
    return maps.fac_parts(WIDTH, 100, (40,)), partial(maps.fac, rises=rises), WIDTH


def sbcr(width=WIDTH):
    return maps.sbcr_parts(width, 100, (32, 16)), partial(maps.sbcr, n_bins=100), width


def desc(sees_score):
    return maps.desc_parts(3, 4, (20,), sees_score=sees_score), maps.desc, WIDTH


def line(rises):
    return maps.line_parts(100), partial(maps.broken_line, rises=rises), 0


MAPS = {
    "umc": umc,
    "umc not rescaled": partial(umc, rescaling=False),
    "umc of two knots": partial(umc, knots=[0.0, 1.0], hidden=(8,)),
    "umc of three layers": partial(umc, hidden=(40, 24, 16)),
    "umc without features": partial(umc, 0),
    "fac": partial(fac, False),
    "fac in order": partial(fac, True),
    "sbcr": sbcr,
    "sbcr without features": partial(sbcr, 0),
    "desc": partial(desc, True),
    "desc in order": partial(desc, False),
    "line": partial(line, False),
    "line in order": partial(line, True),
}
FALLING = ["fac", "desc", "line"]
RISING = [name for name in MAPS if name not in FALLING]
EVERY = pytest.mark.parametrize("name", MAPS)


def made(name, factor=None, seed=1):
    """Returns the torch map, its function and its width; a factor makes weights larger, as hard training could."""
    parts, curve, width = MAPS[name]()
    network = MonotoneMap(parts, curve, context_width=width)
    if factor is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in network.parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.mul_(factor).add_(0.3 * noise if parameter.ndim < 2 else 0.05 * noise)
    return network.eval(), curve, width


def context_for(width, n_rows, seed=0):
    if width == 0:
        return None
    return np.random.default_rng(seed).normal(size=(n_rows, width)).astype(np.float32)


def in_graph(curve, arrays, width):
    """Returns the map as ONNX Runtime evaluates it."""
    graph = GraphBuilder()
    answer = curve(OnnxOps(graph, arrays), Node(graph, "t"), Node(graph, "context") if width else None)
    graph.answer(answer, "answers")
    inputs = [helper.make_tensor_value_info("t", TensorProto.DOUBLE, ["rows"])]
    if width:
        inputs.append(helper.make_tensor_value_info("context", TensorProto.DOUBLE, ["rows", width]))
    outputs = [helper.make_tensor_value_info("answers", TensorProto.DOUBLE, ["rows"])]
    whole = helper.make_graph(graph.nodes, "map", inputs, outputs, graph.constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def evaluated(logits, context):
        feed = {"t": logits} if context is None else {"t": logits, "context": context.astype(np.float64)}
        return session.run(None, feed)[0]

    return evaluated


def neighbours():
    """Runs of neighbouring float64 numbers around knots and elsewhere, over the whole range."""
    starts = np.concatenate([KNOTS, np.random.default_rng(0).uniform(-6, 6, 100)])
    chains = [np.nextafter(starts, -np.inf), starts]
    for _ in range(20):
        chains.append(np.nextafter(chains[-1], np.inf))
    return np.unique(np.concatenate([*chains, probe_logits(n_chains=10)]))


@EVERY
def test_arrays_and_a_graph_give_the_numbers_of_tensors(name):
    network, curve, width = made(name, 1.5)
    context, logits = context_for(width, 400), np.linspace(-12, 12, 400)
    with torch.no_grad():
        expected = network(torch.as_tensor(logits), None if context is None else torch.as_tensor(context)).numpy()
    on_arrays = curve(NumpyOps(network.arrays()), logits, context)
    np.testing.assert_allclose(on_arrays, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(
        in_graph(curve, network.arrays(), width)(logits, context), on_arrays, rtol=2e-5, atol=2e-5
    )


@pytest.mark.parametrize("numba", [True, False], ids=["compiled layers", "numpy alone"])
@pytest.mark.parametrize("factor", [1.0, 10.0])
@pytest.mark.parametrize("name", RISING)
def test_arrays_never_decrease_on_sharp_weights(monkeypatch, name, factor, numba):
    if not numba:
        monkeypatch.setattr("monocal.ops.numpy_ops.numba_is_installed", lambda: False)
    network, curve, width = made(name, factor)
    on_arrays = partial(curve, NumpyOps(network.arrays()))
    assert assert_monotone(on_arrays, context_for(width, 3), logits=neighbours()).worst_fall == 0.0


@pytest.mark.parametrize("name", RISING)
def test_a_graph_never_decreases_on_sharp_weights(name):
    network, curve, width = made(name, 4.0)
    evaluated = in_graph(curve, network.arrays(), width)
    logits = neighbours()
    for row in range(3):
        context = context_for(width, 1, seed=row)
        assert np.diff(evaluated(logits, None if context is None else context.repeat(len(logits), 0))).min() >= 0.0


@pytest.mark.parametrize("name", FALLING)
def test_maps_without_the_promise_do_decrease_somewhere(name):
    """The tag is honest: weights exist on which the map falls."""
    network, curve, width = made(name, 10.0)
    with pytest.raises(NotMonotone, match="down by"):
        assert_monotone(partial(curve, NumpyOps(network.arrays())), context_for(width, 8))


def compiled(name, factor, sizes=(4, 50, 300), n_dimensions=4, **layout):
    """Returns compiled loops and the same map on arrays, both on field ids with shifts."""
    network, curve, width = made(name, factor)
    arrays = network.arrays()
    random = np.random.default_rng(0)
    vectors = random.normal(size=(sum(sizes), n_dimensions)).astype(np.float32)
    shifts, starts = random.normal(size=sum(sizes)), np.cumsum([0, *sizes[:-1]])
    loops = umc_predictor(
        arrays, field_sizes=sizes, vectors=vectors if width else None, wide_shifts=shifts, intercept=0.25, **layout
    )

    def by_arrays(logits, ids):
        places = np.where((ids >= 0) & (ids < sizes), ids, 0) + starts
        context = vectors[places].reshape(len(ids), -1) if width else None
        return curve(NumpyOps(arrays), logits, context) + shifts.astype(np.float32)[places].sum(axis=1) + 0.25

    ids = np.stack([random.integers(0, size, 400) for size in sizes], axis=1).astype(np.int32)
    return loops, by_arrays, ids


KNOT_MAPS = [name for name in MAPS if name.startswith("umc")]
LAYOUTS = {"all folded": {}, "large fields": {"max_table_bytes": 20_000}, "nothing folded": {"max_table_bytes": 0}}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KNOT_MAPS)
def test_compiled_loops_give_the_numbers_of_arrays(name, layout):
    loops, by_arrays, ids = compiled(name, 1.5, **LAYOUTS[layout])
    logits = np.linspace(-12, 12, 400)
    ids[::7, 1] = [10_000, -1, 50] * 19 + [0]
    np.testing.assert_allclose(loops.score(logits, ids), by_arrays(logits, ids), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["umc without features"])
def test_compiled_pieces_give_the_numbers_of_arrays_to_rounding(name):
    """Without layers, whose float32 sums are taken in another order, nothing is left but rounding."""
    loops, by_arrays, ids = compiled(name, 3.0)
    logits = neighbours()
    many = np.resize(ids, (len(logits), ids.shape[1]))
    single = loops.score(logits, many) - loops.score(np.zeros(len(logits)), many)
    arrays = by_arrays(logits, many) - by_arrays(np.zeros(len(logits)), many)
    np.testing.assert_allclose(single, arrays, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", KNOT_MAPS)
def test_compiled_loops_never_decrease_and_take_every_row_alone(name):
    loops, _, ids = compiled(name, 10.0, max_table_bytes=20_000)
    logits = neighbours()
    for row in ids[:3]:
        assert np.diff(loops.score(logits, np.tile(row, (len(logits), 1)))).min() >= 0.0
    logits = np.linspace(-5, 5, 400)
    whole = loops.score(logits, ids)
    for size in (1, 7, 33):
        parts = [loops.score(logits[i : i + size], ids[i : i + size]) for i in range(0, 400, size)]
        assert np.array_equal(np.concatenate(parts), whole)


@EVERY
def test_one_row_equals_the_same_row_in_a_batch(name):
    network, curve, width = made(name, 1.5)
    ops, context, logits = NumpyOps(network.arrays()), context_for(width, 40), np.linspace(-5, 5, 40)
    together = curve(ops, logits, context)
    for row in (0, 17, 39):
        here = slice(row, row + 1)
        assert curve(ops, logits[here], None if context is None else context[here])[0] == together[row]


@EVERY
def test_every_parameter_receives_a_gradient(name):
    network, _, width = made(name)
    if "values" in dict(network.named_parameters()):  # ordered values leave the penalty flat
        with torch.no_grad():
            network.values[40], network.values[41] = 1.0, -1.0
    context = context_for(width, 600)
    context = None if context is None else torch.as_tensor(context)
    (network(torch.linspace(-6, 5, 600), context).square().mean() + network.penalty()).backward()
    for parameter_name, parameter in network.named_parameters():
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@EVERY
def test_finite_for_extreme_logits_and_in_the_dtype_of_the_input(name):
    network, curve, width = made(name)
    context, logits = context_for(width, 5), np.array([-40.0, -16.2, 0.0, 16.2, 40.0])
    assert np.isfinite(curve(NumpyOps(network.arrays()), logits, context)).all()
    for dtype in (torch.float32, torch.float64):
        result = network(torch.as_tensor(logits, dtype=dtype), None if context is None else torch.as_tensor(context))
        assert result.dtype == dtype
        assert torch.isfinite(result).all()


@EVERY
def test_building_is_deterministic_and_leaves_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    first, second = made(name)[0], made(name)[0]
    assert torch.equal(before, torch.random.get_rng_state())
    for (key, weight), (_, other) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
        assert torch.equal(weight, other), key


@pytest.mark.parametrize(
    ("parts", "curve", "limit", "tolerance"),
    [
        (maps.umc_parts(WIDTH, KNOTS, (16,)), maps.umc, 40.0, 1e-6),
        (maps.umc_parts(0, KNOTS, ()), maps.umc, 40.0, 1e-6),
        (maps.fac_parts(WIDTH, 100, (16,), identity_start=True), partial(maps.fac, rises=True), 4.5, 1e-3),
        (maps.sbcr_parts(WIDTH, 100, (16,), identity_start=True), partial(maps.sbcr, n_bins=100), 4.5, 1e-3),
    ],
    ids=["umc", "umc without features", "fac", "sbcr"],
)
def test_identity_start_returns_the_input_within_the_range_of_the_method(parts, curve, limit, tolerance):
    width = 0 if "constants" in parts else WIDTH
    network = MonotoneMap(parts, curve, context_width=width)
    logits = np.linspace(-limit, limit, 401)
    found = curve(NumpyOps(network.arrays()), logits, context_for(width, 401))
    np.testing.assert_allclose(found, logits, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: maps.umc_parts(5, [1.0, 1.0], (8,)), r"knots: got \[1.0, 1.0\]; expected at least two increasing"),
        (lambda: maps.line_parts(1), "n_knots: got 1; expected at least 2"),
        (lambda: maps.desc_parts(1, 4, (8,), sees_score=True), "n_fields: got 1; expected at least 2 fields"),
        (lambda: MonotoneMap(maps.sbcr_parts(5, 9, (0,)), maps.sbcr), "hidden: got layers"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_chains_of_neighbouring_numbers_find_what_a_grid_misses():
    def wobbling(t, _context):
        return t - 1e-3 * np.sin(1e6 * t)

    assert assert_monotone(wobbling, logits=probe_logits(n_chains=0)).worst_fall == 0.0
    with pytest.raises(NotMonotone):
        assert_monotone(wobbling)
