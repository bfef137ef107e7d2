r"""Intervals by resampling rows, noise floors by redrawing labels; and states as bytes that travel.

**Units.** What is resampled is a group (a user) when groups are given, because a user's rows depend on each other, and
a row otherwise; the two pieces of a soft label are one row. A row is one observation whatever its weight.

**Blocks.** Up to 512 units are resampled one by one. Beyond, units are dealt at random into 512 blocks of equal size
and whole blocks are resampled. Sums per block are formed once, so a replicate costs a matrix product instead of a pass
over the rows, and the variance of every sum stays unbiased; with 512 blocks a standard error is known to about 3 %.

**Centring.** Metrics that add absolute gaps are larger on noisier data, and a bootstrap sample is noisier than the
data. Replicates are therefore shifted so that their median is the observed value, which then always lies inside. The
interval speaks about the metric *on samples of this size*, noise included; how much of it is noise the floor tells.

**Floors.** If the predictions were the true probabilities, labels would be coin flips with exactly these odds.
Redrawing all labels :math:`y_i \sim \text{Bernoulli}(p_i)` and measuring again gives the distribution of a metric under
perfect calibration: an ECE of 0.003 means nothing if perfect forecasts get 0.003 as well. Every draw is exact, row by
row; only the positive rows are then added up, so a draw costs little more than the random numbers. A soft label is
redrawn as a hard one, which is the noisiest that a label with this mean can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.process import one_blas_thread, progress
from monocal.core.scores import Floats
from monocal.metrics.base import AnyMetric, Blocks, by_summary
from monocal.metrics.forecast import Forecast
from monocal.metrics.order import OrderedCells
from monocal.metrics.sums import Sums

MOST_BLOCKS = 512


class Interval(NamedTuple):
    """Where a number probably lies; NaN at both ends when the data cannot say.

    Attributes:
        low: The lower end.
        high: The upper end.
    """

    low: float
    high: float


def resampling_blocks(forecast: Forecast, seed: int) -> tuple[Blocks, int]:
    """Returns the block of each row and how many blocks there are; rows of one group, or of one unit, share a block.

    Example:
        >>> rows = Forecast.of([0, 1, 0], [0.1, 0.9, 0.2], groups=[7, 7, 3])
        >>> blocks, n_blocks = resampling_blocks(rows, seed=0)
        >>> n_blocks, bool(blocks[0] == blocks[1]), bool(blocks[0] == blocks[2])
        (2, True, False)
    """
    rng = np.random.default_rng(seed)
    together = forecast.units if forecast.groups is None else forecast.groups
    if together is None:
        return _deal(forecast.n_rows, rng)
    seen = np.flatnonzero(np.bincount(together))
    dealt, n_blocks = _deal(seen.shape[0], rng)
    of_group = np.zeros(int(seen[-1]) + 1 if seen.size else 0, dtype=np.int32)
    of_group[seen] = dealt
    return of_group[together], n_blocks


def bootstrap(
    metrics: Mapping[str, AnyMetric], forecast: Forecast, n_replicates: int = 200, seed: int = 0
) -> dict[str, Floats]:
    """Returns each metric's values on resampled units, `(n_replicates,)`; NaN where a replicate left it undefined.

    Two forecasts of the same rows get the same resamples from the same seed, so their replicates can be subtracted.

    Arguments:
        metrics: Metrics by any name.
        forecast: The rows.
        n_replicates: How many resamples.
        seed: Seed of blocks and resamples.

    Example:
        >>> from monocal.metrics import metric
        >>> rows = Forecast.of([0, 1] * 50, [0.2, 0.7] * 50)
        >>> replicates = bootstrap({"pcoc": metric("pcoc")}, rows, seed=1)["pcoc"]
        >>> replicates.shape, bool(abs(replicates.mean() - 0.9) < 0.03)
        ((200,), True)
    """
    check_replicates("n_bootstrap", n_replicates)
    blocks, n_blocks = resampling_blocks(forecast, seed)
    found = {name: np.full(n_replicates, np.nan) for name in metrics}
    if n_blocks < 2:
        return found
    counts = block_counts(n_blocks, n_replicates, seed)
    shared = by_summary(metrics)
    with one_blas_thread(), progress("resampling", len(shared) * n_replicates, unit="replicates") as bar:
        for summary, names in shared.items():
            states = summary.replay(forecast).reweighted(blocks, counts)
            for replicate, state in enumerate(states):
                for name in names:
                    found[name][replicate] = metrics[name].value(state).number
                bar.advance(1)
    return found


def block_counts(n_blocks: int, n_replicates: int, seed: int) -> Floats:
    """Returns how often each block is drawn in each replicate, `(n_replicates, n_blocks)`.

    Example:
        >>> block_counts(4, 3, seed=0).sum(axis=1).tolist()
        [4.0, 4.0, 4.0]
    """
    even = np.full(n_blocks, 1.0 / n_blocks)
    return np.random.default_rng([seed, 1]).multinomial(n_blocks, even, n_replicates).astype(np.float64)


def centred_interval(
    value: float, replicates: Floats, confidence: float = 0.95, limits: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """Returns the quantiles of replicates shifted to have their median at the value, cut to what is possible.

    Undefined when the value is, or when more than half of the replicates are.

    Arguments:
        value: The number itself.
        replicates: The same number on resampled rows.
        confidence: How much of the replicates the interval holds.
        limits: What is possible at all.

    Example:
        >>> low, high = centred_interval(0.5, np.array([0.6, 0.7, 0.8, np.nan]), confidence=0.9)
        >>> round(low, 6), round(high, 6)
        (0.41, 0.59)
    """
    usable = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or 2 * usable.shape[0] < replicates.shape[0] or usable.shape[0] == 0:
        return Interval(float("nan"), float("nan"))
    tail = 0.5 * (1.0 - confidence)
    low, median, high = np.quantile(usable, [tail, 0.5, 1.0 - tail])
    return Interval(
        float(np.clip(value + (low - median), *limits)),
        float(np.clip(value + (high - median), *limits)),
    )


def check_confidence(confidence: float) -> float:
    """Refuses a confidence outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise InvalidInput.of("confidence", confidence, "a number between 0 and 1", "use 0.95")
    return confidence


