"""Wide fits on the rows before each cut, and what they say about the rows after a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over.shares import LaterRows
from monocal.calibrators.statistical.carry_over.time_blocks import TimeBlocks
from monocal.calibrators.statistical.field_shrinkage import N_ROUNDS, solve_shrunk
from monocal.calibrators.statistical.wide_solver import WideParameters, solve_wide
from monocal.core.numeric_ids import FIRST_ID
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

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
        end: Rows before this one were learned from.
        begin: Rows from this one on are judged.
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

    def returning(self, samples: Samples) -> Floats:
        """Returns per field the share of the judged weight whose value had rows before the cut."""
        assert samples.features is not None
        later = samples.take(slice(self.begin, None))
        assert later.features is not None
        weights = later.weights_or_ones
        known = self.found.curvature > 0.0
        known[self.found.offsets[:-1]] = False
        starts = self.found.offsets[:-1]
        for field in np.flatnonzero(samples.numeric_knots or ()):
            # between its knots one number is as known as another
            numbers = slice(starts[field] + FIRST_ID, self.found.offsets[field + 1])
            known[numbers] = known[numbers].any()
        back = [weights @ known[start + later.features[:, f]] for f, start in enumerate(starts)]
        shares: Floats = np.array(back) / weights.sum()
        return shares


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
        edge = blocks.nearest_edge(share)
        end = int(blocks.edges[edge])
        begin = int(blocks.edges[blocks.edge_after(blocks.shares[edge] + GAP)])
        older = samples.take(slice(0, end))
        if begin < end or end < 2 or older.known_labels.min() == older.known_labels.max():
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
    """Returns the rows after every cut's gap with what the cut's fit says about them."""
    parts: dict[str, list[Floats]] = {"offset": [], "contributions": [], "labels": [], "weights": []}
    levels: list[NDArray[np.int64]] = []
    in_block: list[NDArray[np.int64]] = []
    for number, cut in enumerate(cuts):
        later = samples.take(slice(cut.begin, None))
        parts["offset"].append(cut.found.slope * later.logits + cut.found.intercept)
        parts["contributions"].append(cut.contributions(later))
        parts["labels"].append(later.known_labels)
        parts["weights"].append(later.weights_or_ones)
        block = blocks.block_of_rows(cut.begin)
        in_block.append(block)
        levels.append(block + number * blocks.n_blocks)
    _, level = np.unique(np.concatenate(levels), return_inverse=True)
    return LaterRows(
        **{name: np.concatenate(found) for name, found in parts.items()},
        levels=level.astype(np.int64),
        blocks=np.concatenate(in_block),
    )
