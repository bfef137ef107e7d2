import numpy as np
import pyarrow as pa
import pytest

from monocal.tables.value_index import hash_text


def test_texts_of_up_to_eight_bytes_and_equal_length_never_share_a_hash():
    texts = pa.array([f"{i:05d}" for i in range(100_000)])
    for half in hash_text(texts):
        assert len(np.unique(half)) == 100_000


def test_all_bytes_count_wherever_they_are():
    base = "the quick brown fox jumps over the lazy dog"
    variants = [base, *(base[:i] + "#" + base[i + 1 :] for i in range(len(base)))]
    variants += [base[:i] for i in range(len(base))] + [base + "\0", base + "\0\0"]
    for half in hash_text(pa.array(variants)):
        assert len(np.unique(half)) == len(variants)


def test_a_slice_hashes_like_a_copy():
    texts = pa.array(["a", "bb", "", "a much longer text than eight bytes", "é", "z"])
    sliced = hash_text(texts.slice(2, 3))
    copied = hash_text(pa.array(texts.slice(2, 3).to_pylist()))
    assert all(np.array_equal(a, b) for a, b in zip(sliced, copied, strict=True))


def test_blocks_do_not_matter(monkeypatch):
    texts = pa.array([str(i) * (i % 13) for i in range(500)])
    whole = hash_text(texts)
    monkeypatch.setattr("monocal.tables.value_index._HASH_BLOCK", 7)
    assert all(np.array_equal(a, b) for a, b in zip(whole, hash_text(texts), strict=True))


@pytest.mark.parametrize("texts", [[], [""], ["", None, ""]])
def test_empty_text_and_null(texts):
    first, second = hash_text(pa.array(texts, pa.string()))
    assert len(np.unique(first)) <= 1
    assert len(first) == len(second) == len(texts)


def test_the_result_is_the_same_on_every_machine_and_in_every_version():
    first, second = hash_text(pa.array(["a99f214a", "a longer value"]))
    assert [f"{x:016x}" for x in first] == EXPECTED_FIRST
    assert [f"{x:016x}" for x in second] == EXPECTED_SECOND


# recomputed below in plain Python integers, which no vectorised code path can share a fault with
def _plain(text, start, factor):
    def mix(state):
        state = ((state ^ (state >> 30)) * factor) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        return state ^ (state >> 31)

    data = text.encode()
    state = (len(data) * start + start) % 2**64
    for at in range(0, max(len(data), 1), 8):
        state = mix(state ^ int.from_bytes(data[at : at + 8], "little"))
    return f"{state:016x}"


EXPECTED_FIRST = [_plain(t, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9) for t in ("a99f214a", "a longer value")]
EXPECTED_SECOND = [_plain(t, 0xD1B54A32D192ED03, 0xC2B2AE3D27D4EB4F) for t in ("a99f214a", "a longer value")]
