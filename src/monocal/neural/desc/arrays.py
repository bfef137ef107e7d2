"""DESC's map on numpy arrays."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats, sigmoid
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.layers import Layers

LOGIT_CLAMP = 16.0
PROBABILITY_FLOOR = 1e-6


def desc_bases(logits: Floats) -> Floats:
    """Evaluates the 48 curves through (0, 0) and (1, 1); see `desc.torch_map.desc_bases`.

    Example:
        >>> desc_bases(np.log([0.3 / 0.7]))[0, [0, 31, 32, 47]].round(6).tolist()
        [0.547723, 0.155172, 0.344695, 0.427816]
    """
    p = sigmoid(logits)[:, None]
    a = np.arange(5, 21) / 10.0
    return np.concatenate([p**a, sigmoid(logits[:, None] * a), np.log1p(p * a) / np.log1p(a)], axis=1)


@final
class MixtureCurve:
    """DESC's map on numpy arrays.

    Arguments:
        weights: Arrays under the names of the torch map.
    """

    def __init__(self, weights: Weights) -> None:
        n_fields = len({name.split(".")[1] for name in weights if name.startswith("shapes.")})
        self.shapes = [Layers.of(weights, f"shapes.{field}") for field in range(n_fields)]
        self.joint, self.attention = Layers.of(weights, "joint"), Layers.of(weights, "field_attention")
        self.value = Layers.of(weights, "value")
        self.buckets = weights.get("buckets")

    def __call__(self, logits: Floats, context: NDArray[np.float32]) -> Floats:
        t = np.clip(logits, -LOGIT_CLAMP, LOGIT_CLAMP)
        extra = []
        if self.buckets is not None:
            n_buckets = self.buckets.shape[0]
            extra = [self.buckets[np.minimum((sigmoid(t) * n_buckets).astype(np.int64), n_buckets - 1)]]
        mixture = self._mixture(context, extra)
        mixed = np.sum(mixture * desc_bases(t), axis=1)
        p = np.clip(mixed, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        result: Floats = np.log(p) - np.log1p(-p)
        return result

    def _mixture(self, context: NDArray[np.float32], extra: list[NDArray[Any]]) -> Floats:
        """Returns the weight of every curve in the final probability, `(n, 48)`."""
        n_fields = len(self.shapes)
        fields = context.reshape(context.shape[0], n_fields, -1)
        others = _attention_to_others(fields)
        joint = np.maximum(self.joint(np.concatenate([context, *extra], axis=1)), 0.0)
        attention = _softmax(self.attention(joint).astype(np.float64))
        mixed = np.zeros((context.shape[0], 48))
        for place, shape in enumerate(self.shapes):
            inputs = np.concatenate([*extra, fields[:, place], others[:, place]], axis=1)
            mixed += attention[:, place, None] * _softmax(shape(inputs).astype(np.float64))
        return mixed * sigmoid(self.value(joint)[:, 0])[:, None]


def _attention_to_others(fields: NDArray[np.float32]) -> NDArray[Any]:
    """Returns for every field the others' vectors, weighted by their likeness to it. Sums in a fixed order, so that
    equal rows get equal numbers."""
    n_rows, n_fields, n_dimensions = fields.shape
    affinity = np.zeros((n_rows, n_fields, n_fields), dtype=np.float32)
    for d in range(n_dimensions):
        affinity += fields[:, :, None, d] * fields[:, None, :, d]
    affinity /= np.float32(math.sqrt(n_dimensions))
    affinity[:, np.arange(n_fields), np.arange(n_fields)] = -np.inf
    weights = _softmax(affinity)
    others = np.zeros_like(fields)
    for field in range(n_fields):
        others += weights[:, :, field, None] * fields[:, None, field, :]
    return others


def _softmax(values: NDArray[Any]) -> NDArray[Any]:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    result: NDArray[Any] = powers / powers.sum(axis=-1, keepdims=True)
    return result
