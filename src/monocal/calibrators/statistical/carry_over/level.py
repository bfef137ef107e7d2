"""The level that the newest rows ask for, as far as blocks of time agree on it."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.recent_intercept import DRIFT_SCALE, solve_shift
from monocal.calibrators.statistical.carry_over.time_blocks import TimeBlocks
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, sigmoid

_LARGEST_LEVEL = 3.0
_N_FIFTHS = 5


def block_level(logits: Floats, samples: Samples, blocks: TimeBlocks) -> float:
    r"""Returns the newest fifth's level, shrunk by how much levels scatter from block to block.

    .. math:: \tilde c = x\,\frac{x^2 + \tau^2}{x^2 + \tau^2 + v}

    x is the mean level of the newest fifth of the blocks, where a block's level is the shift that makes its
    predicted total right; v is the variance of such a mean: the scatter of levels within fifths, and never less than
    sampling noise. Where levels swing from block to block, the newest says little about the next one.

    Example:
        The rate of the newest fifth is twice as high; only where blocks agree is that believed.

        >>> steady, swinging = [0.1] * 16 + [0.2] * 4, [0.02, 0.18] * 8 + [0.02, 0.38] * 2
        >>> random = np.random.default_rng(0).random(20_000)
        >>> for rates in (steady, swinging):
        ...     rows = Samples(np.full(20_000, -2.2), (random < np.repeat(rates, 1000)).astype(float))
        ...     print(round(block_level(rows.logits, rows, TimeBlocks.of(rows)), 1))
        0.8
        -0.0
    """
    levels, noise = _block_levels(logits, samples, blocks)
    fifths = np.array_split(np.arange(levels.size), min(_N_FIFTHS, levels.size))
    newest = fifths[-1]
    scatter = [float(np.var(levels[fifth], ddof=1)) for fifth in fifths if fifth.size > 1]
    within = max(float(np.mean(scatter)) if scatter else 0.0, float(np.mean(noise))) / newest.size
    level = float(np.mean(levels[newest]))
    expected = level**2 + DRIFT_SCALE**2
    return level * expected / (expected + within)


def _block_levels(logits: Floats, samples: Samples, blocks: TimeBlocks) -> tuple[Floats, Floats]:
    labels, weights = samples.known_labels, samples.weights_or_ones
    levels, noise = np.zeros(blocks.n_blocks), np.zeros(blocks.n_blocks)
    for block in range(blocks.n_blocks):
        rows = slice(blocks.edges[block], blocks.edges[block + 1])
        y = labels[rows]
        if y.min() != y.max():
            shift = solve_shift(logits[rows], y, weights[rows])
            levels[block] = np.clip(shift, -_LARGEST_LEVEL, _LARGEST_LEVEL)
        p = sigmoid(logits[rows] + levels[block])
        noise[block] = 1.0 / max(float(weights[rows] @ (p * (1.0 - p))), 1e-9)
    return levels, noise
