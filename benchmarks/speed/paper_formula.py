"""The paper's formula written down literally, as the yardstick of the speed tables.

`U(t, x) = ∫ h dt` by 51 Clenshaw-Curtis nodes. Every node is a full evaluation of the integrand network on the joined
input [t; x], 337 numbers wide: nothing is factored out, nothing is shared between nodes.

Two ways to differentiate it:

- `published`: as the method's publications describe it and their software works: the forward pass keeps no graph, the
  backward pass evaluates the integrand at all nodes again and differentiates it with respect to the parameters and to
  the features, and the rescaling network runs once for its factor and once for its shift;
- `autograd`: plain automatic differentiation through the weighted sum, parameters only, rescaling network once.
  It keeps the activations of all 51 nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from monocal.lab.exact_concat.torch_map import clenshaw_curtis

N_STEPS = 50


class PaperUmc(nn.Module):
    """sigma(exp(w(x)) U(t, x) + b(x)) in logit space, with 337-50-50-1 and 336-200-200-2 networks."""

    def __init__(self, n_inputs: int, *, published: bool) -> None:
        super().__init__()
        self.integrand = nn.Sequential(
            nn.Linear(1 + n_inputs, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1), nn.ELU()
        )
        self.rescaler = nn.Sequential(
            nn.Linear(n_inputs, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 2)
        )
        self.beta = nn.Parameter(torch.zeros(()))
        self.published = published
        nodes, weights = clenshaw_curtis(N_STEPS)
        self.register_buffer("shares", torch.tensor((nodes + 1.0) / 2.0, dtype=torch.float32))
        self.register_buffer("halves", torch.tensor(weights / 2.0, dtype=torch.float32))

    def forward(self, logits: Tensor, context: Tensor) -> Tensor:
        if not self.published:
            area = (self.at_nodes(logits, context) * self.halves).sum(dim=1) * logits
            log_scale, shift = self.rescaler(context).unbind(dim=1)
        else:
            area = PublishedIntegral.apply(self, logits, context, *self.integrand.parameters())
            log_scale = self.rescaler(context)[:, 0]
            shift = self.rescaler(context)[:, 1]
        return torch.exp(log_scale) * (area + self.beta) + shift

    def at_nodes(self, logits: Tensor, context: Tensor) -> Tensor:
        """Evaluates the integrand on [t; x] at every node of every row: `(b, 51)`."""
        n_rows, n_nodes = logits.shape[0], self.shares.shape[0]
        places = (logits[:, None] * self.shares).reshape(-1, 1)
        copies = context[:, None, :].expand(-1, n_nodes, -1).reshape(n_rows * n_nodes, -1)
        return (1.0 + self.integrand(torch.cat([places, copies], dim=1))).reshape(n_rows, n_nodes)


class PublishedIntegral(torch.autograd.Function):
    """The integral whose backward pass evaluates the integrand again."""

    @staticmethod
    def forward(ctx, module, logits, context, *_parameters):
        ctx.module = module
        ctx.save_for_backward(logits, context)
        with torch.no_grad():
            return (module.at_nodes(logits, context) * module.halves).sum(dim=1) * logits

    @staticmethod
    def backward(ctx, upstream):
        logits, context = ctx.saved_tensors
        parameters = tuple(ctx.module.integrand.parameters())
        with torch.enable_grad():
            features = context.detach().requires_grad_(True)
            heights = ctx.module.at_nodes(logits.detach(), features)
            pull = (upstream * logits)[:, None] * ctx.module.halves
            d_features, *d_parameters = torch.autograd.grad(heights, (features, *parameters), pull)
        return None, None, d_features, *d_parameters


def bce(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, labels)
