"""Adam for dense weights, and its lazy form for large tables of which a batch touches few rows."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn


@final
class Optimisers:
    """Splits a network's trainable weights between Adam and its lazy form.

    The weights of a module whose attribute `sparse` is true, as torch's own embeddings have it, get gradients for the
    rows of the batch alone, and the lazy form updates only those; a step then costs the time of the batch however long
    the table is.

    Arguments:
        network: The network; frozen weights are left out.
    """

    def __init__(self, network: nn.Module) -> None:
        sparse_tables = {
            id(weight)
            for module in network.modules()
            if getattr(module, "sparse", False)
            for weight in module.parameters(recurse=False)
        }
        trainable = [one for one in network.parameters() if one.requires_grad]
        self.dense = [one for one in trainable if id(one) not in sparse_tables]
        lazy = [one for one in trainable if id(one) in sparse_tables]
        self.parts: list[torch.optim.Optimizer] = []
        if self.dense:
            self.parts.append(torch.optim.Adam(self.dense, fused=True))
        if lazy:
            self.parts.append(torch.optim.SparseAdam(lazy))

    def step(self, loss: Tensor, learning_rate: float) -> None:
        """Moves the weights against the gradient of the loss."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate
            part.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for part in self.parts:
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
