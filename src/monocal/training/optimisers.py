"""Adam for dense weights, torch's sparse form for long tables, and whatever a module brings for its own weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn

from monocal.training.dense_adam import DenseAdam


class Optimiser(Protocol):
    """What moves weights, as torch's optimisers do."""

    param_groups: list[dict[str, Any]]

    def step(self) -> Any: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None: ...


class BringsOptimiser(nn.Module, ABC):
    """A module whose weights are moved by an optimiser of its own."""

    @abstractmethod
    def optimiser(self) -> Optimiser:
        """Returns what moves all weights of this module."""


@final
class Optimisers:
    """Splits a network's trainable weights between Adam, its sparse form and what modules bring themselves.

    The weights of a module whose attribute `sparse` is true, as torch's own embeddings have it, get gradients for the
    rows of the batch alone, and the sparse form updates only those; a step then costs the time of the batch however
    long the table is.

    Arguments:
        network: The network; frozen weights are left out.
    """

    def __init__(self, network: nn.Module) -> None:
        sparse = sparse_tables(network)
        owners = [module for module in network.modules() if isinstance(module, BringsOptimiser)]
        own = {id(weight) for owner in owners for weight in owner.parameters()}
        trainable = [weight for weight in network.parameters() if weight.requires_grad and id(weight) not in own]
        self.dense = [weight for weight in trainable if id(weight) not in sparse]
        long = [weight for weight in trainable if id(weight) in sparse]
        self.parts: list[Optimiser] = []
        if self.dense:
            self.parts.append(DenseAdam(self.dense))
        if long:
            self.parts.append(torch.optim.SparseAdam(long))
        self.parts.extend(owner.optimiser() for owner in owners)

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
