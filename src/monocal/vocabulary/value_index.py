"""A growing table from text to numbers: every distinct value gets the next free one."""

from __future__ import annotations

import hashlib
import secrets
from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.vocabulary.text_hash import Words, hash_text, text_bytes

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
