"""Values that were made to cost time: texts that collide, and texts of megabytes."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.compiled.jit import HASH_FACTORS, HASH_LAST_FACTOR, HASH_STARTS, LONGEST_VALUE
from monocal.core.errors import MonocalWarning
from monocal.models import artefact
from monocal.serving.encode import TextTable
from monocal.tables import value_index
from monocal.tables.value_index import ValueIndex, hash_text
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

N = 3_000


def colliding_texts(n, n_bits=24):
    """Returns distinct texts of eight ASCII characters whose first unsalted hash ends in the same bits.

    Anybody can work them out, since the constants are public. One word is mixed by a bijection, so every
    expected hash has one word, and about one in 270 of these words is such a text.
    """
    found, tried = [], 0
    while sum(map(len, found)) < n:
        expected = (np.arange(tried, tried + (1 << 20), dtype=np.uint64) << np.uint64(n_bits)) | np.uint64(0x5A5A5A)
        words = _unmixed(expected) ^ np.uint64((8 * HASH_STARTS[0] + HASH_STARTS[0]) % 2**64)
        parts = words.view(np.uint8).reshape(-1, 8)
        found.append(parts[((parts > 0) & (parts < 128)).all(axis=1)])
        tried += 1 << 20
    return [part.tobytes().decode() for part in np.concatenate(found)[:n]]


def _unmixed(state):
    state = state ^ (state >> np.uint64(31)) ^ (state >> np.uint64(62))
    state = state * np.uint64(pow(HASH_LAST_FACTOR, -1, 2**64))
    state = state ^ (state >> np.uint64(27)) ^ (state >> np.uint64(54))
    state = state * np.uint64(pow(HASH_FACTORS[0], -1, 2**64))
    return state ^ (state >> np.uint64(30)) ^ (state >> np.uint64(60))


@pytest.fixture(scope="module")
def colliding():
    texts = colliding_texts(N)
    first = hash_text(pa.array(texts))[0]
    assert len(set(texts)) == N
    assert len(np.unique(first & np.uint64(2**24 - 1))) == 1
    return texts


def n_probes(index):
    """How many slots all searches for the values of an index look at."""
    first, _, slots = index.arrays()[:3]
    taken = np.flatnonzero(slots >= 0)
    home = (first[slots[taken]] & np.uint64(len(slots) - 1)).astype(np.int64)
    return int(((taken - home) % len(slots) + 1).sum())


@pytest.mark.parametrize("n_at_once", [N, 100])
def test_colliding_values_take_as_few_probes_as_any(colliding, n_at_once):
    index = ValueIndex()
    for start in range(0, N, n_at_once):
        index.add(pa.array(colliding[start : start + n_at_once]))
    assert index.find(pa.array(colliding)).tolist() == list(range(N))
    assert n_probes(index) < 3 * N
    assert n_probes(ValueIndex(pa.array(colliding))) < 3 * N
    assert n_probes(FieldVocabulary("user", pa.array(colliding)).index) < 3 * N


@pytest.mark.extras
def test_the_table_of_a_service_takes_few_probes_for_colliding_values(colliding):
    table = TextTable(Vocabulary((FieldVocabulary("user", pa.array(colliding)),)))
    taken = np.flatnonzero(table._entries[:, 1] != 0)
    home = table._entries[taken, 0] & np.uint64(len(table._entries) - 1)
    assert ((taken - home.astype(np.int64)) % len(table._entries) + 1).sum() < 3 * N
    ids = np.zeros((N, 1), np.int32)
    assert table.find("\0".join([*colliding, "\0" * 8]), np.array([0]), 1, ids)
    assert ids[:, 0].tolist() == list(range(1, N + 1))


def test_a_model_folder_with_colliding_values_is_saved_loaded_and_gives_the_same_ids(colliding, tmp_path, monkeypatch):
    monkeypatch.setattr(artefact, "INDEXED_VALUES", 100)
    rng = np.random.default_rng(0)
    log = pa.table({"p": rng.uniform(0.1, 0.3, 2 * N), "y": rng.integers(0, 2, 2 * N), "user": colliding * 2})
    model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["user"])
    model.save(tmp_path / "model")
    loaded = monocal.load(tmp_path / "model")
    assert "index" in vars(loaded.vocabulary["user"])
    assert n_probes(loaded.vocabulary["user"].index) < 3 * N
    assert (loaded.vocabulary.encode(log) == model.vocabulary.encode(log)).all()
    assert loaded.fingerprint == model.fingerprint
    again = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["user"])
    assert again.fingerprint == model.fingerprint  # what keeps values apart is no accident of the run


def test_an_index_in_which_a_search_would_take_long_is_refused(colliding):
    """As a folder may hold that somebody made: values with one home, whatever keeps others apart."""
    first, second = hash_text(pa.array(colliding))
    slots = np.full(4 * 2**11, -1, np.int32)
    start = int(first[0] & np.uint64(len(slots) - 1))
    slots[(start + np.arange(N)) % len(slots)] = np.arange(N)
    with pytest.raises(ValueError, match="an index"):
        ValueIndex.of_arrays(first, second, slots, 0)


LONG = ["z" * (LONGEST_VALUE + 1), "\0" + "z" * (1 << 20), "é" * (LONGEST_VALUE // 2 + 1), "e" + "\u0301" * 3_000]


@pytest.mark.parametrize("text", LONG)
def test_a_long_text_is_hashed_no_further_than_any_category(text, monkeypatch):
    n_mixed = []
    real = value_index._mix
    monkeypatch.setattr(value_index, "_mix", lambda state, factor: n_mixed.append(len(state)) or real(state, factor))
    hash_text(pa.array([text, "short"]))
    assert sum(n_mixed) <= 2 * (LONGEST_VALUE // 8 + 2)


def test_a_long_text_counts_as_unseen_in_fits_and_tables():
    longest = "z" * LONGEST_VALUE
    columns = {"a": [longest, *LONG, *LONG, None, "a"], "b": [*LONG, *LONG, "", longest, "a"]}
    table = pa.table(columns)
    with pytest.warns(MonocalWarning, match="field '[ab]': texts of more than 4,096 bytes are no categories"):
        vocabulary = Vocabulary.of_table(table, ["a", "b"])
    assert set(vocabulary["a"].values.to_pylist()) == {longest, None, "a"}
    assert vocabulary.sizes == (4, 4)
    ids = vocabulary.encode(table)
    assert (ids[:, 0] > 0).tolist() == [True, *[False] * 8, True, True]
    assert (ids[:, 1] > 0).tolist() == [*[False] * 8, True, True, True]
    hashed = FieldVocabulary.hashed("a", 1_000)
    assert (hashed.encode(table["a"]) > 0).tolist() == [True, *[False] * 8, False, True]


def test_a_model_that_was_fitted_on_long_texts_is_used_without_them():
    rng = np.random.default_rng(0)
    site = np.array(["news", "games", LONG[0]])[rng.integers(0, 3, 3_000)]
    log = pa.table({"p": rng.uniform(0.1, 0.3, 3_000), "y": rng.integers(0, 2, 3_000), "site": site})
    with pytest.warns(MonocalWarning, match="field 'site': texts of more than 4,096 bytes"):
        model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["site"])
    assert model.vocabulary["site"].values.to_pylist().count(LONG[0]) == 0
    row = {"p": [0.2] * 3, "site": [LONG[0], LONG[1], "never seen"]}
    assert len(np.unique(model.predict(row))) == 1
