"""Bodies of the Open Inference Protocol: which tensors are what, in and out."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats
from monocal.serving.engine import Answer, Engine, Request
from monocal.serving.http.json_bodies import object_of
from monocal.serving.http.open_inference_tensors import Tensor, read_tensors
from monocal.serving.http.refusals import TOO_LARGE, Refusal

PLATFORM = "monocal"

SCORE, FIELD, PROBABILITY = "score.", "field.", "probability."
"""Prefixes of tensor names, so that a task and a field of the same name do not meet."""

SAMPLING_RATE, IDS, FUSED = "sampling_rate", "ids", "fused"


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
    return {
        "name": name,
        "versions": [engine.version],
        "platform": PLATFORM,
        "inputs": inputs,
        "outputs": outputs,
    }


def request_of(body: dict[str, Any], raw: bytes, max_rows: int, engine: Engine) -> Request:
    """Turns the inputs of an inference request into a request for the engine; names come first, then values."""
    described = body.get("inputs")
    if type(described) is not list:
        raise InvalidInput.of("inputs", "no list", "a list of tensors", "see the model's metadata")
    known = {SCORE + task for task in engine.task_names} | {FIELD + field for field in engine.field_names}
    known |= {IDS, SAMPLING_RATE}
    if len(described) > len(known):
        raise InvalidInput.of(
            "inputs", f"{len(described)} tensors", f"at most {len(known)}, one per name", "see the model's metadata"
        )
    for entry in described:
        name = object_of(entry, "input").get("name")
        if type(name) is str and name not in known:
            raise UnknownName.among("input", name, (f"{SCORE}<task>", f"{FIELD}<field>", IDS, SAMPLING_RATE))
    tensors = read_tensors(described, raw, max_rows * max(len(engine.field_names), 1))
    n_rows = next((tensor.shape[0] for tensor in tensors if tensor.name.startswith(SCORE)), 0)
    if n_rows > max_rows:
        raise Refusal(TOO_LARGE, f"inputs: got {n_rows} candidates; expected at most {max_rows}. Hint: split them.")
    scores: dict[str, Floats] = {}
    shared: dict[str, Any] = {}
    fields: dict[str, list[Any]] = {}
    request = Request(scores, shared, fields)
    seen = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise InvalidInput.of(f"input {tensor.name!r}", "two tensors", "one", "name every input once")
        seen.add(tensor.name)
        if tensor.name == IDS:
            request.ids = _ids(tensor)
        elif tensor.name == SAMPLING_RATE:
            rates = _numbers(tensor)
            request.sampling_rate = float(rates[0]) if rates.size == 1 else rates
        elif tensor.name.startswith(SCORE):
            scores[tensor.name.removeprefix(SCORE)] = _numbers(tensor)
        else:
            name = tensor.name.removeprefix(FIELD)
            values = _fields_numbers(tensor) if name in engine.numeric_names else _categories(tensor)
            if len(values) == 1 and n_rows > 1:
                shared[name] = values[0]
            else:
                fields[name] = values
    return request


def outputs_of(body: dict[str, Any], answer: Answer) -> tuple[dict[str, Floats], dict[str, bool]]:
    """Returns the columns that were asked for (all, if none was named) and which of them go out as binary."""
    columns = {PROBABILITY + task: column for task, column in answer.probabilities.items()}
    if answer.fused is not None:
        columns[FUSED] = answer.fused
    parameters = object_of(body.get("parameters", {}), "parameters")
    otherwise = _flag(parameters, "binary_data_output", False)
    asked = body.get("outputs")
    if not asked:
        return columns, dict.fromkeys(columns, otherwise)
    if type(asked) is not list or len(asked) > len(columns):
        raise InvalidInput.of("outputs", "something else", "a list of output names", "leave it out for all outputs")
    chosen, as_binary = {}, {}
    for entry in asked:
        description = object_of(entry, "output")
        name = description.get("name")
        if type(name) is not str:
            raise InvalidInput.of("name of an output", name, "text", "see the model's metadata")
        if name not in columns:
            raise UnknownName.among("output", name, columns)
        wishes = object_of(description.get("parameters", {}), f"parameters of output {name!r}")
        chosen[name] = columns[name]
        as_binary[name] = _flag(wishes, "binary_data", otherwise)
    return chosen, as_binary


def _ids(tensor: Tensor) -> Any:
    if len(tensor.shape) != 2:
        raise InvalidInput.of("shape of input 'ids'", list(tensor.shape), "[candidates, fields]", "send both sizes")
    if "INT" not in tensor.datatype:
        raise InvalidInput.of("datatype of input 'ids'", tensor.datatype, "integers", "send INT32")
    return np.asarray(tensor.values).reshape(tensor.shape)


def _numbers(tensor: Tensor) -> Floats:
    _check_one_column(tensor)
    if not tensor.is_float:
        raise InvalidInput.of(f"datatype of input {tensor.name!r}", tensor.datatype, "FP64 or FP32", "send numbers")
    return np.asarray(tensor.values, dtype=np.float64)


def _categories(tensor: Tensor) -> list[Any]:
    _check_one_column(tensor)
    if tensor.is_float:
        raise InvalidInput.of(
            f"datatype of input {tensor.name!r}", tensor.datatype, "BYTES, integers or BOOL", "send categories as text"
        )
    return tensor.as_list()


def _fields_numbers(tensor: Tensor) -> list[Any]:
    """The numbers of a numeric field; NaN is a null, which JSON data cannot have."""
    _check_one_column(tensor)
    if tensor.datatype == "BYTES":
        raise InvalidInput.of(f"datatype of input {tensor.name!r}", "BYTES", "FP64 or integers", "send numbers")
    return tensor.as_list()


def _check_one_column(tensor: Tensor) -> None:
    if len(tensor.shape) == 2 and tensor.shape[1] != 1:
        raise InvalidInput.of(
            f"shape of input {tensor.name!r}", list(tensor.shape), "[candidates] or [candidates, 1]", "send one column"
        )


def _flag(parameters: dict[str, Any], name: str, otherwise: bool) -> bool:
    value = parameters.get(name, otherwise)
    if type(value) is not bool:
        raise InvalidInput.of(name, value, "true or false", "leave it out for JSON")
    return value


def _described(name: str, datatype: str) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [-1]}
