"""One table of vectors and one trunk for the UMC maps of several tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.modules.mlp import Mlp, generator_of
from monocal.calibrators.neural.umc.torch_map import UmcMap


@final
class SharedMap(nn.Module):
    """Maps the logits of all tasks at once: the trunk's last layer has one block of outputs per task.

    Each task keeps knots and a constant of its own, so its curve is that of a `UmcMap` whose trunk has the same hidden
    layers as the others' and a last layer of its own; `weights_of` returns it as such.

    Arguments:
        maps: One map per task, with the integrand at knots; their own trunks are given up.
        encoder: Makes the context of a row from its field ids.
        identity_start: Whether the untrained maps return their input.
        seed: Seed of the trunk's initial weights.

    Example:
        >>> import torch
        >>> from monocal.calibrators.neural.modules.context_encoder import ContextEncoder
        >>> maps = [UmcMap(2, integrand="knots", knots=[-1.0, 1.0], trunk=(4,)) for _ in range(3)]
        >>> shared = SharedMap(maps, ContextEncoder([5], n_dimensions=2))
        >>> shared(torch.tensor([[-2.0, 0.5, 3.0]]), torch.tensor([[1]])).tolist()
        [[-2.0, 0.5, 3.0]]
    """

    def __init__(
        self, maps: Sequence[UmcMap], encoder: nn.Module, *, identity_start: bool = True, seed: int = 0
    ) -> None:
        super().__init__()
        trunks = [task_map.trunk.linears for task_map in maps]
        hidden = [layer.out_features for layer in trunks[0][:-1]]
        self.n_outputs = [layers[-1].out_features for layers in trunks]
        n_in = trunks[0][0].in_features
        self.trunk = Mlp(n_in, hidden, sum(self.n_outputs), generator_of(seed), zero_last=identity_start)
        for task_map in maps:
            del task_map.trunk
        self.maps = nn.ModuleList(maps)
        self.encoder = encoder

    def forward(self, logits: Tensor, field_ids: Tensor) -> Tensor:
        """Returns calibrated logits `(b, tasks)` for logits `(b, tasks)` and field ids `(b, F)`."""
        outputs = self.trunk(self.encoder(field_ids)).split(self.n_outputs, dim=1)
        found = [
            task_map.evaluate_outputs(logits[:, task], outputs[task])
            for task, task_map in enumerate(self.maps)
            if isinstance(task_map, UmcMap)
        ]
        return torch.stack(found, dim=1)

    def weights_of(self, task: int) -> Weights:
        """Returns the arrays of one task's map under the names of a `UmcMap`."""
        found = {name: np.atleast_1d(value.numpy()) for name, value in self.maps[task].state_dict().items()}
        first = sum(self.n_outputs[:task])
        mine = slice(first, first + self.n_outputs[task])
        last = len(self.trunk.layers) - 1
        for name, value in self.trunk.state_dict().items():
            is_last = name.startswith(f"layers.{last}.")
            found[f"trunk.{name}"] = value.numpy()[mine].copy() if is_last else value.numpy()
        return found
