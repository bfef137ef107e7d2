"""128-bit hashes of text columns, computed for all rows at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.compiled.limits import HASH_FACTORS, HASH_LAST_FACTOR, HASH_STARTS, LONGEST_VALUE

Words = NDArray[np.uint64]

_BLOCK = 1 << 14  # the dozen passes over a block stay within the processor's cache


_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)


def hash_text(values: pa.Array, salt: int = 0) -> tuple[Words, Words]:
    r"""Returns two independent 64-bit hashes per string.

    The bytes are read as little-endian words :math:`w_1, w_2, \dots`, padded with zeros. Starting from a multiple
    of the length, each word is added and mixed: :math:`h \leftarrow m(h \oplus w_j)` with a bijection m. Texts of
    up to 8 bytes and equal length therefore never share a hash, and ten million longer ones share both halves
    with probability 10⁻²⁵. The result is the same on every machine and in every version. Of a text that is too long for
    a category only the first `LONGEST_VALUE` bytes and the length count.

    Arguments:
        values: A string array; a null hashes like empty text.
        salt: 64 bits that every hash starts from, for tables: who does not know them cannot make texts collide.

    Example:
        >>> first, second = hash_text(pa.array(["news", "games", "news"]))
        >>> bool(first[0] == first[2]), bool(first[0] == first[1]), bool(first[0] == second[0])
        (True, False, False)
    """
    starts, lengths, padded = text_bytes(values)
    words = words_of_bytes(padded)
    first = np.empty(len(starts), dtype=np.uint64)
    second = np.empty(len(starts), dtype=np.uint64)
    for begin in range(0, len(starts), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        first[block], second[block] = _hash_block(starts[block], lengths[block], words, np.uint64(salt))
    return first, second


def is_long(texts: pa.Array) -> NDArray[np.bool_] | None:
    """Returns which texts are too long for categories; None if none is.

    Example:
        >>> is_long(pa.array(["news", None])), is_long(pa.array(["news", "z" * 5_000, None])).tolist()
        (None, [False, True, False])
    """
    lengths = pc.binary_length(texts)
    if (pc.max(lengths).as_py() or 0) <= LONGEST_VALUE:
        return None
    found: NDArray[np.bool_] = pc.greater(lengths, LONGEST_VALUE).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _hash_block(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], words: Words, salt: np.uint64
) -> tuple[Words, Words]:
    sizes = lengths.astype(np.uint64)
    first, second = ((sizes * np.uint64(start) + np.uint64(start)) ^ salt for start in HASH_STARTS)
    lengths = np.minimum(lengths, LONGEST_VALUE)
    word = load_words(words, starts, lengths)
    first, second = _mix(first ^ word, HASH_FACTORS[0]), _mix(second ^ word, HASH_FACTORS[1])
    rows = np.flatnonzero(lengths > 8)
    position = 8
    while rows.size:
        word = load_words(words, starts[rows] + position, lengths[rows] - position)
        first[rows] = _mix(first[rows] ^ word, HASH_FACTORS[0])
        second[rows] = _mix(second[rows] ^ word, HASH_FACTORS[1])
        position += 8
        rows = rows[lengths[rows] > position]
    return first, second


def text_bytes(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Returns where each string starts, its length, and the bytes of all strings followed by 8 zeros."""
    _, offsets_buffer, data_buffer = values.buffers()
    n = len(values)
    if n == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(8, np.uint8)
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + n + 1].astype(np.int64)
    base, end = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(end - base + 8, dtype=np.uint8)
    if end > base:
        padded[: end - base] = np.frombuffer(data_buffer, dtype=np.uint8)[base:end]
    return offsets[:-1] - base, np.diff(offsets), padded


def words_of_bytes(padded: NDArray[np.uint8]) -> Words:
    """Views bytes as overlapping little-endian words, one from every byte; the last 7 bytes only end words."""
    return np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,))


def load_words(words: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Words:
    """Returns the word at each start with the bytes beyond the length zeroed."""
    result: Words = words[starts] & _MASKS[np.minimum(lengths, 8)]
    return result


def _mix(state: Words, factor: int) -> Words:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(factor)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(HASH_LAST_FACTOR)
    result: Words = state ^ (state >> np.uint64(31))
    return result
