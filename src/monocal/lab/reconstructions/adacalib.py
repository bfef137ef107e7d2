"""AdaCalib: one broken line per value of one field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import ArrayLike

from monocal.calibrators.contract import Tags
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.scores import sigmoid
from monocal.neural.base import NeuralCalibrator
from monocal.neural.fitted import Weights
from monocal.neural.maps import MapInputs
from monocal.ops.operations import Ops, Values

if TYPE_CHECKING:
    from torch import nn

    from monocal.neural.network import MonotoneMap


PROBABILITY_FLOOR = 1e-6


@final
@dataclass(kw_only=True, eq=False, repr=False)
class AdaCalib(NeuralCalibrator):
    r"""Draws a broken line of the score for each value of one field, from that value's own click statistics.

    The rows of a value are cut into bins of equal mass. A network turns each bin's statistics, trusted as far as a
    second network says, into the line's values; a third one chooses among several numbers of bins. At prediction
    time a line is looked up by the value's id; unseen values have the line of all rows together.

    **Our reconstruction**: no code of the method is public, and details follow public summaries. Order is
    encouraged by a penalty and guaranteed only with `hard_monotone`.

    References:
        Wei et al. Posterior probability matters: doubly-adaptive calibration for neural predictions in online
        advertising. SIGIR 2022.

    Takes the arguments of `NeuralArguments` beside its own; of its vectors only their length is used.

    Arguments:
        field: Position of the field among the features.
        candidate_bins: The numbers of bins to choose among.
        hidden: Widths of the network behind the line's values.
        hard_monotone: Lets the line's values only rise.

    Example:
        >>> AdaCalib().tags.reconstruction, AdaCalib(hard_monotone=True).tags.monotone
        (True, 'weak')
    """

    name = "adacalib"
    uses_numbers = False
    class_tags = Tags(monotone="none", features="required", weights_exactly=False, reconstruction=True)
    default_epochs = 3
    network_is_kept = False

    field: int = 0
    candidate_bins: Sequence[int] = (5, 10, 20)
    hidden: Sequence[int] = (64, 32)
    hard_monotone: bool = False

    @property
    def tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _encoder(self, rows: Dataset) -> nn.Module | None:
        from monocal.lab.reconstructions.adacalib_map import OneField

        if not 0 <= self.field < len(rows.fields):
            expected = f"a position in 0 … {len(rows.fields) - 1}"
            raise InvalidInput.of("field", self.field, expected, "count fields from 0")
        return OneField(self.field)

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        import torch

        from monocal.lab.reconstructions.adacalib_map import AdaCalibMap
        from monocal.lab.reconstructions.adacalib_statistics import value_statistics

        rows = inputs.rows
        assert rows.ids is not None
        values, n_values = np.asarray(rows.ids[:, self.field]), int(rows.fields.sizes[self.field])
        given = sigmoid(rows.z), rows.labels, values, n_values
        found = [value_statistics(*given, n_bins, rows.w) for n_bins in self.candidate_bins]
        return AdaCalibMap(
            [torch.as_tensor(part.edges) for part in found],
            [torch.as_tensor(part.statistics) for part in found],
            torch.as_tensor(np.bincount(values, rows.w, minlength=n_values).astype(np.float64)),
            n_dimensions=self.n_dimensions,
            hidden=self.hidden,
            hard_monotone=self.hard_monotone,
            seed=self.seed,
        )

    def _weights_of(self, curve: MonotoneMap) -> Weights:
        """Draws every value's line once: at prediction time nothing is left of the networks."""
        import torch

        from monocal.lab.reconstructions.adacalib_map import AdaCalibMap

        assert isinstance(curve, AdaCalibMap)

        n_values = curve.get_parameter("vectors").shape[0]
        with torch.no_grad():
            chosen, *lines = curve.eval()._lines(torch.arange(n_values)[:, None])
        best = chosen.argmax(dim=1).numpy()
        n_knots = max(line.shape[1] for line in lines)
        # a line with fewer knots stays flat after its last one
        places, heights = np.full((n_values, n_knots), np.inf), np.empty((n_values, n_knots))
        for candidate in range(chosen.shape[1]):
            mine = best == candidate
            edges, values = (line.numpy()[mine] for line in lines[2 * candidate : 2 * candidate + 2])
            places[mine, : edges.shape[1]] = edges
            heights[mine, : edges.shape[1]] = values
            heights[mine, edges.shape[1] :] = values[:, -1:]
        return {"places": places, "heights": heights}

    def _context(self, ops: Ops, ids: Values | None) -> Values | None:
        return ops.column(ids, self.field)

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        rises = {"a step of heights": np.diff(self.weights_["curve.heights"], axis=1)} if self.hard_monotone else {}
        return {**super()._never_negative(), **rises}

    def _curve(self, ops: Ops, t: Values, context: Values | None) -> Values:
        return value_lines(ops, t, context)


def value_lines(ops: Ops, t: Values, values: Values) -> Values:
    """Draws one broken line of the probability per value of a field, whose ids are `values`.

    Never decreases where heights do not: inside a segment a non-negative number is multiplied and added, and the
    result is capped by the segment's right end.

    Example:
        >>> from monocal.ops.numpy_ops import NumpyOps
        >>> lines = NumpyOps({"places": np.array([[0.0, 0.2, 1.0]]), "heights": np.array([[0.02, 0.15, 0.6]])})
        >>> sigmoid(value_lines(lines, np.log([0.1 / 0.9, 1.0]), np.array([0, 7]))).round(5).tolist()
        [0.085, 0.31875]
    """
    # beyond every probability, where the arrays say infinity: differences of places stay finite
    places = ops.learned("places")
    ids = ops.known_ids(values, len(places))
    x = ops.look_up(np.where(np.isfinite(places), places, 2.0), ids)
    y = ops.look_up(ops.learned("heights"), ids)
    n_knots = places.shape[1]
    at = ops.sigmoid(t)
    reached = ops.upright(at) >= ops.columns(x, 1, n_knots - 1)
    segment = ops.count(reached)
    left, right = ops.pick(x, segment), ops.pick(x, segment + 1)
    low, high = ops.pick(y, segment), ops.pick(y, segment + 1)
    inside = low + ops.clip((at - left) / (right - left), 0.0, 1.0) * (high - low)
    capped = ops.where(high >= low, ops.minimum(inside, high), inside)
    return ops.logit(capped, PROBABILITY_FLOOR)
