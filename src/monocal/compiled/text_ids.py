"""Texts of a request to field ids: bytes in, ids out, in one compiled pass.

The texts of all fields stand behind each other in one array of bytes, each ended by a zero byte, so that no object is
made or touched per text. Every field has an open-addressing table over the 128-bit hashes of its values, the hashes by
which a vocabulary finds values offline, with a salt; an entry takes 16 bytes and a look-up mostly one cache line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.compiled.jit import HASH_FACTORS, HASH_LAST_FACTOR, HASH_STARTS, LONGEST_VALUE, TEXT_ROOM, compiled, scalar

FOUND, UNCLEAR = 0, 1
"""All ids are found; the zero bytes do not end as many texts as there should be."""

FIRST_SLOT, MASK, N_BUCKETS, N_FACTS = range(4)
"""What `facts` says about each field: its first entry, its entries - 1, and its buckets if its texts are hashed."""

_ZERO, _ONE, _WORD = np.uint64(0), np.uint64(1), np.uint64(8)
_START, _SECOND_START = (np.uint64(start) for start in HASH_STARTS)
_FACTOR, _SECOND_FACTOR = (np.uint64(factor) for factor in HASH_FACTORS)
_LAST_FACTOR = np.uint64(HASH_LAST_FACTOR)
_LOWEST_BITS, _HIGHEST_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_LONGEST = np.uint64(LONGEST_VALUE)
_ID_BITS = np.uint64(0xFFFFFFFF)
_HASH_BITS = ~_ID_BITS
_BYTES = tuple(np.uint64(place) for place in range(8))
_SHIFTS = tuple(np.uint64(8 * place) for place in range(8))


@scalar
def _mixed(state: Any, factor: Any) -> Any:
    state = (state ^ (state >> np.uint64(30))) * factor
    state = (state ^ (state >> np.uint64(27))) * _LAST_FACTOR
    return state ^ (state >> np.uint64(31))


@scalar
def _word(data: Any, at: Any) -> Any:
    """The eight bytes from `at` on as one little-endian number; compiled to a single load."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _BYTES[1]]) << _SHIFTS[1]
        | np.uint64(data[at + _BYTES[2]]) << _SHIFTS[2]
        | np.uint64(data[at + _BYTES[3]]) << _SHIFTS[3]
        | np.uint64(data[at + _BYTES[4]]) << _SHIFTS[4]
        | np.uint64(data[at + _BYTES[5]]) << _SHIFTS[5]
        | np.uint64(data[at + _BYTES[6]]) << _SHIFTS[6]
        | np.uint64(data[at + _BYTES[7]]) << _SHIFTS[7]
    )


@scalar
def _end(data: Any, at: Any) -> Any:
    """Where the next zero byte is."""
    word = _word(data, at)
    while not (word - _LOWEST_BITS) & ~word & _HIGHEST_BITS:
        at += _WORD
        word = _word(data, at)
    while word & np.uint64(255):
        word >>= _WORD
        at += _ONE
    return at


@compiled()
def find_ids(
    data: Any, lengths: Any, columns: Any, n_varying: int, facts: Any, entries: Any, salt: Any, ids: Any
) -> int:
    """Writes the ids of a request's texts and returns `FOUND`, or `UNCLEAR` with ids that are incomplete.

    A text that a field does not have gets id 0, and so does one that is too long for a category.

    Arguments:
        data: The texts, each ended by a zero byte, and `TEXT_ROOM` zero bytes more.
        lengths: Bytes of every text, for texts that may hold zero bytes; empty if the first zero byte ends each.
        columns: The fields in the order of their texts: first those with one text per row, then those with one for all.
        n_varying: How many of them have one text per row.
        facts: Per field what `FIRST_SLOT`, `MASK` and `N_BUCKETS` say.
        entries: Two words per entry: the first hash; the upper half of the second hash and the id. No id, no entry.
        salt: What the hashes of these entries started from.
        ids: Where to write.
    """
    n_rows = ids.shape[0]
    n_bytes = np.uint64(data.shape[0] - TEXT_ROOM)
    at = _ZERO
    n_found = 0
    for c in range(columns.shape[0]):
        field = columns[c]
        first_slot, mask = np.uint64(facts[field, FIRST_SLOT]), np.uint64(facts[field, MASK])
        n_buckets = np.uint64(facts[field, N_BUCKETS])
        n_texts = n_rows if c < n_varying else 1
        for row in range(n_texts):
            if at >= n_bytes:
                return UNCLEAR
            end = at + np.uint64(lengths[n_found]) if lengths.shape[0] else _end(data, at)
            n_found += 1
            left = end - at
            if left > _LONGEST:
                ids[row, field] = 0
                at = end + _ONE
                continue
            first, second = left * _START + _START, left * _SECOND_START + _SECOND_START
            if n_buckets == _ZERO:
                first, second = first ^ salt, second ^ salt
            while True:
                word = _word(data, at)
                if left < _WORD:
                    word &= (_ONE << (_WORD * left)) - _ONE
                first, second = _mixed(first ^ word, _FACTOR), _mixed(second ^ word, _SECOND_FACTOR)
                if left <= _WORD:
                    break
                left -= _WORD
                at += _WORD
            at = end + _ONE
            if n_buckets > _ZERO:
                ids[row, field] = np.int64(first % n_buckets) + 1
                continue
            slot = first & mask
            found = entries[first_slot + slot, _ONE]
            while found != _ZERO and not (
                entries[first_slot + slot, _ZERO] == first and (found ^ second) & _HASH_BITS == _ZERO
            ):
                slot = (slot + _ONE) & mask
                found = entries[first_slot + slot, _ONE]
            ids[row, field] = np.int64(found & _ID_BITS)
        if c >= n_varying:
            for row in range(1, n_rows):
                ids[row, field] = ids[0, field]
    return FOUND if at == n_bytes else UNCLEAR


@compiled()
def all_known(ids: Any, sizes: Any) -> bool:
    """Says whether `0 ≤ id < size` for all ids `(n, F)`, with one size per field.

    Example:
        >>> sizes = np.array([3, 2], np.int32)
        >>> [all_known(np.array([[2, 1], ids], np.int32), sizes) for ids in ([0, 0], [0, 2], [-1, 0])]
        [True, False, False]
    """
    n_rows, n_fields = ids.shape
    n_outside = 0
    for row in range(n_rows):
        for field in range(n_fields):
            n_outside += int(ids[row, field] < 0) | int(ids[row, field] >= sizes[field])
    return n_outside == 0


@compiled()
def place_values(first: Any, second: Any, ids: Any, entries: Any) -> None:
    """Fills one field's table, which has a power of two entries, more than values.

    Arguments:
        first: First hash of every value.
        second: Second hash.
        ids: Their ids, above 0.
        entries: Two words per entry, all 0.
    """
    mask = np.uint64(entries.shape[0] - 1)
    for value in range(first.shape[0]):
        slot = first[value] & mask
        while entries[slot, _ONE] != _ZERO:
            slot = (slot + _ONE) & mask
        entries[slot, _ZERO] = first[value]
        entries[slot, _ONE] = (second[value] & _HASH_BITS) | np.uint64(ids[value])
