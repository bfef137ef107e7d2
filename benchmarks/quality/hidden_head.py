"""A calibrator whose context is the ranker's own last hidden layer: a monotone head, with umc's recipe around it.

Not part of the package: what it is worth is measured by `hidden_layer.py` and `../serving/hidden_overhead.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from monocal.calibrators.neural.fitting.carried import BelievedFit, believed_steps
from monocal.calibrators.neural.fitting.presets import PRESETS, batch_rows_for
from monocal.calibrators.neural.fitting.steps import Trained, Wish, run_alone
from monocal.calibrators.neural.umc.torch_map import UmcMap
from monocal.calibrators.score_knots import score_knots
from monocal.calibrators.statistical.wide_solver import add_shifts
from monocal.core.log_loss import log_losses
from monocal.core.samples import Samples
from monocal.core.spaces import sigmoid
from monocal.training import TrainingOptions, train
from monocal.training.trainable import Trainable

RIDGES = (10_000.0, 1_000.0, 100.0, 10.0)
"""Penalties of the shift by the hidden layer; the newest fifth of the rows chooses."""

SMALLEST_VARIANCE = 1e-5
"""Directions of less than this share of the largest variance are left out."""


class _HiddenMap(Trainable):
    """A curve of the score per hidden row, beside constants; takes row numbers where others take field ids."""

    def __init__(self, curve: UmcMap, hidden: np.ndarray, beside: np.ndarray) -> None:
        super().__init__()
        self.curve = curve
        self.hidden, self.beside = torch.from_numpy(hidden), torch.from_numpy(beside)

    def forward(self, logits: Tensor, field_ids: Tensor | None = None) -> Tensor:
        assert field_ids is not None
        rows = field_ids[:, 0].long()
        return self.curve(logits, self.hidden[rows]) + self.beside[rows].to(logits.dtype)


@dataclass
class HiddenHead:
    """Learns `z' = (1 - share) t + share f(t, hidden) + shifts`, t = a z + c, by umc's steps.

    Shares, level and shifts are fitted by the code that umc is fitted by; f starts as the identity (`knots`) or is the
    solution of a ridge regression (`shift`). Both read the hidden layer's principal directions, each scaled to variance
    1: the units are so collinear, and so far from 0, that Adam learns nothing from them as they are. The projection is
    part of the first layer when the head is served.

    Arguments:
        form: `knots`: heights at knots, w and b, as umc; `shift`: t plus a linear function of the hidden layer.
        trunk: Widths between hidden layer and outputs (`knots`).
        seed: Of weights and row order.
        n_epochs: Passes over the rows (`knots`).
    """

    form: str = "knots"
    trunk: tuple[int, ...] = ()
    seed: int = 0
    n_epochs: int = 2
    fitted_: BelievedFit | None = field(default=None, init=False)

    def fit(
        self, logits: np.ndarray, labels: np.ndarray, hidden: np.ndarray, times: np.ndarray, ids: np.ndarray | None
    ) -> HiddenHead:
        """Fits on rows in time order; without field ids there is a level and no shifts."""
        features = np.ones((len(logits), 1), np.int32) if ids is None else ids
        samples = Samples.of(logits, labels, features=features, scores_are="logit", times=times)
        self.centre_ = hidden.mean(0)
        variances, directions = np.linalg.eigh(np.cov((hidden - self.centre_).T.astype(np.float64)))
        kept = variances > SMALLEST_VARIANCE * variances[-1]
        self.projection_ = (directions[:, kept] / np.sqrt(variances[kept])).astype(np.float32)
        self._hidden = self._projected(hidden)
        self.settings_ = replace(PRESETS["monocal"], n_epochs=self.n_epochs)
        sizes = samples.field_sizes().tolist()
        steps = believed_steps(samples, sizes, self.settings_, "auto", "auto", self._map_logits)
        self.sizes_ = sizes
        self.fitted_ = run_alone(steps, self._train)
        del self._hidden
        return self

    @property
    def share_(self) -> float:
        """How far later rows believed the head."""
        assert self.fitted_ is not None
        return float(self.fitted_.believed["network"][0])

    def logits(self, logits: np.ndarray, hidden: np.ndarray, ids: np.ndarray | None) -> np.ndarray:
        """Returns calibrated logits."""
        fitted = self.fitted_
        assert fitted is not None
        entering = logits if fitted.curve is None else fitted.curve.applied(Samples(logits)).logits
        values = self._mixed(fitted.weights, entering, self._projected(hidden))
        features = np.ones((len(logits), 1), np.int32) if ids is None else ids
        weights = fitted.weights
        base = np.full(len(logits), weights["wide.intercept"][0] + fitted.level)
        return values + add_shifts(base, features, weights["wide.shifts"], weights["wide.offsets"])

    def _projected(self, hidden: np.ndarray) -> np.ndarray:
        return (hidden - self.centre_) @ self.projection_

    def _map_logits(self, weights, samples: Samples) -> np.ndarray:
        # all rows, or the newest ones that judge
        return self._mixed(weights, samples.logits, self._hidden[len(self._hidden) - samples.n_rows :])

    def _mixed(self, weights, logits: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        slope, intercept = weights["affine"]
        share = float(weights["mix"][0]) if "mix" in weights else 1.0
        start = slope * logits + intercept
        if share == 0.0:
            return start
        if self.form == "shift":
            values = start + hidden.astype(np.float64) @ weights["vector"][:-1] + weights["vector"][-1]
        else:
            with torch.inference_mode():
                found = [
                    self.curve_(torch.from_numpy(start[part]), torch.from_numpy(hidden[part])).numpy()
                    for part in _parts(len(start))
                ]
            values = np.concatenate(found)
        return (1.0 - share) * start + share * values

    def _train(self, wish: Wish) -> Trained:
        rows = wish.start.entering(wish.older)
        hidden, beside = self._hidden[: rows.n_rows], wish.start.beside(rows, self.sizes_)
        weights = {"affine": np.array([wish.start.slope, wish.start.intercept])}
        if self.form == "shift":
            return weights | {"vector": _ridge(rows.logits + beside, hidden, rows.known_labels)}, {}
        knots = score_knots(rows.logits, 12)
        curve = UmcMap(hidden.shape[1], integrand="knots", trunk=self.trunk, knots=knots.tolist(), seed=self.seed)
        options = TrainingOptions(
            n_epochs=self.settings_.n_epochs,
            batch_rows=batch_rows_for(rows.n_rows),
            learning_rate=self.settings_.learning_rate,
            schedule=self.settings_.schedule,
            seed=self.seed,
            n_threads=1,
            show_progress=False,
        )
        numbered = replace(rows, features=np.arange(rows.n_rows, dtype=np.int32)[:, None])
        train(_HiddenMap(curve, hidden, beside), numbered, options=options)
        self.curve_ = curve
        return weights, {}


def _ridge(offset: np.ndarray, hidden: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns the vector, constant last, of the best shift beside `offset`; its penalty is that of least later loss."""
    inputs = np.concatenate([hidden, np.ones((len(hidden), 1), np.float32)], axis=1)
    cut = int(0.8 * len(labels))
    vector, found, later = np.zeros(inputs.shape[1]), [], []
    for ridge in RIDGES:
        vector = _solved(offset[:cut], inputs[:cut], labels[:cut], ridge, vector)
        found.append(vector)
        later.append(log_losses(offset[cut:] + inputs[cut:] @ vector, labels[cut:]).mean())
    best = int(np.argmin(later))
    return _solved(offset, inputs, labels, RIDGES[best], found[best])


