"""An intercept offset from the newest time blocks, shrunk by how earlier block offsets persisted."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.recent_rows import DRIFT_SCALE, solve_shift
from monocal.carry_over.blocks import TimeBlocks
from monocal.carry_over.origins import GAP
from monocal.core.dataset import Dataset, Part
from monocal.core.spaces import Floats, sigmoid

LEVEL_PRIOR = 0.5
"""Whether a level lasts is unknown before looking: half of it costs a quarter of either mistake."""

_LARGEST_LEVEL = 3.0
_N_FIFTHS = 5


def block_offset(logits: Floats, data: Dataset, blocks: TimeBlocks) -> float:
    r"""Returns the offset of the newest fifth of the blocks, times the share of such offsets that lasted in the past.

    .. math:: \tilde c = \rho\, x\,\frac{x^2 + \tau^2}{x^2 + \tau^2 + v}

    A block's level is the shift that makes its predicted total right; x is the mean over the newest fifth of the
    blocks and v its sampling variance. The share ρ is learned like that of every other effect: at each earlier block,
    the mean over a fifth just before it is compared with the mean after a gap (`level_persistence`). A storm of a week
    is thus not taken for a new climate, and a level that has been rising for long is followed.

    Example:
        The same newest fifth after a steady past, a swinging one, and one that rose for long.

        >>> steady, swinging = [0.1] * 16 + [0.2] * 4, [0.05] * 4 + [0.2] * 4 + [0.05] * 4 + [0.1] * 4 + [0.2] * 4
        >>> rising = np.linspace(0.03, 0.2, 20)
        >>> random = np.random.default_rng(0).random(20_000)
        >>> for rates in (steady, swinging, rising):
        ...     rows = Dataset(np.full(20_000, -2.2), (random < np.repeat(rates, 1000)).astype(float))
        ...     print(round(block_offset(rows.z, rows, TimeBlocks.of(rows)), 1))
        0.3
        0.0
        0.7
    """
    levels, noise = _block_offsets(logits, data, blocks)
    n_newest = -(-levels.size // _N_FIFTHS)
    level = float(np.mean(levels[-n_newest:]))
    expected = level**2 + DRIFT_SCALE**2
    sampling = float(np.mean(noise)) / n_newest
    return level_persistence(levels, n_newest, sampling) * level * expected / (expected + sampling)


def level_persistence(levels: Floats, n_newest: int, sampling: float) -> float:
    r"""Returns how much of a recent level held later, in the past of a series of block levels.

    At every block with enough before and after it, x is the mean of the `n_newest` levels before it and y the mean of
    all levels after a gap, both from the mean of everything before. Then

    .. math:: \rho = \frac{\sum x y / m + s / 2}{\sum x^2 / m + s}, \qquad 0 \le \rho \le 1

    where m = `n_newest` neighbours count as one observation, because they share their blocks, and the prior of one
    half counts for one observation of the usual size, so s is the mean of x². It is never less than `sampling` and
    never less than a quarter of the newest level's square: a past without such levels cannot teach what they do.

    Example:
        A level that rises, and one that was high in one stretch and not again.

        >>> once = np.repeat([0.0, 1.0, 0.0], [6, 4, 10])
        >>> level_persistence(np.arange(20.0), 4, 0.01), level_persistence(once, 4, 0.01)
        (1.0, 0.0)
    """
    gap = int(np.ceil(GAP * levels.size))
    x, y = [], []
    for end in range(2 * n_newest, levels.size - gap - n_newest + 1):
        before = np.mean(levels[:end])
        x.append(np.mean(levels[end - n_newest : end]) - before)
        y.append(np.mean(levels[end + gap :]) - before)
    recent, later = np.array(x), np.array(y)
    newest = float(np.mean(levels[-n_newest:]))
    usual = max(float(recent @ recent) / max(recent.size, 1), sampling, 0.25 * newest**2)
    share = (recent @ later / n_newest + LEVEL_PRIOR * usual) / (recent @ recent / n_newest + usual)
    return float(np.clip(share, 0.0, 1.0))


def _block_offsets(logits: Floats, data: Dataset, blocks: TimeBlocks) -> tuple[Floats, Floats]:
    levels, noise = np.zeros(blocks.n_blocks), np.zeros(blocks.n_blocks)
    for block in range(blocks.n_blocks):
        rows = blocks.rows(block, block + 1)
        some, z = data.take(rows), logits[rows]
        if some.has_both_classes:
            levels[block] = np.clip(solve_shift(some, z), -_LARGEST_LEVEL, _LARGEST_LEVEL)
        p = sigmoid(z + levels[block])
        curvature, weights = p * (1.0 - p), some.weights

        def information(part: Part, curvature: Floats = curvature, weights: Floats = weights) -> list[Floats | float]:
            return [float(part.of(weights) @ part.of(curvature))]

        noise[block] = 1.0 / max(float(some.sum_parts(information)[0]), 1e-9)
    return levels, noise
