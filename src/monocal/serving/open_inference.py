"""The Open Inference Protocol, version 2, in its JSON form: so that clients of other servers find their way."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from monocal.core.errors import InvalidInput, UnknownName
from monocal.serving.engine import Answer, Engine, Request
from monocal.serving.limits import Refusal
from monocal.serving.schemas import InferBody, InferOutput, Inferred, Output, Tensor, decode

PLATFORM = "monocal"

BINARY_HEADER = "inference-header-content-length"
"""Sent by clients whose tensors follow the JSON in binary form, which is not taken."""

SCORE, FIELD, PROBABILITY = "score.", "field.", "probability."
"""Prefixes of tensor names, so that a task and a field of the same name do not meet."""

SAMPLING_RATE, IDS, FUSED = "sampling_rate", "ids", "fused"

_JSON_TYPES: dict[str, Any] = {"FP": list[float], "BOOL": list[bool], "BYTES": list[str]}
"""What the data of a type is in JSON; of all others integers."""


def metadata(name: str, engine: Engine) -> dict[str, Any]:
    """Describes the tensors a model takes and gives. A field's tensor may have one value, which all rows share."""
    inputs = [_described(SCORE + task, "FP64") for task in engine.task_names]
    inputs += [
        _described(FIELD + field, "FP64" if field in engine.numeric_names else "BYTES") for field in engine.field_names
    ]
    if isinstance(engine.sampling_rate, str):
        inputs.append(_described(SAMPLING_RATE, "FP64"))
    outputs = [_described(PROBABILITY + task, "FP64") for task in engine.task_names]
    if engine.fusion is not None:
        outputs.append(_described(FUSED, "FP64"))
    return {"name": name, "versions": [engine.version], "platform": PLATFORM, "inputs": inputs, "outputs": outputs}


def infer_request(content: bytes, max_rows: int, engine: Engine) -> tuple[InferBody, Request]:
    """Turns the body of an inference request into a request for the engine; names come first, then values.

    Example:
        >>> import monocal
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> engine = Engine(monocal.fit(log, method="platt", score="pctr", label="click"))
        >>> said = b'{"inputs": [{"name": "score.click", "shape": [2], "datatype": "FP64", "data": [0.1, 0.2]}]}'
        >>> infer_request(said, 10, engine)[1].scores
        {'click': [0.1, 0.2]}
    """
    body = decode(content, InferBody)
    known = {SCORE + task for task in engine.task_names} | {FIELD + field for field in engine.field_names}
    known |= {IDS, SAMPLING_RATE}
    by_name: dict[str, Tensor] = {}
    for tensor in body.inputs:
        if tensor.name not in known:
            raise UnknownName.among("input", tensor.name, (f"{SCORE}<task>", f"{FIELD}<field>", IDS, SAMPLING_RATE))
        if tensor.name in by_name:
            raise InvalidInput.of(f"input {tensor.name!r}", "two tensors", "one", "name every input once")
        if tensor.shape[0] > max_rows:
            message = f"inputs: got {tensor.shape[0]} candidates; expected at most {max_rows}. Hint: split them."
            raise Refusal(413, message)
        by_name[tensor.name] = tensor
    n_rows = next((tensor.shape[0] for name, tensor in by_name.items() if name.startswith(SCORE)), 0)
    scores: dict[str, list[Any]] = {}
    shared: dict[str, Any] = {}
    fields: dict[str, list[Any]] = {}
    request = Request(scores, shared, fields)
    for name, tensor in by_name.items():
        values = _values(tensor)
        if name == IDS:
            if len(tensor.shape) != 2:
                raise InvalidInput.of("shape of input 'ids'", tensor.shape, "[candidates, fields]", "send both sizes")
            _check_type(tensor, "INT", "integers", "send INT32")
            request.ids = np.array([min(number, 2**63 - 1) for number in values], np.int64).reshape(tensor.shape)
            continue
        if len(tensor.shape) == 2 and tensor.shape[1] != 1:
            raise InvalidInput.of(
                f"shape of input {name!r}", tensor.shape, "[candidates] or [candidates, 1]", "send one column"
            )
        kind, _, rest = name.partition(".")
        if name == SAMPLING_RATE:
            _check_type(tensor, "FP", "FP64 or FP32", "send numbers")
            request.sampling_rate = values[0] if len(values) == 1 else values
        elif kind + "." == SCORE:
            _check_type(tensor, "FP", "FP64 or FP32", "send numbers")
            scores[rest] = values
        else:
            if rest in engine.numeric_names:
                _check_type(tensor, "FP INT BOOL", "FP64 or integers", "send numbers")
            else:
                _check_type(tensor, "BYTES INT BOOL", "BYTES, integers or BOOL", "send categories as text")
            if len(values) == 1 and n_rows > 1:
                shared[rest] = values[0]
            else:
                fields[rest] = values
    return body, request


def inferred(name: str, body: InferBody, answer: Answer) -> Inferred:
    """Returns the outputs that were asked for, all if none was named."""
    columns = {PROBABILITY + task: column for task, column in answer.probabilities.items()}
    if answer.fused is not None:
        columns[FUSED] = answer.fused
    named = body.outputs or [Output(column) for column in columns]
    if len(named) > len(columns):
        raise InvalidInput.of("outputs", f"{len(named)} of them", f"at most {len(columns)}", "name every output once")
    for output in named:
        if output.name not in columns:
            raise UnknownName.among("output", output.name, columns)
    outputs = [InferOutput(output.name, "FP64", [answer.n_rows], columns[output.name].tolist()) for output in named]
    return Inferred(name, answer.version, outputs, body.id)


def _values(tensor: Tensor) -> list[Any]:
    """Returns the data of a tensor, flat, after comparing it with its shape and its type."""
    what = f"data of input {tensor.name!r}"
    if tensor.data is UNSET:
        raise InvalidInput.of(what, "nothing", "a list of values", "send JSON data; binary tensors are not taken")
    data: list[Any] = tensor.data
    if data and all(type(row) is list for row in data):
        data = list(chain.from_iterable(data))
    n_values = math.prod(tensor.shape)
    if len(data) != n_values:
        raise InvalidInput.of(
            f"input {tensor.name!r}", f"{len(data)} values", f"{n_values}, as its shape says", "make the two agree"
        )
    kind = _JSON_TYPES.get("FP" if tensor.datatype.startswith("FP") else tensor.datatype, list[int])
    try:
        values: list[Any] = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput.of(what, str(error), f"{tensor.datatype} values", "check its datatype") from None
    return values


def _check_type(tensor: Tensor, kinds: str, expected: str, hint: str) -> None:
    if not any(kind in tensor.datatype for kind in kinds.split()):
        raise InvalidInput.of(f"datatype of input {tensor.name!r}", tensor.datatype, expected, hint)


def _described(name: str, datatype: str) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [-1]}