def check_replicates(argument: str, count: int) -> int:
    """Refuses fewer than two replicates."""
    if count < 2:
        raise InvalidInput.of(argument, count, "at least 2 replicates", "use 200, or do not ask for intervals")
    return count


def _deal(n_units: int, rng: np.random.Generator) -> tuple[Blocks, int]:
    if n_units <= MOST_BLOCKS:
        return np.arange(n_units, dtype=np.int32), n_units
    return (rng.permutation(n_units) % MOST_BLOCKS).astype(np.int32), MOST_BLOCKS


def noise_floor(
    metrics: Mapping[str, AnyMetric], forecast: Forecast, n_draws: int = 100, seed: int = 0
) -> dict[str, Floats]:
    """Returns each metric's values on labels redrawn from the predictions, `(n_draws,)`; the labels are not read.

    Arguments:
        metrics: Metrics by any name.
        forecast: The rows.
        n_draws: How many times all labels are redrawn.
        seed: Seed of the draws.

    Example:
        >>> from monocal.metrics import metric
        >>> rows = Forecast.of([0] * 1000, [0.5] * 1000)
        >>> draws = noise_floor({"ece": metric("ece")}, rows)["ece"]
        >>> bool(abs(draws.mean() - (0.25 / 1000 * 2 / np.pi) ** 0.5) < 0.002)
        True
    """
    check_replicates("n_floor", n_draws)
    rng = np.random.default_rng([seed, 2])
    units = None if forecast.units is None else np.unique(forecast.units, return_inverse=True)[1]
    n_draws_each = forecast.n_rows if units is None else int(units.max(initial=-1)) + 1
    shared = [(summary.replay(forecast), names) for summary, names in by_summary(metrics).items()]
    found = {name: np.full(n_draws, np.nan) for name in metrics}
    with one_blas_thread(), progress("redrawing labels", n_draws, unit="draws") as bar:
        for draw in range(n_draws):
            drawn = rng.random(n_draws_each)
            positive_rows = np.flatnonzero((drawn if units is None else drawn[units]) < forecast.probabilities)
            for replay, names in shared:
                state = replay.relabelled(positive_rows)
                for name in names:
                    found[name][draw] = metrics[name].value(state).number
            bar.advance(1)
    return found


PackedState = Sums | OrderedCells

_SUMS, _ORDER, _SKETCH = "sums/", "order/", "sketch/"


def pack(state: PackedState) -> bytes:
    """Returns a state as the bytes of a safetensors file.

    Example:
        >>> packed = pack(Sums({"weight": np.array([2.0])}))
        >>> unpack(packed)["weight"].tolist()
        [2.0]
    """
    from safetensors.numpy import save

    if isinstance(state, Sums):
        arrays = {_SUMS + name: array for name, array in state.arrays.items()}
    elif isinstance(state, OrderedCells):
        prefix = _ORDER if state.exact else _SKETCH
        arrays = {prefix + name: getattr(state, name) for name in ("keys", "weight", "positive")}
        if state.sums is not None:
            arrays[prefix + "sums"] = state.sums
    else:
        raise InvalidInput.of(
            "state", f"a {type(state).__name__}", "sums or ordered cells", "use a metric whose state stays small"
        )
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def unpack(data: bytes) -> PackedState:
    """Returns the state that `pack` packed, bit for bit."""
    from safetensors.numpy import load

    arrays = load(data)
    prefix = next(iter(arrays)).split("/")[0] + "/"
    named = {name.removeprefix(prefix): array for name, array in arrays.items()}
    if prefix == _SUMS:
        return Sums(named)
    return OrderedCells(
        named["keys"], named["weight"], named["positive"], exact=prefix == _ORDER, sums=named.get("sums")
    )
