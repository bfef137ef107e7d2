"""Our streaming writer makes files that the official reader takes."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from monocal.core.errors import ArtefactError
from monocal.core.format import read_tensors, write_tensors


def test_the_official_reader_gets_the_same_arrays(tmp_path):
    arrays = {
        "table": np.arange(12, dtype=np.float32).reshape(3, 4)[:, :3],
        "bias": np.array([1.5], np.float64),
        "empty": np.zeros((0, 4), np.float32),
        "steps": np.array(7, np.int64),
    }
    write_tensors(tmp_path / "a.safetensors", arrays)
    for read in (load_file(tmp_path / "a.safetensors"), read_tensors(tmp_path / "a.safetensors")):
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype
            assert np.array_equal(read[name], array)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"table": np.zeros((100, 4), np.float32)})
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtefactError, match=r"a\.safetensors cannot be read"):
        read_tensors(path)
