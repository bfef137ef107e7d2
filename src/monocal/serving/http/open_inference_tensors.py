"""Tensors of the Open Inference Protocol: JSON data and the binary extension."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName, shown
from monocal.core.spaces import Floats
from monocal.serving.http.json_bodies import object_of
from monocal.serving.http.refusals import TOO_LARGE, Refusal

NUMERIC_TYPES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
"""Tensor types and their layout; `BYTES` is the other one, text in our use of it."""

TENSOR_TYPES = (*NUMERIC_TYPES, "BYTES")

_JSON_TYPES: dict[str, tuple[type, ...]] = {"BOOL": (bool,), "BYTES": (str,), "FP": (int, float), "INT": (int,)}
_LENGTH = struct.Struct("<I")


@final
@dataclass(frozen=True, slots=True)
class Tensor:
    """One named input: `values` is flat, in row-major order."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    values: list[Any] | NDArray[Any]

    @property
    def is_float(self) -> bool:
        return self.datatype.startswith("FP")

    def as_list(self) -> list[Any]:
        return self.values if isinstance(self.values, list) else self.values.tolist()


def read_tensors(described: Sequence[Any], raw: bytes, max_values: int) -> list[Tensor]:
    """Returns the inputs of a request.

    Arguments:
        described: The `inputs` of its JSON part.
        raw: What follows the JSON part: binary data in the order of the inputs that have some.
        max_values: Longest tensor accepted.

    Example:
        >>> said = {"name": "field.site", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 9}}
        >>> read_tensors([said], b"\\x01\\x00\\x00\\x00a" + b"\\x00\\x00\\x00\\x00", 10)[0].values
        ['a', '']
    """
    tensors = []
    start = 0
    for entry in described:
        description = object_of(entry, "input")
        name, shape, datatype = _head(description, max_values)
        size = _binary_size(description, name)
        if size is None:
            values: list[Any] | NDArray[Any] = _from_json(description.get("data"), name, shape, datatype)
        else:
            if "data" in description:
                raise InvalidInput.of(f"input {name!r}", "both data and binary data", "one of the two", "drop one")
            if start + size > len(raw):
                raise InvalidInput.of(
                    f"input {name!r}", f"{len(raw) - start} bytes", f"{size} bytes of binary data", "send all of it"
                )
            values = _from_binary(raw[start : start + size], name, shape, datatype)
            start += size
        tensors.append(Tensor(name, shape, datatype, values))
    if start != len(raw):
        raise InvalidInput.of(
            "body",
            f"{len(raw) - start} bytes that belong to no input",
            "as many as the binary_data_size of all inputs say",
            "check the Inference-Header-Content-Length header",
        )
    return tensors


def write_outputs(columns: dict[str, Floats], as_binary: dict[str, bool]) -> tuple[list[dict[str, Any]], bytes]:
    """Returns the descriptions of FP64 outputs and the binary data of those that asked for it."""
    described: list[dict[str, Any]] = []
    raw = []
    for name, column in columns.items():
        head: dict[str, Any] = {"name": name, "datatype": "FP64", "shape": [int(column.shape[0])]}
        if as_binary[name]:
            content = column.astype("<f8", copy=False).tobytes()
            raw.append(content)
            described.append({**head, "parameters": {"binary_data_size": len(content)}})
        else:
            described.append({**head, "data": column})
    return described, b"".join(raw)


def _head(description: dict[str, Any], max_values: int) -> tuple[str, tuple[int, ...], str]:
    name, shape, datatype = (description.get(part) for part in ("name", "shape", "datatype"))
    if type(name) is not str:
        raise InvalidInput.of("name of an input", name, "text", "see the model's metadata")
    if (
        type(shape) is not list
        or len(shape) not in (1, 2)
        or not all(type(size) is int and size >= 0 for size in shape)
    ):
        raise InvalidInput.of(f"shape of input {name!r}", shape, "one or two sizes", "send [candidates]")
    if type(datatype) is not str or datatype not in TENSOR_TYPES:
        raise UnknownName.among(f"datatype of input {name!r}", shown(datatype), TENSOR_TYPES)
    if math.prod(shape) > max_values or max(shape) > max_values:
        raise Refusal(
            TOO_LARGE, f"input {name!r}: got shape {shape}; expected at most {max_values} values. Hint: split it."
        )
    return name, tuple(shape), datatype


def _binary_size(description: dict[str, Any], name: str) -> int | None:
    parameters = object_of(description.get("parameters", {}), f"parameters of input {name!r}")
    size = parameters.get("binary_data_size")
    if size is not None and (type(size) is not int or size < 0):
        raise InvalidInput.of(f"binary_data_size of input {name!r}", size, "a number of bytes", "leave it out for JSON")
    return size


def _from_json(given: Any, name: str, shape: tuple[int, ...], datatype: str) -> list[Any]:
    if type(given) is not list:
        raise InvalidInput.of(f"data of input {name!r}", "no list", "a list of values", "send data, or binary data")
    data: list[Any] = given
    if data and type(data[0]) is list and all(type(row) is list for row in data):
        _check_count(sum(map(len, data)), name, shape)
        data = [value for row in data for value in row]
    _check_count(len(data), name, shape)
    wanted = _JSON_TYPES["FP" if datatype.startswith("FP") else "INT" if "INT" in datatype else datatype]
    for value in data:
        if type(value) not in wanted:
            raise InvalidInput.of(
                f"data of input {name!r}", f"a {type(value).__name__}", f"{datatype} values", "check its datatype"
            )
    return data


def _from_binary(content: bytes, name: str, shape: tuple[int, ...], datatype: str) -> list[Any] | NDArray[Any]:
    if datatype == "BYTES":
        values = _texts(content, name, math.prod(shape))
        _check_count(len(values), name, shape)
        return values
    layout = np.dtype(NUMERIC_TYPES[datatype])
    if len(content) % layout.itemsize:
        raise InvalidInput.of(
            f"input {name!r}", f"{len(content)} bytes", f"whole {datatype} values", "check its datatype"
        )
    _check_count(len(content) // layout.itemsize, name, shape)
    if datatype == "BOOL":
        return np.frombuffer(content, dtype=np.uint8).astype(np.bool_)
    return np.frombuffer(content, dtype=layout)


def _texts(content: bytes, name: str, n_most: int) -> list[str]:
    texts: list[str] = []
    start, end = 0, len(content)
    try:
        while start < end and len(texts) <= n_most:
            (length,) = _LENGTH.unpack_from(content, start)
            start += 4
            if start + length > end:
                raise InvalidInput.of(f"input {name!r}", "a text that is cut off", "whole texts", "send all of it")
            texts.append(content[start : start + length].decode())
            start += length
    except (struct.error, UnicodeDecodeError):
        raise InvalidInput.of(
            f"input {name!r}", "bytes that are no text", "UTF-8 with lengths before them", "encode the values as UTF-8"
        ) from None
    return texts


def _check_count(n_values: int, name: str, shape: tuple[int, ...]) -> None:
    if n_values != math.prod(shape):
        raise InvalidInput.of(
            f"input {name!r}", f"{n_values} values", f"{math.prod(shape)}, as its shape says", "make the two agree"
        )
