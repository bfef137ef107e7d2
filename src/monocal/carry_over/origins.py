"""Rolling origins: wide fits on the rows before a moment, and what they say about the rows after a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.carry_over.blocks import TimeBlocks
from monocal.carry_over.shares import Contributions, ValidationRows
from monocal.core.dataset import Block, Dataset
from monocal.core.fields import FieldSchema, Ids
from monocal.core.reduce import Partition
from monocal.core.scores import Floats
from monocal.wide.loss import loop_for
from monocal.wide.penalties import Penalty, PenaltyPath, solve_with_penalties
from monocal.wide.solver import Search, WideParameters

ORIGINS = (0.5, 0.7)
"""Shares of the rows before each origin; the network, too, is validated on what came after the last one."""
GAP = 0.1
"""Share of the rows skipped between learning and validating: without it, a field that names the present day looks as if
it persisted, because the same day goes on after the origin."""

LATER_ROUNDS = 2
SEARCH = Search(tolerance=1e-6, max_iterations=100)
"""Fits that only serve to find shares need not be exact."""


@final
@dataclass(frozen=True)
class Origin:
    """One wide fit and the rows it is validated on.

    Attributes:
        end: Rows before this edge of the time blocks were learned from.
        begin: Rows from this edge on are for validation.
        found: The fit.
        penalties: One per field.
    """

    end: int
    begin: int
    found: WideParameters
    penalties: Floats

    def later(self, data: Dataset, blocks: TimeBlocks) -> Dataset:
        """Returns the validation rows."""
        return data.take(blocks.rows(self.begin, blocks.n_blocks))

    def recurrence(self, data: Dataset, blocks: TimeBlocks) -> Floats:
        """Returns per field the share of the later weight whose value had rows before the origin."""
        later, schema = self.later(data, blocks), data.fields
        known = schema.known_values(self.found.curvature > 0.0)

        def sums(block: Block) -> list[Floats | float]:
            weights, ids = block.w, block.ids
            starts = zip(schema.offsets[:-1], schema.places, strict=True)
            return [np.array([weights @ known[start + ids[:, column]] for start, column in starts]), weights.sum()]

        back, weight = later.sum(sums)
        return back / weight


def rolling_origin_fits(data: Dataset, blocks: TimeBlocks, l2: Penalty) -> list[Origin]:
    """Fits the rows before each origin, each fit starting from the one before.

    Origins that would leave one class before them, or no rows after the gap, are left out.

    Arguments:
        data: All rows, in time order.
        blocks: Origins and gaps lie on the edges of these.
        l2: A penalty for all fields; `auto` learns one per field.
    """
    origins: list[Origin] = []
    for share in ORIGINS:
        end = blocks.nearest_edge(share)
        begin = blocks.edge_after(blocks.shares[end] + GAP)
        older = data.take(blocks.rows(0, end))
        if begin < end or not older.has_both_classes:
            continue
        last = origins[-1] if origins else None
        if last is not None and end <= last.end:
            continue
        path = PenaltyPath() if last is None else PenaltyPath(last.penalties, LATER_ROUNDS)
        found, penalties = solve_with_penalties(older, l2, SEARCH, None if last is None else last.found, path)
        origins.append(Origin(end, begin, found, penalties))
        del older  # in parts a copy, and the rows before the next origin are more
    return origins


def field_contributions(origin: Origin, later: Dataset) -> tuple[Floats, Contributions]:
    """Returns the line of the origin's fit on later rows, and what each field adds there.

    A value without rows before the origin adds nothing.
    """
    line = origin.found.slope * later.z + origin.found.intercept
    return line, effects_of(later, origin.found.shifts)


def effects_of(data: Dataset, shifts: Floats) -> Contributions:
    """Returns the shift of every row's value of every field, looked up whenever rows are asked for.

    Written down, the shifts of 21 fields would be 168 bytes a row, twice as much as the ids.

    Example:
        >>> ids = np.array([[1, 0], [2, 1], [1, 1]], dtype=np.int32)
        >>> effects = effects_of(Dataset(np.zeros(3), ids=ids), np.array([0.0, 0.5, -0.2, 0.0, 0.3]))
        >>> effects(slice(1, 3)).tolist()
        [[-0.2, 0.3], [0.5, 0.3]]
    """
    schema = data.fields
    write = loop_for(data.n_rows * len(schema), write_effects, "monocal.compiled.wide")

    def of_rows(rows: slice) -> Floats:
        ids = Block(data, rows).ids
        ids = ids if schema.columns is None else np.ascontiguousarray(ids[:, schema.places])
        found = np.empty(ids.shape)
        write(ids, shifts, schema.offsets, found)
        return found

    return of_rows


def write_effects(features: Ids, shifts: Floats, offsets: NDArray[np.int64], found: Floats) -> None:
    """What `monocal.compiled.wide` does, by numpy."""
    for field, offset in enumerate(offsets[:-1]):
        found[:, field] = shifts[offset + features[:, field]]


def validation_rows(
    data: Dataset,
    origins: Sequence[Origin],
    blocks: TimeBlocks,
    contributions_of: Callable[[Origin, Dataset], tuple[Floats, Contributions]] = field_contributions,
) -> ValidationRows:
    """Returns the rows after every origin's gap with what was learned before it about them, part after part.

    Arguments:
        data: All rows.
        origins: The fits.
        blocks: The time blocks.
        contributions_of: Given an origin and its later rows, returns their logits without the contributions that are
            validated, and these.
    """
    later = [origin.later(data, blocks) for origin in origins]
    edges = np.concatenate([[0], np.cumsum(sum(np.diff(rows.cut.edges) for rows in later))])
    n_rows = int(edges[-1])
    offset, labels = np.empty(n_rows), np.empty(n_rows)
    weights = None if data.w is None else np.empty(n_rows)
    levels, block = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    answers = [contributions_of(origin, rows) for origin, rows in zip(origins, later, strict=True)]
    numbers = [blocks.block_of_rows(origin.begin) for origin in origins]
    pieces: list[tuple[Contributions, slice]] = []
    begin = 0
    # a part's rows after all origins stay together
    for parts in zip(*(rows.cut.parts() for rows in later), strict=True):
        for place, (_, part) in enumerate(parts):
            here = slice(begin, begin + part.stop - part.start)
            offset[here], labels[here] = answers[place][0][part], later[place].labels[part]
            if weights is not None:
                weights[here] = later[place].weights[part]
            block[here] = numbers[place][part]
            levels[here] = block[here] + place * blocks.n_blocks
            pieces.append((answers[place][1], part))
            begin = here.stop
    cut = later[0].cut
    partition = Partition(cut.reducer, cut.n, cut.numbers, edges)
    own = np.bincount(levels, minlength=len(origins) * blocks.n_blocks) > 0
    among_seen = np.cumsum(partition.max(own) > 0.0, dtype=np.int32) - 1
    together = Dataset(offset, labels, weights, schema=FieldSchema.of([]), partition=partition)
    return ValidationRows(together, _joined(pieces), among_seen[levels], block)


def _joined(pieces: Sequence[tuple[Contributions, slice]]) -> Contributions:
    """Returns rows of several contributions, one stretch after the other, as if they were one."""

    def of_rows(rows: slice) -> Floats:
        found, begin = [], 0
        for contributions, own in pieces:
            end = begin + own.stop - own.start
            if begin < rows.stop and end > rows.start:
                ahead = own.start - begin
                found.append(contributions(slice(ahead + max(rows.start, begin), ahead + min(rows.stop, end))))
            begin = end
        if not found:
            return pieces[0][0](slice(0, 0))
        return found[0] if len(found) == 1 else np.concatenate(found)

    return of_rows
