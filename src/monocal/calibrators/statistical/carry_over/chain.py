"""Wide fits on the rows before each cut, and what they say about the rows after a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.fit_rows import has_both_classes
from monocal.calibrators.statistical.carry_over.shares import LaterRows
from monocal.calibrators.statistical.carry_over.time_blocks import TimeBlocks
from monocal.calibrators.statistical.field_shrinkage import N_ROUNDS, solve_shrunk
from monocal.calibrators.statistical.wide_solver import WideParameters, solve_wide
from monocal.core.numeric_ids import FIRST_ID
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.core.team import Shards

CUTS = (0.5, 0.7)
"""Shares of the rows before each cut; the network, too, is judged on what came after the last one."""
GAP = 0.1
"""Share of the rows skipped between learning and judging: without it, a field that names the present day looks as if it
persisted, because the same day goes on after the cut."""

LATER_ROUNDS = 2
TOLERANCE = 1e-6
MAX_ITERATIONS = 100


@final
@dataclass(frozen=True)
class Cut:
    """One wide fit and the rows it is judged on.

    Attributes:
        end: Rows before this edge of the time blocks were learned from.
        begin: Rows from this edge on are judged.
        found: The fit.
        penalties: One per field.
    """

    end: int
    begin: int
    found: WideParameters
    penalties: Floats

    def contributions(self, samples: Samples) -> Floats:
        """Returns what each field adds on every given row, 0 for values without rows before the cut."""
        assert samples.features is not None
        offsets, shifts = self.found.offsets, self.found.shifts
        columns = [shifts[offsets[f] + samples.features[:, f]] for f in range(samples.features.shape[1])]
        return np.column_stack(columns)

    def later(self, samples: Samples, blocks: TimeBlocks) -> Samples:
        """Returns the judged rows."""
        return samples.take(blocks.rows(self.begin, blocks.n_blocks))

    def returning(self, samples: Samples, blocks: TimeBlocks) -> Floats:
        """Returns per field the share of the judged weight whose value had rows before the cut."""
        later = self.later(samples, blocks)
        assert later.features is not None
        known = self.found.curvature > 0.0
        starts = self.found.offsets[:-1]
        for field in np.flatnonzero(samples.numeric_knots or ()):
            # between its knots one number is as known as another
            numbers = slice(starts[field] + FIRST_ID, self.found.offsets[field + 1])
            known[numbers] = known[numbers].any()
        known[starts] = False
        sums: list[list[Floats | float]] = []
        for _, part in later.in_shards.parts():
            weights, ids = later.weights_or_ones[part], later.features[part]
            back = np.array([weights @ known[start + ids[:, f]] for f, start in enumerate(starts)])
            sums.append([back, weights.sum()])
        back, weight = later.in_shards.add(sums)
        return back / weight


def forward_chain(samples: Samples, sizes: NDArray[np.int64], blocks: TimeBlocks, l2: float | None) -> list[Cut]:
    """Fits the rows before each cut, each fit starting from the one before.

    Cuts that would leave one class before them, or no rows after the gap, are left out.

    Arguments:
        samples: All rows, in time order.
        sizes: How many ids each field has.
        blocks: Cuts and gaps lie on the edges of these.
        l2: A penalty for all fields; None learns one per field.
    """
    cuts: list[Cut] = []
    for share in CUTS:
        end = blocks.nearest_edge(share)
        begin = blocks.edge_after(blocks.shares[end] + GAP)
        older = samples.take(blocks.rows(0, end))
        if begin < end or not has_both_classes(older):
            continue
        if cuts and end <= cuts[-1].end:
            continue
        assert older.features is not None
        rows = older.logits, older.known_labels, older.weights_or_ones, older.features, sizes
        start = cuts[-1].found if cuts else None
        options: dict[str, Any] = {
            "tolerance": TOLERANCE,
            "max_iterations": MAX_ITERATIONS,
            "n_knots": samples.numeric_knots,
            "shards": older.shards,
        }
        if l2 is None:
            found, penalties = solve_shrunk(
                *rows,
                first=cuts[-1].penalties if cuts else None,
                n_rounds=LATER_ROUNDS if cuts else N_ROUNDS,
                start=start,
                **options,
            )
        else:
            penalties = np.full(len(sizes), l2)
            found = solve_wide(*rows, l2=penalties, start=start, **options)
        cuts.append(Cut(end, begin, found, penalties))
    return cuts


def judged_rows(samples: Samples, cuts: list[Cut], blocks: TimeBlocks) -> LaterRows:
    """Returns the rows after every cut's gap with what the cut's fit says about them, shard after shard."""
    found = []
    for number, cut in enumerate(cuts):
        later = cut.later(samples, blocks)
        block = blocks.block_of_rows(cut.begin)
        line = cut.found.slope * later.logits + cut.found.intercept
        judged = line, cut.contributions(later), later.known_labels, later.weights_or_ones
        found.append((later.in_shards, (*judged, block + number * blocks.n_blocks, block)))
    # a shard's rows after all cuts stay together
    order = [
        (cut, part)
        for parts in zip(*(shards.parts() for shards, _ in found), strict=True)
        for cut, (_, part) in enumerate(parts)
    ]
    columns = [np.concatenate([found[cut][1][column][part] for cut, part in order]) for column in range(6)]
    shards = found[0][0]
    lengths = sum(np.diff(one.edges) for one, _ in found)
    shards = Shards(shards.team, shards.n, shards.numbers, np.concatenate([[0], np.cumsum(lengths)]))
    seen = shards.team.most(np.bincount(columns[4], minlength=len(cuts) * blocks.n_blocks).astype(np.float64)) > 0.0
    columns[4] = (np.cumsum(seen) - 1)[columns[4]]
    offset, contributions, labels, weights, levels, block = columns
    return LaterRows(offset, contributions, labels, weights, levels, block, shards)
