"""Wide fits on the rows before each cut, and what they say about the rows after a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.fit_rows import has_both_classes
from monocal.calibrators.statistical.carry_over.field_effects import FieldEffects, Stretches
from monocal.calibrators.statistical.carry_over.shares import LaterRows
from monocal.calibrators.statistical.carry_over.time_blocks import TimeBlocks
from monocal.calibrators.statistical.contributions import Contributions
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
        ids = later.features

        def sums(rows: slice) -> list[Floats | float]:
            weights, some = later.weights_of(rows), np.asarray(ids[rows])
            back = [weights @ known[start + some[:, field]] for field, start in enumerate(starts)]
            return [np.array(back), weights.sum()]

        back, weight = later.in_shards.add_up(sums)
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
        rows = older.logits, older.known_labels, older.weights, older.features, sizes
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
        del older, rows  # in shards they are copies, and those before the next cut are more
    return cuts


def said_by_fields(cut: Cut, later: Samples) -> tuple[Floats, Contributions]:
    """Returns the line of the cut's fit on later rows, and what each field adds there.

    A value without rows before the cut adds nothing.
    """
    assert later.features is not None
    line = cut.found.slope * later.logits + cut.found.intercept
    return line, FieldEffects(later.features, cut.found.shifts, cut.found.offsets)


def judged_rows(
    samples: Samples,
    cuts: Sequence[Cut],
    blocks: TimeBlocks,
    said: Callable[[Cut, Samples], tuple[Floats, Contributions]] = said_by_fields,
) -> LaterRows:
    """Returns the rows after every cut's gap with what was learned before the cut about them, shard after shard.

    Arguments:
        samples: All rows.
        cuts: The chain.
        blocks: The time blocks.
        said: Given a cut and its later rows, returns their logits without the contributions that are judged, and these.
    """
    later = [cut.later(samples, blocks) for cut in cuts]
    edges = np.concatenate([[0], np.cumsum(sum(np.diff(rows.in_shards.edges) for rows in later))])
    n_judged = int(edges[-1])
    offset, labels = np.empty(n_judged), np.empty(n_judged)
    weights = None if samples.weights is None else np.empty(n_judged)
    levels, block = np.empty(n_judged, np.int32), np.empty(n_judged, np.int32)
    answers = [said(cut, rows) for cut, rows in zip(cuts, later, strict=True)]
    numbers = [blocks.block_of_rows(cut.begin) for cut in cuts]
    pieces, begin = [], 0
    # a shard's rows after all cuts stay together
    for parts in zip(*(rows.in_shards.parts() for rows in later), strict=True):
        for cut, (_, part) in enumerate(parts):
            here = slice(begin, begin + part.stop - part.start)
            offset[here], labels[here] = answers[cut][0][part], later[cut].known_labels[part]
            if weights is not None:
                weights[here] = later[cut].weights_or_ones[part]
            block[here] = numbers[cut][part]
            levels[here] = block[here] + cut * blocks.n_blocks
            pieces.append((answers[cut][1], part))
            begin = here.stop
    first = later[0].in_shards
    shards = Shards(first.team, first.n, first.numbers, edges)
    own = np.bincount(levels, minlength=len(cuts) * blocks.n_blocks) > 0
    seen = shards.team.most(own.astype(np.float64)) > 0.0
    among_seen = np.cumsum(seen, dtype=np.int32) - 1
    return LaterRows(offset, Stretches(pieces), labels, weights, among_seen[levels], block, shards)
