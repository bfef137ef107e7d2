"""One training step of DeepFM is Adam on the stated loss, on the touched rows and on no others."""

import numpy as np
import pytest
import torch

from monocal.lab.rankers.lazy_table import LazyAdam
from monocal.lab.rankers.networks import DeepFMNetwork
from monocal.lab.rankers.objective import CHUNK_ROWS, RankerObjective, workers
from monocal.lab.ranking_losses import LogLoss
from monocal.neural.train import Adam

SIZES = (5, 3, 7)
DIMENSIONS = 4
RATE = 0.05


def make_network(n_tasks=1, sizes=SIZES, seed=3):
    network = DeepFMNetwork(sizes, DIMENSIONS, (6, 5), n_tasks).start(seed)
    # The true start is nearly zero, where mistakes in the second-order term would hide.
    numbers = np.random.default_rng(seed).normal(0, 0.5, network.table.rows.shape)
    with torch.no_grad():
        network.table.rows.copy_(torch.from_numpy(numbers))
    return network


class Trainer:
    """The loop's step without the loop."""

    def __init__(self, network, l2=0.0, n_threads=1, loss=None):
        self.network, self.l2, self.n_threads, self.loss = network, l2, n_threads, loss or LogLoss()
        self.dense, self.lazy = Adam(network.dense_parameters()), LazyAdam(network.table)
        self.dense.param_groups[0]["lr"] = RATE

    def step(self, features, labels, weights=None, groups=None):
        batch = {"features": features} | {f"label:{place}": labels[:, place] for place in range(labels.shape[1])}
        batch |= {} if weights is None else {"weights": weights}
        batch |= {} if groups is None else {"groups": groups}
        with workers(self.n_threads) as pool:
            tasks = [str(place) for place in range(labels.shape[1])]
            objective = RankerObjective(self.network, self.loss, None, tasks, self.l2, pool, "")
            loss = objective.gradients(batch)
        self.dense.step()
        self.lazy.step(RATE)
        return loss


def draw_batch(n_rows, n_tasks=1, seed=0, sizes=SIZES):
    rng = np.random.default_rng(seed)
    features = np.stack([rng.integers(0, size, n_rows) for size in sizes], axis=1).astype(np.int32)
    return features, rng.integers(0, 2, (n_rows, n_tasks)).astype(np.int8)


class Reference:
    """The same model written once more, with torch's Adam on everything."""

    def __init__(self, network, l2):
        self.n_tasks, self.l2 = network.n_tasks, l2
        copies = [weight.detach().clone().requires_grad_() for weight in network.dense_parameters()]
        self.table = network.table.rows.detach().clone().requires_grad_()
        self.layers, self.heads = [tuple(copies[:2]), tuple(copies[2:4])], copies[4]
        self.scales = copies[5] if self.n_tasks > 1 else torch.ones(1)
        self.dense = copies
        self.optimiser = torch.optim.Adam([self.table, *copies], lr=RATE)
        self.offsets = torch.from_numpy(np.cumsum(network.field_sizes) - np.array(network.field_sizes))

    def logits(self, features):
        rows = self.table[torch.from_numpy(features).long() + self.offsets]
        vectors, linear = rows[..., :DIMENSIONS], rows[..., DIMENSIONS:].sum(1)
        n_fields = vectors.shape[1]
        pairs = sum((vectors[:, i] * vectors[:, j]).sum(1) for i in range(n_fields) for j in range(i + 1, n_fields))
        hidden = vectors.flatten(1)
        for weight, bias in self.layers:
            hidden = torch.relu(hidden @ weight.t() + bias)
        deep = (hidden.view(len(features), self.n_tasks, -1) * self.heads).sum(2)
        return linear + deep + pairs[:, None] * self.scales

    def step(self, features, labels):
        losses = torch.nn.functional.binary_cross_entropy_with_logits(
            self.logits(features), torch.from_numpy(labels).float(), reduction="none"
        )
        loss = losses.mean(0).sum()
        penalty = sum((weight**2).sum() for weight in [*(weight for weight, _ in self.layers), self.heads, self.table])
        self.optimiser.zero_grad()
        (loss + self.l2 * penalty).backward()
        self.optimiser.step()
        return float(loss.detach())


@pytest.mark.parametrize("n_folded", [0, 9, 100])
@pytest.mark.parametrize(("n_tasks", "l2"), [(1, 0.0), (1, 1e-2), (3, 1e-2)])
def test_when_every_row_is_touched_the_step_is_torchs_adam(n_tasks, l2, n_folded, monkeypatch):
    monkeypatch.setattr("monocal.lab.rankers.networks.FOLDED_VALUES", n_folded)
    network = make_network(n_tasks)
    assert len(network._folded) == {0: 0, 9: 2, 100: 3}[n_folded]
    trainer, reference = Trainer(network, l2, n_threads=2), Reference(network, l2)
    for seed in range(5):
        batch = draw_batch(64, n_tasks, seed)
        assert all(np.unique(batch[0][:, f]).size == size for f, size in enumerate(SIZES))
        assert np.isclose(trainer.step(*batch), reference.step(*batch), rtol=1e-4)
    assert torch.allclose(network.table.rows, reference.table, atol=2e-4)
    for found, expected in zip(network.dense_parameters(), reference.dense, strict=True):
        assert torch.allclose(found, expected, atol=2e-4)


def test_rows_that_a_batch_does_not_touch_keep_their_bits():
    network = make_network()
    trainer = Trainer(network, l2=1e-2)
    features, labels = draw_batch(40)
    features[:, 0] = np.where(features[:, 0] < 2, features[:, 0], 1)
    touched = np.unique(features.astype(np.int64) + np.cumsum(SIZES) - np.array(SIZES))
    before = network.table.rows.detach().clone()
    trainer.step(features, labels)
    changed = np.flatnonzero((network.table.rows.detach() != before).any(dim=1).numpy())
    assert np.array_equal(changed, touched)
    assert touched.size < sum(SIZES)


def test_the_result_does_not_depend_on_the_number_of_threads():
    networks = []
    for n_threads in (1, 3):
        network = make_network()
        trainer = Trainer(network, n_threads=n_threads)
        for seed in range(3):
            trainer.step(*draw_batch(3 * CHUNK_ROWS + 17, seed=seed))
        networks.append(network)
    first, second = (network.state_dict() for network in networks)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_weight_two_is_the_row_twice():
    features, labels = draw_batch(30)
    weights = np.ones(30, np.float32)
    weights[:10] = 2.0
    repeated = np.concatenate([np.arange(30), np.arange(10)])
    results = []
    for batch in [(features, labels, weights), (features[repeated], labels[repeated])]:
        network = make_network()
        Trainer(network).step(*batch)
        results.append(network.table.rows.detach().numpy())
    assert np.allclose(results[0], results[1], atol=2e-5)
    plain = make_network()
    Trainer(plain).step(features, labels)
    assert not np.allclose(plain.table.rows.detach().numpy(), results[0], atol=2e-5)


def test_a_task_that_was_not_observed_teaches_nothing():
    features, labels = draw_batch(30, n_tasks=2)
    labels[:, 1] = -1
    network, single = make_network(2), make_network(2)
    loss = Trainer(network).step(features, labels)
    assert loss == Trainer(single).step(features, labels[:, :1])
    assert torch.equal(network.table.rows, single.table.rows)
