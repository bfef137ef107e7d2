"""Indexes that travel with a large vocabulary."""

import mmap
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core import folder
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.lab.value_counts import ValueCounts
from monocal.models import artefact
from monocal.tables.value_index import ValueIndex
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary
from monocal.tables.vocabulary_file import read_vocabulary, vocabulary_bytes

TEXTS = [f"user {number}" for number in range(1_000)]


@pytest.mark.parametrize("null_at", [None, 0, 500, 1_000])
def test_ids_are_the_same_with_a_read_index(null_at):
    values = TEXTS if null_at is None else [*TEXTS[:null_at], None, *TEXTS[null_at:]]
    built = Vocabulary((FieldVocabulary("user", pa.array(values)), FieldVocabulary("small", pa.array(["a"]))))
    read = read_vocabulary(vocabulary_bytes(built, least=10))
    asked = pa.array([*values[::7], "nobody", None])
    expected = [values.index(value) + 1 if value in values else 0 for value in asked.to_pylist()]
    assert read["user"].encode(asked).tolist() == built["user"].encode(asked).tolist() == expected
    assert "index" in vars(read["user"])
    assert "index" not in vars(read["small"])
    assert read.fingerprint == built.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        lambda first, second, slots: (first, second, slots[:-1]),
        lambda first, second, slots: (first, second[:-1], slots),
        lambda first, second, slots: (first, second, np.where(slots < 0, 0, slots)),
        lambda first, second, slots: (first, second, np.where(slots == 5, 2**20, slots).astype(np.int32)),
        lambda first, second, slots: (first, second, np.where(slots == 5, -7, slots).astype(np.int32)),
    ],
)
def test_an_index_that_could_lead_astray_is_refused(change):
    index = ValueIndex(pa.array(TEXTS))
    arrays = index.arrays()
    assert ValueIndex.of_arrays(*arrays, index.salt).find(pa.array(["user 7"])).tolist() == [7]
    with pytest.raises(ValueError, match="an index"):
        ValueIndex.of_arrays(*change(*arrays), index.salt)


def test_an_index_of_other_values_is_refused():
    field = FieldVocabulary("user", pa.array(TEXTS))
    vars(field)["index"] = ValueIndex(pa.array(TEXTS[:-1]))
    with pytest.raises(ArtefactError, match="cannot be read"):
        read_vocabulary(vocabulary_bytes(Vocabulary((field,)), least=1))
    with pytest.raises(ArtefactError, match="not an Arrow file"):
        read_vocabulary(b"nothing")


def test_a_model_with_many_values_maps_its_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setattr(artefact, "INDEXED_VALUES", 100)
    monkeypatch.setattr(folder, "MAPPED_BYTES", 1_000)
    rng = np.random.default_rng(0)
    log = pa.table({"p": rng.uniform(0.1, 0.3, 4_000), "y": rng.integers(0, 2, 4_000), "user": (TEXTS * 4)})
    model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["user"])
    model.save(tmp_path / "model")
    assert "index" in vars(monocal.load(tmp_path / "model").vocabulary["user"])
    maps = []
    monkeypatch.setattr(mmap, "mmap", lambda *a, real=mmap.mmap, **k: maps.append(real(*a, **k)) or maps[-1])
    loaded = monocal.load(tmp_path / "model")
    assert len(maps) == 1
    assert loaded.fingerprint == model.fingerprint
    assert (loaded.predict(log) == model.predict(log)).all()
    model.save(tmp_path / "model")  # replaces the folder under the mapped files
    assert (loaded.predict(log) == model.predict(log)).all()


TRUNCATED = """
import os, sys
import pyarrow as pa
import monocal
rows = 6_000
log = pa.table({"p": [0.1, 0.2] * (rows // 2), "y": [0, 1] * (rows // 2), "u": [f"{i:04000}" for i in range(rows)]})
model = monocal.fit(log, method="none", score="p", label="y", fields=["u"])
model.save(sys.argv[1])
assert os.path.getsize(sys.argv[1] + "/vocabulary.arrow") > 16 << 20
loaded = monocal.load(sys.argv[1])
os.truncate(sys.argv[1] + "/vocabulary.arrow", 4_096)
assert (loaded.predict(log) == model.predict(log)).all()
"""


def test_a_loaded_vocabulary_outlives_its_file(tmp_path):
    """A mapped file that is cut off in place would end the process with a bus error, and a service with it."""
    command = [sys.executable, "-W", "ignore", "-c", TRUNCATED, str(tmp_path / "model")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_more_text_than_a_column_holds_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr("monocal.lab.value_counts.MOST_TEXT_BYTES", 5_000)
    counts = ValueCounts("user")
    counts.add(pa.array(TEXTS[:100]))
    counts.add(pa.array(TEXTS[:100] * 50))
    with pytest.raises(InvalidInput, match=r"hash the field: hashed_fields=\{'user'"):
        counts.add(pa.array(TEXTS))
