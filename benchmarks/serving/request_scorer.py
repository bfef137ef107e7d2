"""A trained DeepFM made ready for requests of a few hundred rows."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.lab.rankers.networks import DeepFMNetwork, smallest_fields

DEFAULT_FOLDED_VALUES = 1 << 17
"""Values whose share of the first layer is kept: 256 MiB with 512 hidden units."""


@final
class RequestScorer:
    r"""Scores one request after another, with everything prepared that does not depend on the request.

    The first layer is :math:`b + \sum_f W_f\,e_f[x_f]`. For as many fields as the budget allows, smallest first,
    :math:`W_f\,e_f[v]` is computed once per value v and then only looked up and added; for the others it is a matrix
    product. The logits are those of `DeepFMNetwork.score` up to rounding; a ranker that learned from a share of the
    negatives adds the logarithm of that share. Matrix products use as many threads as torch is set to; for small
    requests one is best.

    Arguments:
        network: The trained network.
        folded_values: Most field values that go through the first layer by look-up.
    """

    def __init__(self, network: DeepFMNetwork, folded_values: int = DEFAULT_FOLDED_VALUES) -> None:
        self._network = network
        folded = smallest_fields(network.field_sizes, folded_values)
        others = [field for field in range(len(network.field_sizes)) if field not in folded]
        self._folded, self._others = torch.tensor(folded, dtype=torch.int64), torch.tensor(others, dtype=torch.int64)
        first, *self._rest = network.linear_layers()
        by_field = first.weight.detach().view(first.out_features, len(network.field_sizes), network.n_dimensions)
        vectors = torch.split(network.embeddings(), list(network.field_sizes))
        self._bias = first.bias.detach()
        self._tables = torch.cat(
            [self._bias.new_empty(0, first.out_features), *(vectors[f] @ by_field[:, f].t() for f in folded)]
        )
        sizes = torch.tensor(network.field_sizes)
        starts = sizes.cumsum(0) - sizes
        self._shifts = sizes[self._folded].cumsum(0) - sizes[self._folded] - starts[self._folded]
        self._weight = by_field[:, self._others].flatten(1).t().contiguous()

    def __call__(self, ids: Ids) -> Floats:
        """Returns logits `(rows, tasks)` of rows of field ids."""
        network = self._network
        with torch.inference_mode():
            places = network.places(torch.from_numpy(ids))
            embeddings, linear = network.split(network.table(places))
            hidden = torch.addmm(self._bias, embeddings.index_select(1, self._others).flatten(1), self._weight)
            if len(self._folded):
                looked_up = places.index_select(1, self._folded) + self._shifts
                hidden += functional.embedding_bag(looked_up, self._tables, mode="sum")
            hidden.relu_()
            for layer in self._rest:
                hidden = layer(hidden).relu_()
            logits: Tensor = network.heads(hidden, network.second_order(embeddings)) + linear.sum(1)
            return np.asarray(logits.numpy(), dtype=np.float64)
