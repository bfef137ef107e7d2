"""What DeepFM and its multi-task form share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from monocal.lab.rankers.neural_ranker import NeuralRanker
from monocal.logs.scored_log import Tables

if TYPE_CHECKING:
    from torch import Tensor

    from monocal.lab.rankers.deepfm_network import DeepFMNetwork


@dataclass(kw_only=True, eq=False, repr=False)
class DeepFMRanker(NeuralRanker):
    """A ranker whose network is a `DeepFMNetwork`.

    Arguments:
        hidden: Hidden widths. The default is the UMC paper's; its public code adds one more layer of 64.
        negative_rate: Share of the negatives to learn from; logits are corrected by its logarithm.
    """

    hidden: tuple[int, ...] = (512, 256, 128)
    negative_rate: float = 1.0
    network_: DeepFMNetwork = field(init=False)

    @final
    def _network(self, rows: Tensor | None = None) -> DeepFMNetwork:
        from monocal.lab.rankers.deepfm_network import DeepFMNetwork

        network = DeepFMNetwork(self.field_sizes_, self.n_dimensions, self.hidden, self.n_outputs, rows)
        return network.start(self.seed) if rows is None else network

    @final
    def _embeddings(self) -> Tables | None:
        bounds = np.cumsum(self.field_sizes_)[:-1]
        return tuple(np.split(self.network_.embeddings().numpy(), bounds))
