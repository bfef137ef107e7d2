"""Adam for dense weights, and its lazy form for large tables of which a batch touches few rows."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from monocal.training.dense_adam import DenseAdam
from monocal.training.lazy_table import LazyAdam, LazyTable


@final
class Optimisers:
    """Splits a network's trainable weights between Adam and its lazy form.

    The weights of a module whose attribute `sparse` is true, as torch's own embeddings have it, get gradients for the
    rows of the batch alone, and the lazy form updates only those; a step then costs the time of the batch however long
    the table is. A `LazyTable` is updated likewise, by its own form of Adam.

    Arguments:
        network: The network; frozen weights are left out.
    """

    def __init__(self, network: nn.Module) -> None:
        sparse = sparse_tables(network)
        lazy_tables = [module for module in network.modules() if isinstance(module, LazyTable)]
        own = {id(table.rows) for table in lazy_tables}
        trainable = [weight for weight in network.parameters() if weight.requires_grad and id(weight) not in own]
        self.dense = [weight for weight in trainable if id(weight) not in sparse]
        lazy = [weight for weight in trainable if id(weight) in sparse]
        self.parts: list[DenseAdam | LazyAdam | torch.optim.Optimizer] = []
        if self.dense:
            self.parts.append(DenseAdam(self.dense))
        if lazy:
            self.parts.append(torch.optim.SparseAdam(lazy))
        if lazy_tables:
            self.parts.append(LazyAdam(lazy_tables))

    def step(self, learning_rate: float) -> None:
        """Moves the weights against their gradients."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate
            part.step()

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Returns everything the optimisers remember, as tensors and numbers by name."""
        tensors: dict[str, Tensor] = {}
        numbers: dict[str, float] = {}
        for place, part in enumerate(self.parts):
            for index, remembered in part.state_dict()["state"].items():
                for name, value in remembered.items():
                    key = f"{place}.{index}.{name}"
                    if isinstance(value, Tensor):
                        tensors[key] = value
                    else:
                        numbers[key] = value
        return tensors, numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, float]) -> None:
        """Takes over what `state` returned."""
        for place, part in enumerate(self.parts):
            remembered: dict[int, dict[str, Any]] = {}
            for key, value in (*tensors.items(), *numbers.items()):
                owner, index, name = key.split(".")
                if int(owner) == place:
                    remembered.setdefault(int(index), {})[name] = value
            part.load_state_dict({"state": remembered, "param_groups": part.state_dict()["param_groups"]})


def sparse_tables(network: nn.Module) -> set[int]:
    """Returns the ids of the weights whose gradients name the rows of a batch alone."""
    return {
        id(weight)
        for module in network.modules()
        if getattr(module, "sparse", False)
        for weight in module.parameters(recurse=False)
    }
