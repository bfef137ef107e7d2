"""Adam for weights that every batch touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.adam import adam


@final
class DenseAdam:
    r"""The steps of `torch.optim.Adam(weights, fused=True)`, bit for bit.

    .. math:: m \leftarrow \beta_1 m + (1-\beta_1) g, \quad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \quad
        x \leftarrow x - \eta\,\frac{m / (1-\beta_1^t)}{\sqrt{v / (1-\beta_2^t)} + \epsilon}

    with β = (0.9, 0.999) and ε = 1e-8. Torch's class loads torch's compiler when it is made, which takes longer than
    the training of a small calibrator; the function below it does not.

    Arguments:
        weights: What to move; a weight without a gradient stays, and its t does not count the step.

    Example:
        >>> weight = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> weight.sum().backward()
        >>> adam = DenseAdam([weight])
        >>> adam.param_groups[0]["lr"] = 0.5
        >>> adam.step()
        >>> [round(value, 4) for value in weight.tolist()]
        [0.5, 1.5]
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(weights), "lr": 1e-3}]
        self.state: dict[int, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Moves the weights against their gradients."""
        (group,) = self.param_groups
        moved = [(place, weight) for place, weight in enumerate(group["params"]) if weight.grad is not None]
        for place, weight in moved:
            if place not in self.state:
                moments = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
                self.state[place] = {"step": torch.zeros((), dtype=torch.float32), **moments}
        states = [self.state[place] for place, _ in moved]
        adam(
            [weight for _, weight in moved],
            [weight.grad for _, weight in moved],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=group["lr"],
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns steps and moments by the place of their weight."""
        return {"state": self.state, "param_groups": []}

    def load_state_dict(self, found: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned, as tensors of its own.

        Arguments:
            found: What it returned.
        """
        self.state = {
            place: {name: value.detach().clone() for name, value in remembered.items()}
            for place, remembered in found["state"].items()
        }
