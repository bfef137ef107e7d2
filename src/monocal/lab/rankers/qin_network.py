"""The network of QIN: attention over the past events that the search kept, and one head per logit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.errors import InvalidInput
from monocal.lab.rankers.lazy_table import LazyTable
from monocal.lab.rankers.networks import RankerNetwork

_START_SCALE = 0.02
"""Larger than DeepFM's: attention compares products of embeddings, which 1e-4 would leave without a gradient."""

_ATTENTION_WIDTH = 32


@final
class QINNetwork(RankerNetwork):
    r"""Attends to past items twice, by id and by attributes, and lets each event's engagement weigh the two.

    .. math:: u = \sum_k g_k\,\alpha^{id}_k\,(h^{id}_k + \epsilon_k)
        + (1 - g_k)\,\alpha^{at}_k\,(h^{at}_k + \epsilon_k), \qquad
        g_k = \sigma(\mathrm{MLP}(\epsilon_k, h^{id}_k, h^{at}_k))

    with h the embeddings of event k, :math:`\epsilon_k` that of what the user did with it, and α the softmax over
    events of an MLP of h, ε and the cosine of event and target (one for each attribute). A cosine tells equal ids from
    others from the first step on. The interest u, its product with the target, and the fields' embeddings enter the
    shared layers; every logit has a vector over the last one and a linear part.

    A row is `fields | item ids of events | attribute ids of events | engagement codes`, all integers; code 0 says that
    there is no event.

    Arguments:
        field_sizes: Ids per field.
        item: Position of the item's field.
        attributes: Positions of its attributes' fields.
        n_events: Events per row.
        n_codes: Engagement codes, 0 included.
        n_dimensions: Length of an embedding.
        hidden: Widths of the shared layers.
        n_outputs: Logits per row.
        rows: The table's numbers; left out, `start` has to draw them.
    """

    def __init__(
        self,
        field_sizes: Sequence[int],
        item: int,
        attributes: Sequence[int],
        n_events: int,
        n_codes: int,
        n_dimensions: int,
        hidden: Sequence[int],
        n_outputs: int,
        rows: Tensor | None = None,
    ) -> None:
        if not hidden or min(hidden) < 1:
            raise InvalidInput.of("hidden", hidden, "at least one layer of width ≥ 1", "use (256, 128)")
        shape = (int(sum(field_sizes)), n_dimensions + n_outputs)
        super().__init__(LazyTable(torch.from_numpy(np.zeros(shape, np.float32)) if rows is None else rows))
        self.field_sizes, self.n_dimensions, self.n_outputs = tuple(field_sizes), n_dimensions, n_outputs
        self.item, self.attributes, self.n_events = item, tuple(attributes), n_events
        d = n_dimensions
        self.engagement = nn.Parameter(torch.empty(n_codes, d))
        self.by_id = _mlp(1 + 2 * d, _ATTENTION_WIDTH, 1)
        self.by_attribute = _mlp(len(attributes) + 2 * d, _ATTENTION_WIDTH, 1)
        self.gate = _mlp(3 * d, _ATTENTION_WIDTH, 1)
        self.shared = _mlp((len(field_sizes) + 3) * d, *hidden)
        self.heads = nn.Parameter(torch.empty(n_outputs, hidden[-1]))
        sizes = torch.tensor(self.field_sizes)
        of_events = torch.tensor([item, *attributes]).repeat_interleave(n_events)
        self._columns = torch.cat([torch.arange(len(field_sizes)), of_events])
        self._sizes, self._offsets = sizes[self._columns], (sizes.cumsum(0) - sizes)[self._columns]

    def start(self, seed: int) -> QINNetwork:
        """Draws the starting point."""
        rows = self.table.rows.detach().numpy()
        rows[...] = _START_SCALE * np.random.default_rng([seed, 0]).standard_normal(rows.shape, np.float32)
        rows[:, self.n_dimensions :] *= 0.0
        generator = torch.Generator().manual_seed(seed)
        for weight in self.dense_parameters():
            if weight.ndim == 1:
                nn.init.zeros_(weight)
            else:
                nn.init.xavier_normal_(weight, gain=math.sqrt(2.0), generator=generator)
        nn.init.normal_(self.engagement, 0.0, _START_SCALE, generator=generator)
        return self

    def places(self, features: Tensor) -> Tensor:
        ids = features[:, : len(self._columns)].long()
        return torch.where((ids >= 0) & (ids < self._sizes), ids, 0) + self._offsets

    def prepare(self, places: Tensor, features: Tensor) -> tuple[Tensor | None, Tensor | None]:  # noqa: ARG002
        return features[:, len(self._columns) :].long(), None

    def forward(self, vectors: Tensor, shared_rows: Tensor | None = None, shared: Tensor | None = None) -> Tensor:  # noqa: ARG002
        assert shared_rows is not None
        n_fields, k, d = len(self.field_sizes), self.n_events, self.n_dimensions
        embeddings = vectors[:, :, :d]
        fields, past_id = embeddings[:, :n_fields], embeddings[:, n_fields : n_fields + k]
        of_attributes = embeddings[:, n_fields + k :].reshape(len(vectors), len(self.attributes), k, d)
        targets = fields[:, list(self.attributes)]
        past_at, target_id, target_at = of_attributes.sum(1), fields[:, self.item], targets.sum(1)
        likeness_id = functional.cosine_similarity(past_id, target_id.unsqueeze(1), dim=2).unsqueeze(2)
        likeness_at = functional.cosine_similarity(of_attributes, targets.unsqueeze(2), dim=3).transpose(1, 2)
        done = self.engagement[shared_rows]
        is_event = (shared_rows > 0).unsqueeze(2)
        gate = torch.sigmoid(self.gate(torch.cat([done, past_id, past_at], dim=2)))
        interest = gate * _attend(self.by_id, likeness_id, past_id, done, is_event)
        interest = (interest + (1.0 - gate) * _attend(self.by_attribute, likeness_at, past_at, done, is_event)).sum(1)
        inputs = [fields.flatten(1), interest, interest * target_id, interest * target_at]
        hidden = functional.relu(self.shared(torch.cat(inputs, dim=1)))
        return functional.linear(hidden, self.heads) + vectors[:, :n_fields, d:].sum(1)

    def score(self, features: Tensor) -> Tensor:
        places = self.places(features)
        logits: Tensor = self(self.table(places), *self.prepare(places, features))
        return logits

    def embeddings(self) -> Tensor:
        """Returns the table without the linear weights."""
        return self.table.rows.detach()[:, : self.n_dimensions]


def _attend(mlp: nn.Module, likeness: Tensor, past: Tensor, done: Tensor, is_event: Tensor) -> Tensor:
    """Returns each event's share of the attention times its vector, 0 for places without an event."""
    scores = mlp(torch.cat([likeness, past, done], dim=2))
    # a row without any event would be a softmax over nothing
    shares = torch.softmax(scores.masked_fill(~is_event, -1e9), dim=1) * is_event
    return shares * (past + done)


def _mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for left, right in itertools.pairwise(widths):
        # torch's own starting point would draw from the global random generator
        layers += [nn.utils.skip_init(nn.Linear, left, right), nn.ReLU()]  # type: ignore[no-untyped-call]
    return nn.Sequential(*layers[:-1])