def _solved(offset: np.ndarray, inputs: np.ndarray, labels: np.ndarray, ridge: float, vector: np.ndarray) -> np.ndarray:
    """Minimises the penalised log-loss by Newton's steps, halved until they help."""
    penalties = np.full(len(vector), ridge)
    penalties[-1] = 1e-6

    def loss(candidate: np.ndarray) -> float:
        return float(log_losses(offset + inputs @ candidate, labels).sum() + 0.5 * (penalties * candidate**2).sum())

    value = loss(vector)
    for _ in range(20):
        p = sigmoid(offset + inputs @ vector)
        gradient = inputs.T.astype(np.float64) @ (p - labels) + penalties * vector
        roots = np.sqrt(p * (1.0 - p)).astype(np.float32)[:, None] * inputs
        step = np.linalg.solve((roots.T @ roots).astype(np.float64) + np.diag(penalties), gradient)
        length = 1.0
        while (lower := loss(vector - length * step)) > value and length > 1e-3:
            length *= 0.5
        if lower >= value:
            break
        vector, gained, value = vector - length * step, value - lower, lower
        if gained < 1e-2:
            break
    return vector


def _parts(n_rows: int) -> list[slice]:
    return [slice(first, first + 65_536) for first in range(0, n_rows, 65_536)]
