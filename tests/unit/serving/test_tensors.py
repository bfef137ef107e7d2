"""Tensors of the Open Inference Protocol."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.core.errors import InvalidInput
from monocal.serving.http.open_inference_tensors import NUMERIC_TYPES, read_tensors, write_outputs


def described(name, datatype, n, size):
    return {"name": name, "shape": [n], "datatype": datatype, "parameters": {"binary_data_size": size}}


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.text(), max_size=5))
def test_texts_come_back_as_they_were_written(texts):
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        return
    raw = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    (found,) = read_tensors([described("field.a", "BYTES", len(texts), len(raw))], raw, 10)
    assert found.values == texts


@pytest.mark.parametrize("datatype", sorted(NUMERIC_TYPES))
def test_numbers_come_back_as_they_were_written(datatype):
    written = np.array([0, 1, 1, 0]).astype(NUMERIC_TYPES[datatype])
    raw = written.tobytes()
    (found,) = read_tensors([described("a", datatype, 4, len(raw))], raw, 10)
    assert np.array_equal(found.values, written)
    assert found.as_list() == written.tolist()


def test_several_binary_tensors_are_cut_in_their_order():
    raw = np.array([0.5]).tobytes() + np.array([7], np.int32).tobytes()
    first, second = read_tensors([described("a", "FP64", 1, 8), described("b", "INT32", 1, 4)], raw, 10)
    assert (first.as_list(), second.as_list()) == ([0.5], [7])


def test_nested_and_flat_data_mean_the_same():
    both = [{"name": "a", "shape": [2, 1], "datatype": "INT32", "data": data} for data in ([[1], [2]], [1, 2])]
    nested, flat = read_tensors(both, b"", 10)
    assert nested.values == flat.values == [1, 2]


def test_json_booleans_are_not_integers():
    with pytest.raises(InvalidInput, match="data of input 'a': got a bool; expected INT32 values"):
        read_tensors([{"name": "a", "shape": [1], "datatype": "INT32", "data": [True]}], b"", 10)


def test_outputs_are_written_as_asked():
    columns = {"a": np.array([0.25, 0.5]), "b": np.array([1.0])}
    told, raw = write_outputs(columns, {"a": True, "b": False})
    assert told[0] == {"name": "a", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}}
    assert told[1]["data"].tolist() == [1.0]
    assert np.frombuffer(raw, "<f8").tolist() == [0.25, 0.5]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=12) | st.sampled_from(["", "\0", "a\0b", "Zürich"]), max_size=8), st.integers(0, 2))
def test_texts_of_all_kinds_come_back_and_wrong_lengths_are_refused(texts, n_missing):
    raw = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
    said = {"name": "field.a", "shape": [len(texts)], "datatype": "BYTES", "parameters": {"binary_data_size": len(raw)}}
    assert read_tensors([said], raw, 100)[0].values == texts
    said["shape"] = [len(texts) + 1 + n_missing]
    with pytest.raises(InvalidInput, match=f"got {len(texts)} values; expected {len(texts) + 1 + n_missing}"):
        read_tensors([said], raw, 100)
    if len(raw) > n_missing + 1:
        said["parameters"] = {"binary_data_size": len(raw) - n_missing - 1}
        with pytest.raises(InvalidInput):
            read_tensors([said], raw[: len(raw) - n_missing - 1], 100)
