"""From a model to an ONNX file that is compared with `predict` on every export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.fields import FIRST_ID, NULL_ID, STEPS, Ids
from monocal.core.files import atomic_file, output_file
from monocal.core.scores import LOGIT_LIMIT, SCORE_EPSILON, Floats, sigmoid
from monocal.models.model import Model
from monocal.ops.onnx_graph import GraphBuilder, Node
from monocal.ops.onnx_ops import OnnxOps
from monocal.tables.vocabulary import FieldVocabulary, NumericField

_UNSEEN = "\0unseen"
_BATCH_ROWS = 1000


def output_name(task: str) -> str:
    return f"{task}_calibrated"


def parity(model: Model, path: Path, inputs: str, n_rows: int) -> float:
    """Returns the largest difference between the graph and `predict` on rows with seen and unseen values."""
    import onnxruntime

    random = np.random.default_rng(0)
    fields = model.vocabulary.fields
    ids: Ids = np.zeros((n_rows, len(fields)), dtype=np.int32)
    feed: dict[str, Any] = {}
    for index, field in enumerate(fields):
        # one id more than there are: the first beyond the table
        ids[:, index] = random.integers(0, field.size + 1, n_rows)
        if inputs == "values" and isinstance(field, NumericField):
            feed[field.name] = field.numbers_of(ids[:, index])
            ids[:, index] = field.ids_of(feed[field.name])
        elif inputs == "values" and isinstance(field, FieldVocabulary):
            feed[field.name] = _as_text(field, ids[:, index])
    if fields and inputs == "ids":
        feed["features"] = ids.astype(np.int64)
    rates: Floats | float | None = model.sampling_rate if not isinstance(model.sampling_rate, str) else None
    if isinstance(model.sampling_rate, str):
        rates = feed[model.sampling_rate] = random.uniform(0.05, 1.0, n_rows)
    scores: dict[str, Floats] = {}
    for task in model.tasks:
        logits = np.clip(random.normal(-2.0, 3.0, n_rows), -16.0, 16.0)
        scores[task.name] = feed[task.score] = logits if model.scores_are == "logit" else sigmoid(logits)
    expected = model.predict_ids(ids, scores, rates)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for rows in _batches(n_rows):
        part = {name: column[rows] for name, column in feed.items()}
        answers = session.run([output_name(name) for name in model.task_names], part)
        for name, answer in zip(model.task_names, answers, strict=True):
            # a NaN anywhere must not pass as agreement
            worst = float(np.maximum(worst, np.max(np.abs(answer - expected[name][rows]))))
    return worst


def _batches(n_rows: int) -> list[slice]:
    """Cuts rows into one of 1, then batches that memory can bear: the graph is to take any number."""
    starts = [0, *range(1, n_rows, _BATCH_ROWS)]
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], n_rows], strict=True)]


def _as_text(field: FieldVocabulary, ids: Ids) -> Any:
    """Returns the values behind ids; ids of null become 0 in place, since text inputs cannot carry a null."""
    values = field.values.to_pylist()
    nulls = [index + 1 for index, value in enumerate(values) if value is None]
    ids[np.isin(ids, nulls)] = 0
    known: Any = np.array([_UNSEEN, *[value or "" for value in values], _UNSEEN], dtype=object)
    return known[ids]


OPSET, ML_OPSET = 18, 3

TOLERANCE = 1e-6
"""Accepted difference in probability when the graph computes the same formula as `predict`."""

TOLERANCE_OF_NODES = 1e-4
"""Accepted difference in probability when an integral is taken at fixed nodes."""


@final
@dataclass(frozen=True)
class ExportResult:
    """What was written and how far it is from `predict`.

    Attributes:
        path: The file.
        largest_difference: Largest absolute difference in probability over the parity rows.
        tolerance: What was accepted.
        n_nodes: Nodes of the approximated integrals; None if the graph computes the same formula as `predict`.
        n_rows: How many parity rows there were.
        inputs: Names of the graph's inputs.
        outputs: Names of its outputs, one per task.
    """

    path: Path
    largest_difference: float
    tolerance: float
    n_nodes: int | None
    n_rows: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def export_onnx(
    model: Model,
    path: str | Path,
    *,
    inputs: Literal["values", "ids"] = "values",
    tolerance: float | None = None,
    n_nodes: int = 128,
    n_parity_rows: int = 4096,
) -> ExportResult:
    """Writes a batch-dynamic graph and compares it with `predict` in ONNX Runtime; beyond `tolerance` nothing is kept.

    Inputs: the score column of every task (float64), and per field its raw value as text (`inputs="values"`) or one
    int64 matrix `features` of ids (`inputs="ids"`); a column of sampling rates if the model has one. Outputs: one
    float64 column per task, named `<task>_calibrated`. Text inputs cannot carry a null: it counts as unseen. A numeric
    field is a float64 column among raw values, with NaN for a null.

    Every method is written as the formula that `predict` computes, but for `umc_concat`: the closed form
    of its integral is a walk over the kinks of a network, which ONNX cannot express, so it is taken at fixed nodes.

    Arguments:
        model: A fitted model.
        path: The file to write.
        inputs: Raw values, looked up inside the graph, or ids from the model's vocabulary.
        tolerance: Largest difference in probability that is accepted; None stands for 1e-6, or 1e-4 if an integral
            is taken at fixed nodes.
        n_nodes: How many nodes such an integral has.
        n_parity_rows: Rows of the comparison: scores over the whole range, seen and unseen values.
    """
    path = output_file(path)
    if inputs not in ("values", "ids"):
        raise InvalidInput.of("inputs", repr(inputs), '"values" or "ids"', "choose one of the two")
    if n_nodes < 1:
        raise InvalidInput.of("n_nodes", n_nodes, "at least 1", "use 128")
    graph = GraphBuilder(n_nodes)
    made, names = _write_graph(graph, model, inputs)
    if tolerance is None:
        tolerance = TOLERANCE if graph.is_exact else TOLERANCE_OF_NODES
    with atomic_file(path) as temporary:
        temporary.write_bytes(made.SerializeToString())
        worst = parity(model, temporary, inputs, n_parity_rows)
        if not worst <= tolerance:
            raise InvalidInput.of(
                "model", f"a graph that differs by {worst:.2e} from predict", f"at most {tolerance:.0e}",
                f"{'' if graph.is_exact else 'raise n_nodes, '}raise tolerance if that is good enough, "
                "or serve the model with monocal serve",
            )  # fmt: skip
    outputs = tuple(output_name(name) for name in model.task_names)
    used = None if graph.is_exact else n_nodes
    return ExportResult(path, worst, tolerance, used, n_parity_rows, names, outputs)


def _write_graph(graph: GraphBuilder, model: Model, kind: str) -> tuple[Any, tuple[str, ...]]:
    from onnx import TensorProto, checker, helper

    ops = OnnxOps(graph)
    double, text, integer = TensorProto.DOUBLE, TensorProto.STRING, TensorProto.INT64
    entries = {task.score: helper.make_tensor_value_info(task.score, double, ["rows"]) for task in model.tasks}
    ids: Node | None = None
    if model.field_names and kind == "ids":
        ids = Node(graph, "features", whole=True)
        entries[ids.name] = helper.make_tensor_value_info(ids.name, integer, ["rows", len(model.field_names)])
    elif model.field_names:
        columns = []
        for field in model.vocabulary.fields:
            if isinstance(field, NumericField):
                entries[field.name] = helper.make_tensor_value_info(field.name, double, ["rows"])
                columns.append(ops.upright(_number_ids(ops, field)))
                continue
            entries[field.name] = helper.make_tensor_value_info(field.name, text, ["rows"])
            known = {value: place for place, value in enumerate(field.values.to_pylist(), 1) if value is not None}
            known |= field.spellings
            found = graph.apply(
                "LabelEncoder",
                Node(graph, field.name),
                whole=True,
                domain="ai.onnx.ml",
                keys_strings=list(known) or [""],
                values_int64s=list(known.values()) or [0],
                default_int64=0,
            )
            columns.append(ops.upright(found))
        ids = ops.concat(columns)
    shift: Node | float = 0.0
    if isinstance(model.sampling_rate, str):
        entries[model.sampling_rate] = helper.make_tensor_value_info(model.sampling_rate, double, ["rows"])
        shift = ops.log(Node(graph, model.sampling_rate))
    elif model.sampling_rate is not None:
        shift = float(np.log(model.sampling_rate))
    for task in model.tasks:
        score = Node(graph, task.score)
        is_probability = model.scores_are == "probability"
        z = ops.logit(score, SCORE_EPSILON) if is_probability else ops.clip(score, -LOGIT_LIMIT, LOGIT_LIMIT)
        z = z if model.sampling_rate is None else z + shift
        graph.answer(task.calibrator.probabilities(ops, z, ids), output_name(task.name))
    outputs = [helper.make_tensor_value_info(output_name(name), double, ["rows"]) for name in model.task_names]
    whole = helper.make_graph(graph.nodes, "monocal", list(entries.values()), outputs, graph.constants)
    made = helper.make_model(
        whole,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        producer_name="monocal",
        ir_version=9,
    )
    checker.check_model(made)
    return made, tuple(entries)


def _number_ids(ops: OnnxOps, field: NumericField) -> Node:
    """Adds what `ids_of_numbers` does, step by step, so that both round alike; NaN is a null."""
    given = Node(ops.graph, field.name)
    is_null = ops.graph.apply("IsNaN", given)
    knots = np.array(field.knots, dtype=np.float64)
    null, first = (ops.graph.constant(place, np.int64) for place in (NULL_ID, FIRST_ID))
    if len(knots) < 2:
        return ops.where(is_null, null, first)
    inside = ops.clip(ops.where(is_null, knots[0], given), knots[0], knots[-1])
    left = ops.segment(inside, knots)
    rise = (inside - ops.look_up(knots, left)) * ops.look_up(1.0 / np.diff(knots), left)
    steps = ops.graph.apply("Round", (rise + ops.cast(left, np.float64)) * float(STEPS))
    return ops.where(is_null, null, ops.cast(steps, np.int64) + first)
