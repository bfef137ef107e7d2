import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.tables import value_index
from monocal.tables.value_index import ValueIndex, hash_text


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=12), max_size=30), max_size=8))
def test_numbers_follow_first_appearance_like_a_dictionary(batches):
    index, expected = ValueIndex(), {}
    for batch in batches:
        wanted = [expected.setdefault(text, len(expected)) for text in batch]
        assert index.add(pa.array(batch, pa.string())).tolist() == wanted
    assert len(index) == len(expected)
    known = pa.array(list(expected), pa.string())
    assert index.find(known).tolist() == list(range(len(expected)))


def test_many_values_survive_growth_and_unknown_ones_are_not_found():
    texts = [f"value {i}" for i in np.random.default_rng(0).permutation(50_000)]
    index = ValueIndex()
    for start in range(0, len(texts), 777):
        index.add(pa.array(texts[start : start + 777]))
    assert np.array_equal(index.find(pa.array(texts)), np.arange(50_000))
    assert np.all(index.find(pa.array([f"other {i}" for i in range(5000)])) == -1)


def test_texts_whose_first_half_collides_are_kept_apart(monkeypatch):
    real = value_index.hash_text

    def colliding(values, salt):
        first, second = real(values, salt)
        return first & np.uint64(3), second

    monkeypatch.setattr(value_index, "hash_text", colliding)
    texts = pa.array([str(i % 200) for i in range(1000)])
    index = ValueIndex()
    assert np.array_equal(index.add(texts), np.arange(1000) % 200)
    assert np.array_equal(index.find(texts), np.arange(1000) % 200)
    assert index.find(pa.array(["x"])).tolist() == [-1]


def test_memory_is_at_most_48_bytes_a_value():
    index = ValueIndex()
    for start in range(0, 200_000, 1000):
        index.add(pa.array([str(i) for i in range(start, start + 1000)]))
        n_bytes = index._first.nbytes + index._second.nbytes + index._slots.nbytes
        assert n_bytes <= 48 * len(index) or len(index) < 2000


def _plain_hash(text, start, factor):
    """The same in Python integers, which no vectorised code path can share a fault with."""

    def mix(state):
        state = ((state ^ (state >> 30)) * factor) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        return state ^ (state >> 31)

    data = text.encode()
    state = (len(data) * start + start) % 2**64
    for at in range(0, max(len(data), 1), 8):
        state = mix(state ^ int.from_bytes(data[at : at + 8], "little"))
    return state


@settings(deadline=None)
@given(st.lists(st.text(max_size=40), max_size=30), st.integers(0, 3))
def test_hashes_are_those_of_plain_integers_in_any_slice(texts, start):
    first, second = hash_text(pa.array(texts, pa.string()).slice(start))
    assert first.tolist() == [_plain_hash(t, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9) for t in texts[start:]]
    assert second.tolist() == [_plain_hash(t, 0xD1B54A32D192ED03, 0xC2B2AE3D27D4EB4F) for t in texts[start:]]


def test_texts_of_up_to_eight_bytes_and_equal_length_never_share_a_hash():
    texts = pa.array([f"{i:05d}" for i in range(100_000)])
    for half in hash_text(texts):
        assert len(np.unique(half)) == 100_000
