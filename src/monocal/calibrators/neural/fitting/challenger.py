"""A second network that goes on learning, and takes the first one's place when newer rows say that it pays.

Within one refresh no row is later than the others in a way that counts: they share their shocks. So a network that was
trained on today's rows is kept beside the one in use, as its challenger, and tomorrow's rows judge both before either
has seen them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.arrays.fitted_map import believed_share, curve_weights
from monocal.core.log_loss import log_losses
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

if TYPE_CHECKING:
    from torch import nn

    from monocal.calibrators.neural.modules.monotone_map import MonotoneMap
    from monocal.losses import Loss
    from monocal.training import TrainingOptions

LEARNING_RATE = 2e-3
"""Half of a fit's: the network starts where the last one ended. One pass over the rows, in batches of twice the size of
a fit's, costs a quarter of a fit's training on them; a challenger that pays goes on with the next rows."""

MOST_ROWS = 1 << 17
"""A challenger sees every k-th row of a longer refresh: it has the next ones, too, and a day's cost stays bounded."""

N_BLOCKS = 20
BEYOND_NOISE = 3.0
"""Standard errors by which a challenger has to be ahead. They are those of rows within one refresh, which share their
shocks, so the usual two are too few."""

Verdict = Literal["adopted", "undecided", "dropped"]


@final
@dataclass(frozen=True)
class Contest:
    """What newer rows say about a challenger.

    Attributes:
        gain: How much smaller its mean log-loss is.
        noise: Standard error of that, from blocks of consecutive rows.
    """

    gain: float
    noise: float

    @property
    def verdict(self) -> Verdict:
        if self.gain > BEYOND_NOISE * self.noise:
            return "adopted"
        return "undecided" if self.gain > 0.0 else "dropped"

    def as_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "gain": self.gain, "noise": self.noise}


def contest(in_use: Floats, challenger: Floats, samples: Samples) -> Contest:
    """Compares two forecasts of rows that neither has seen.

    Arguments:
        in_use: Calibrated logits with the network in use.
        challenger: With the other one.
        samples: The rows, in time order.

    Example:
        >>> rows = Samples.of(np.full(4_000, 0.5), np.arange(4_000) % 5 == 0)
        >>> found = contest(np.full(4_000, -1.0), np.full(4_000, -1.386), rows)
        >>> found.verdict, round(found.gain, 3)
        ('adopted', 0.013)
    """
    labels, weights = samples.known_labels, samples.weights_or_ones
    difference = weights * (log_losses(in_use, labels) - log_losses(challenger, labels))
    blocks = np.array_split(np.arange(samples.n_rows), min(N_BLOCKS, samples.n_rows))
    sums = np.array([[difference[rows].sum(), weights[rows].sum()] for rows in blocks])
    total = float(sums[:, 1].sum())
    gain = float(sums[:, 0].sum()) / total
    spread = sums[:, 0] - gain * sums[:, 1]
    n = len(blocks)
    noise = float(np.sqrt(n / max(n - 1, 1) * np.sum(spread**2))) / total if n > 1 else np.inf
    return Contest(gain, noise)


@final
@dataclass(frozen=True)
class Judged:
    """What becomes of a challenger.

    Attributes:
        weights: All arrays of the calibrator, with the network in use from now on.
        challenger: The network from which training goes on; empty for the one in use.
        goes_on: Whether there is anything to train.
        facts: The verdict in numbers, or why there is none.
    """

    weights: Weights
    challenger: Weights
    goes_on: bool
    facts: dict[str, Any]


def judge_challenger(
    map_logits: Callable[[Weights, Samples], Floats],
    weights: Weights,
    challenger: Weights,
    samples: Samples,
    level: float,
    why_not: str,
) -> Judged:
    """Lets newer rows decide between the network in use and its challenger, before either has seen them.

    Arguments:
        map_logits: Calibrated logits of rows, from a map's arrays.
        weights: All arrays of the calibrator.
        challenger: Those of the other network, which replace some of them; empty if there is none.
        samples: The rows, with the fields that the method looks at.
        level: The last intercept in use.
        why_not: Why no network can be trained; empty if one can.
    """
    if believed_share(weights) == 0.0:
        why_not = "the fit did without one"
    elif find_spec("torch") is None:
        why_not = "torch is not installed"
    if why_not:
        return Judged(weights, {}, False, {"verdict": "none", "why": why_not})
    if not challenger:
        return Judged(weights, {}, True, {"verdict": "begun"})
    in_use, other = (map_logits(arrays, samples) + level for arrays in (weights, weights | challenger))
    found = contest(in_use, other, samples)
    if found.verdict == "adopted":
        return Judged(weights | challenger, {}, True, found.as_dict())
    return Judged(weights, challenger if found.verdict == "undecided" else {}, True, found.as_dict())


def going_on(options: TrainingOptions) -> TrainingOptions:
    """Returns the training options of a fit as they are for a refresh."""
    batch_rows = 2 * options.batch_rows
    return replace(options, n_epochs=1, batch_rows=batch_rows, learning_rate=LEARNING_RATE, checkpoint=None)


def train_challenger(
    curve: MonotoneMap,
    weights: Weights,
    samples: Samples,
    level: float,
    loss: Loss,
    options: TrainingOptions,
) -> MonotoneMap:
    r"""Trains a map on the rows of a refresh, beside everything else as it is served.

    What is trained is f in :math:`(1 - \alpha) t + \alpha f(t, x) + \sum_k \delta_{k, x_k} + c`; share, shifts, level
    and the vectors of field values stay.

    Arguments:
        curve: A map of the right form; it is changed.
        weights: All arrays of the refreshed calibrator, with those of the network to start from.
        samples: The rows, with the fields that the method looks at.
        level: The last intercept in use.
        loss: What to minimise.
        options: How to train.
    """
    import torch

    from monocal.calibrators.neural.modules.mixed_map import MixedMap
    from monocal.calibrators.neural.modules.wide_shift import WideShift
    from monocal.training import train

    shapes = {name: value.shape for name, value in curve.state_dict().items()}
    curve.load_state_dict(
        {name: torch.tensor(array).reshape(shapes[name]) for name, array in curve_weights(weights).items()}
    )
    slope, intercept = (float(number) for number in weights["affine"])
    wide = WideShift.frozen(np.diff(weights.get("wide.offsets", [0])).tolist(), weights.get("wide.shifts"))
    constant = level + float(weights.get("wide.intercept", [0.0])[0])
    samples = samples.take(slice(None, None, -(-samples.n_rows // MOST_ROWS)))
    network = MixedMap(curve, believed_share(weights), constant, encoder=_frozen_encoder(weights), wide=wide)
    train(network, samples.with_logits(slope * samples.logits + intercept), loss=loss, options=options)
    return curve


def _frozen_encoder(weights: Weights) -> nn.Module | None:
    import torch

    from monocal.calibrators.neural.modules.context_encoder import ContextEncoder
    from monocal.calibrators.neural.modules.field_map import ChosenValues

    if "encoder.table" not in weights:
        return None
    table, slots, offsets = (weights[f"encoder.{name}"] for name in ("table", "slots", "offsets"))
    # the slot of a field's id 0 is the first of the field
    starts = slots[offsets[:-1]]
    sizes = np.diff(offsets)
    vectors = ContextEncoder(np.diff(np.append(starts, len(table))).tolist(), table=torch.tensor(table))
    return ChosenValues(sizes.tolist(), torch.tensor(slots - np.repeat(starts, sizes)), vectors)
