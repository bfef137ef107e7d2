"""Distinct texts and their numbers: a hash table over whole columns, built once and kept; and which texts get one."""

from __future__ import annotations

import hashlib
import secrets
import warnings
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.compiled.jit import HASH_FACTORS, HASH_LAST_FACTOR, HASH_STARTS, LONGEST_VALUE
from monocal.core.errors import MonocalWarning

Words = NDArray[np.uint64]

_HASH_BLOCK = 1 << 14  # the dozen passes over a block stay within the processor's cache


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
    for begin in range(0, len(starts), _HASH_BLOCK):
        block = slice(begin, begin + _HASH_BLOCK)
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


Codes = NDArray[np.int32]

_SMALLEST = 64
_BLOCK = 1 << 16  # texts placed or searched at once, so that intermediate arrays stay small
_LONGEST_RUN = 1 << 10  # taken slots beside each other; an index of two billion values has fewer than 200


@final
class ValueIndex:
    """Numbers distinct texts 0, 1, 2, … in order of first appearance and finds them again.

    An open-addressing table over 128-bit hashes, filled and searched for whole columns at once. It is built once
    and kept, so a lookup costs the same whether there are ten values or ten million. Memory is 24 to 48 bytes per
    value; the texts themselves are not kept.

    Hashes start from a salt, so that nobody can choose values that all want the same slot. Numbers do not depend on it.

    Arguments:
        values: Distinct texts that are known already. The salt is drawn from them then: a saved index is the same each
            time, and who exchanges one value for another that collides has another salt.

    Example:
        >>> index = ValueIndex()
        >>> index.add(pa.array(["b", "a", "b"])).tolist(), index.find(pa.array(["a", "z"])).tolist(), len(index)
        ([0, 1, 0], [1, -1], 2)
    """

    def __init__(self, values: pa.Array | None = None) -> None:
        self._n = 0
        self._first = np.empty(_SMALLEST, dtype=np.uint64)
        self._second = np.empty(_SMALLEST, dtype=np.uint64)
        self._slots = np.full(2 * _SMALLEST, -1, dtype=np.int32)
        self.salt = secrets.randbits(64) if values is None else _salt_of(values)
        if values is not None:
            self.add(values)

    @classmethod
    def of_arrays(cls, first: Words, second: Words, slots: Codes, salt: int) -> ValueIndex:
        """Takes over what `arrays` returned, without a copy; `find` works on read-only arrays, `add` does not.

        What could lead a search astray or let it run for long is refused with a ValueError.
        """
        n_slots = len(slots)
        if len(first) != len(second) or n_slots < 2 or n_slots & (n_slots - 1) or len(first) >= n_slots:
            raise ValueError(f"an index of {len(first)} and {len(second)} hashes in {n_slots} slots")
        lowest = slots.reshape(-1, min(n_slots, _LONGEST_RUN)).min(axis=1)
        if int(slots.max()) >= len(first) or (lowest != -1).any():
            raise ValueError("an index whose slots do not point at its hashes, or has no free ones for long")
        index = cls()
        index.salt = salt
        index._n, index._first, index._second, index._slots = len(first), first, second, slots
        return index

    def arrays(self) -> tuple[Words, Words, Codes]:
        """Returns both hashes of every text and the slots that lead to them."""
        return self._first[: self._n], self._second[: self._n], self._slots

    def __len__(self) -> int:
        return self._n

    def find(self, values: pa.Array) -> Codes:
        """Returns the number of every text, or -1 for one that was never added."""
        if len(values) <= _BLOCK:
            return self._find(*hash_text(values, self.salt))
        blocks = [self.find(values.slice(at, _BLOCK)) for at in range(0, len(values), _BLOCK)]
        return np.concatenate(blocks)

    def add(self, values: pa.Array) -> Codes:
        """Numbers the texts that are new and returns the number of every one."""
        if len(values) > _BLOCK:
            return np.concatenate([self.add(values.slice(at, _BLOCK)) for at in range(0, len(values), _BLOCK)])
        first, second = hash_text(values, self.salt)
        codes = self._find(first, second)
        missing = np.flatnonzero(codes < 0)
        if missing.size:
            codes[missing] = self._insert(first[missing], second[missing])
        return codes

    def _insert(self, first: Words, second: Words) -> Codes:
        """Numbers texts that are not there yet; equal ones among them get the same number."""
        n_before, n = self._n, self._n + len(first)
        if n > 2**31 - 2:
            raise OverflowError("more than two billion distinct values in one field")
        if n > len(self._first):
            room = max(n, len(self._first) + len(self._first) // 2)
            self._first, self._second = _grown(self._first, n_before, room), _grown(self._second, n_before, room)
        self._first[n_before:n], self._second[n_before:n] = first, second
        if 2 * n > len(self._slots):
            self._slots = np.full(1 << (3 * n - 1).bit_length(), -1, dtype=np.int32)
            for start in range(0, n_before, _BLOCK):
                self._place(np.arange(start, min(start + _BLOCK, n_before), dtype=np.int32))
        holder, slots = self._place(np.arange(n_before, n, dtype=np.int32))
        is_new = holder == np.arange(n_before, n, dtype=np.int32)
        number = n_before + np.cumsum(is_new, dtype=np.int32) - 1
        self._slots[slots[is_new]] = number[is_new]
        self._n = n_before + int(is_new.sum())
        self._first[n_before : self._n], self._second[n_before : self._n] = first[is_new], second[is_new]
        result: Codes = number[holder - n_before]
        return result

    def _place(self, codes: Codes) -> tuple[Codes, NDArray[np.int64]]:
        """Puts numbers into free slots: all try at once, those that find another text there try the next slot.

        Returns the number that holds each text (the smallest one, where texts are equal) and its slot.
        """
        mask = len(self._slots) - 1
        holders = np.empty(len(codes), dtype=np.int32)
        slots = (self._first[codes] & np.uint64(mask)).astype(np.int64)
        rows = np.arange(len(codes))
        while rows.size:
            at, mine = slots[rows], codes[rows]
            free = np.flatnonzero(self._slots[at] < 0)[::-1]
            # numpy keeps the last of several writes to one slot, hence the reversed order: the first text wins
            self._slots[at[free]] = mine[free]
            there = self._slots[at]
            same = (self._first[there] == self._first[mine]) & (self._second[there] == self._second[mine])
            holders[rows[same]] = there[same]
            rows = rows[~same]
            slots[rows] = (slots[rows] + 1) & mask
        return holders, slots

    def _find(self, first: Words, second: Words) -> Codes:
        mask = len(self._slots) - 1
        result = np.full(len(first), -1, dtype=np.int32)
        rows = np.arange(len(first))
        slots = (first & np.uint64(mask)).astype(np.int64)
        while rows.size:
            codes = self._slots[slots]
            rows, slots, codes = rows[codes >= 0], slots[codes >= 0], codes[codes >= 0]
            same = (self._first[codes] == first[rows]) & (self._second[codes] == second[rows])
            result[rows[same]] = codes[same]
            rows, slots = rows[~same], (slots[~same] + 1) & mask
        return result


def _salt_of(values: pa.Array) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for at in range(0, len(values), _BLOCK):
        _, lengths, text = text_bytes(values.slice(at, _BLOCK))
        digest.update(lengths.data)
        digest.update(text.data)
    return int.from_bytes(digest.digest(), "little")


def _grown(column: Words, n: int, room: int) -> Words:
    larger = np.empty(room, dtype=np.uint64)
    larger[:n] = column[:n]
    return larger


def without_long_texts(values: pa.Array, counts: NDArray[np.int64], name: str) -> tuple[pa.Array, NDArray[np.int64]]:
    """Returns values and counts without texts that are too long for categories; says so if there are any.

    One odd row must not end a fit, and nothing can be learned of a text that hardly ever occurs again.
    """
    long = is_long(values)
    if long is None:
        return values, counts
    warnings.warn(
        f"field {name!r}: texts of more than {LONGEST_VALUE:,} bytes are no categories; they count as unseen",
        MonocalWarning,
        stacklevel=2,
    )
    return values.filter(pa.array(~long)), counts[~long]


def most_frequent(
    values: pa.Array, counts: NDArray[np.int64], *, min_count: int = 1, max_size: int | None = None
) -> pa.Array:
    """Returns the texts with at least `min_count` rows, the most frequent first, ties by the text itself, null last.

    Example:
        >>> most_frequent(pa.array(["b", "c", "a"]), np.array([2, 7, 2]), max_size=2).to_pylist()
        ['c', 'a']
    """
    chosen = np.flatnonzero(counts >= max(min_count, 1))
    if max_size is not None and 0 < max_size < len(chosen):
        # ties at the edge are settled by the sort below, so all of them must be in it
        edge = np.partition(counts[chosen], len(chosen) - max_size)[len(chosen) - max_size]
        chosen = chosen[counts[chosen] >= edge]
    kept = pa.table({"value": values.take(pa.array(chosen)), "count": pa.array(counts[chosen])})
    order = pc.sort_indices(kept, sort_keys=[("count", "descending"), ("value", "ascending")])
    sorted_values = kept["value"].take(order if max_size is None else order[:max_size])
    return sorted_values.combine_chunks() if sorted_values.num_chunks != 1 else sorted_values.chunk(0)
