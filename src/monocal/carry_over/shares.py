"""How much of what older rows taught held on later ones: fits at rolling origins, and one share in [0, 1] per part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from monocal.carry_over.blocks import TimeBlocks
from monocal.core.dataset import Block, Dataset
from monocal.core.fields import FieldSchema, Ids
from monocal.core.reduce import Partition
from monocal.core.scores import Floats, log_losses, sigmoid
from monocal.wide.solver import N_ROUNDS, Penalty, Search, WideParameters, loop_for, solve_with_penalties

PRIOR_STRENGTH = 4.0
"""κ: how many independent, fully informative observations the prior share counts for."""

_LEVEL_PRECISION = 0.01
"""A block with one class alone would push its level to infinity; a normal prior of ten logits keeps it finite."""

_ROUNDS = 2
_STEPS = 25
_CLOSE = 1e-7


Contributions = Callable[[slice], Floats]
"""What each of K parts adds on some of the rows, `(n, K)`, made when it is asked for."""


class ValidationRows(NamedTuple):
    """Rows that came later than those from which something was learned about them.

    Attributes:
        data: The rows; their logits are without the contributions.
        contributions: What each part adds.
        levels: Which free level a row belongs to: one per origin and time block.
        blocks: Which time block it lies in, whatever the origin.
    """

    data: Dataset
    contributions: Contributions
    levels: NDArray[np.int32]
    blocks: NDArray[np.int32]

    def n_groups(self) -> tuple[int, int]:
        """Returns the number of levels and of blocks, among all members."""
        last = np.array([self.levels.max(initial=-1), self.blocks.max(initial=-1)])
        n_levels, n_blocks = self.data.cut.max(last) + 1
        return int(n_levels), int(n_blocks)


@final
@dataclass(frozen=True)
class Shares:
    """Shares that were found.

    Attributes:
        values: In [0, 1], one per part.
        errors: Standard error of each, from the scatter over time blocks; NaN where nothing could be learned.
        design_effects: How many rows of a part count as one, at least 1.
    """

    values: Floats
    errors: Floats
    design_effects: Floats


def solve_shares(rows: ValidationRows, prior: Floats, fixed: Floats | None = None) -> Shares:
    r"""Minimises the log-loss of :math:`o + \sum_k a_k D_k + u_g` over :math:`0 \le a \le 1` and free levels u.

    A level per cut and time block keeps drift of the level from being blamed on the parts. Beside the loss stands
    :math:`\tfrac{\kappa}{2} \varphi_k (a_k - \pi_k)^2` with the design effect

    .. math:: \varphi_k = \max\Big(1, \frac{\sum_b (\sum_{i \in b} w (y - p) D_k)^2}{\sum w\,p\,(1 - p) D_k^2}\Big)

    because rows that share a shock count as one observation, not as thousands. Newton steps; each solves the
    quadratic problem with its bounds exactly.

    Arguments:
        rows: The later rows.
        prior: π, the share of each part without evidence.
        fixed: Shares that are given; NaN where they are to be learned.

    Example:
        The first contribution persisted in half, the second not at all.

        >>> random = np.random.default_rng(0)
        >>> parts, block = random.normal(size=(40_000, 2)), np.arange(40_000, dtype=np.int32) // 4000
        >>> labels = (random.random(40_000) < sigmoid(-1.0 + 0.1 * block + 0.5 * parts[:, 0])).astype(float)
        >>> rows = ValidationRows(Dataset(np.zeros(40_000), labels), lambda some: parts[some], block, block)
        >>> solve_shares(rows, prior=np.ones(2)).values.round(1).tolist()
        [0.5, 0.0]
    """
    n_parts = rows.contributions(slice(0, 0)).shape[1]
    low, high = np.zeros(n_parts), np.ones(n_parts)
    if fixed is not None:
        given = ~np.isnan(fixed)
        low[given] = high[given] = fixed[given]
    values = np.clip(prior, low, high)
    n_levels, n_blocks = rows.n_groups()
    levels = np.zeros(n_levels)
    effects = np.ones(n_parts)
    for _ in range(_ROUNDS):
        values, levels = _newton(rows, values, levels, prior, PRIOR_STRENGTH * effects, low, high)
        effects, scatter, curvature = _scatter(rows, values, levels, n_blocks)
    precision = np.linalg.inv(curvature + np.diag(PRIOR_STRENGTH * effects))
    errors = np.sqrt(np.maximum(np.diag(precision @ (scatter + np.diag(PRIOR_STRENGTH * effects)) @ precision), 0.0))
    errors[np.diag(curvature) <= 0.0] = np.nan
    return Shares(values, errors, effects)


def _newton(
    rows: ValidationRows, values: Floats, levels: Floats, prior: Floats, strength: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    def loss(block: Block) -> list[Floats | float]:
        z = block.z + rows.contributions(block.rows) @ a + u[block.of(rows.levels)]
        return [float(block.w @ log_losses(z, block.y))]

    def penalty() -> float:
        return 0.5 * float(strength @ (a - prior) ** 2) + 0.5 * _LEVEL_PRECISION * float(u @ u)

    def derivatives(block: Block) -> list[Floats | float]:
        parts, which, n = rows.contributions(block.rows), block.of(rows.levels), levels.size
        p = sigmoid(block.z + parts @ values + levels[which])
        residual = block.w * (p - block.y)
        row_curvature = block.w * p * (1.0 - p)
        by_level, level_curvature = (_sums(amounts[:, None], which, n)[:, 0] for amounts in (residual, row_curvature))
        mixed, curvature = _sums(parts, which, n, row_curvature), (parts.T * row_curvature) @ parts
        return [by_level, parts.T @ residual, level_curvature, mixed, curvature]

    a, u = values, levels
    now = float(rows.data.sum(loss)[0]) + penalty()
    free = high > low
    for _ in range(_STEPS):
        by_level, by_part, level_curvature, mixed, curvature = rows.data.sum(derivatives)
        by_level = by_level + _LEVEL_PRECISION * levels
        by_part = by_part + strength * (values - prior)
        level_curvature = level_curvature + _LEVEL_PRECISION
        curvature = curvature + np.diag(strength) - (mixed.T / level_curvature) @ mixed
        slope = by_part - mixed.T @ (by_level / level_curvature)
        step = np.zeros_like(values)
        if free.any():
            root = np.linalg.cholesky(curvature[np.ix_(free, free)])
            target = -np.linalg.solve(root, slope[free])
            bounds = (low - values)[free] - 1e-12, (high - values)[free] + 1e-12
            # bvls lands on the bounds exactly, where a share of 0 or 1 belongs
            step[free] = lsq_linear(root.T, target, bounds, method="bvls").x
        level_step = -(by_level + mixed @ step) / level_curvature
        share = 1.0
        while share > 1e-4:
            a, u = np.clip(values + share * step, low, high), levels + share * level_step
            following = float(rows.data.sum(loss)[0]) + penalty()
            if following <= now:
                break
            share *= 0.5
        else:
            return values, levels
        gain, values, levels, now = now - following, a, u, following
        if gain < _CLOSE * max(1.0, 1e-3 * abs(now)):
            break
    return values, levels


def _scatter(rows: ValidationRows, values: Floats, levels: Floats, n_blocks: int) -> tuple[Floats, Floats, Floats]:
    """Returns design effects, the scatter of the parts' scores over time blocks, and their curvature."""

    def sums(block: Block) -> list[Floats | float]:
        parts, which, n = rows.contributions(block.rows), block.of(rows.levels), levels.size
        p = sigmoid(block.z + parts @ values + levels[which])
        row_curvature = block.w * p * (1.0 - p)
        residual = block.w * (block.y - p)
        by_level, by_block = (
            _sums(parts, *group, residual) for group in ((which, n), (block.of(rows.blocks), n_blocks))
        )
        return [
            _sums(parts, which, n, row_curvature),
            _sums(row_curvature[:, None], which, n)[:, 0],
            (parts.T * row_curvature) @ parts,
            by_level,
            (parts**2 * row_curvature[:, None]).sum(axis=0),
            by_block,
        ]

    mixed, level_curvature, curvature, by_level, information, by_block = rows.data.sum(sums)
    curvature = curvature - (mixed.T / np.maximum(level_curvature, 1e-12)) @ mixed
    effects = np.maximum(1.0, (by_level**2).sum(axis=0) / np.maximum(information, 1e-12))
    return effects, by_block.T @ by_block, curvature


def _sums(columns: Floats, which: NDArray[np.int32], n: int, factors: Floats | float = 1.0) -> Floats:
    return np.column_stack([np.bincount(which, column * factors, n) for column in columns.T])


# Rolling origins: wide fits on the rows before a moment, and what they say about the rows after a gap

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
        start, first, n_rounds = None, None, N_ROUNDS
        if origins:
            last = origins[-1]
            if end <= last.end:
                continue
            start, first, n_rounds = last.found, last.penalties, LATER_ROUNDS
        found, penalties = solve_with_penalties(older, l2, SEARCH, start, first=first, n_rounds=n_rounds)
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
    for parts in zip(*(rows.cut.parts for rows in later), strict=True):
        for place, part in enumerate(parts):
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
