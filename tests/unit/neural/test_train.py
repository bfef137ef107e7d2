"""Training: the same weights for the same rows and seed, the best ones kept, and errors that name the rows."""

import re
import tracemalloc

import numpy as np
import pytest
import torch

from monocal.core.dataset import Dataset
from monocal.neural.context import ContextEncoder, generator_of
from monocal.neural.losses import CrossEntropy, Loss
from monocal.neural.maps import umc, umc_parts
from monocal.neural.network import MonotoneMap
from monocal.neural.train import Adam, TrainingDiverged, TrainingOptions, evaluate, train

KNOTS = [-2.0, -1.0, 0.0, 1.0]


def rows_of(n=3000, seed=0, weights=None):
    random = np.random.default_rng(seed)
    logits, features = random.normal(-1.0, 1.0, n), random.integers(0, 5, (n, 2)).astype(np.int32)
    truth = 0.6 * logits + 0.3 * features[:, 0] - 0.5
    labels = (random.random(n) < 1 / (1 + np.exp(-truth))).astype(np.float64)
    return Dataset(logits, labels, weights, features)


def network_of(seed=0, sparse=False):
    network = MonotoneMap(umc_parts(8, KNOTS, (16,)), umc, context_width=8, seed=seed)
    table = 0.05 * torch.randn(10, 4, generator=generator_of(seed))
    network.encoder = ContextEncoder([5, 5], np.arange(10), table)
    network.encoder.sparse = sparse
    return network


def weights_of(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def trained(network, rows, options, held_out=None):
    return train(network, rows, CrossEntropy(), options, held_out)


def assert_same(one, other):
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_network_ends_with_the_best_weights():
    network, held_out = network_of(), rows_of(800, 1)
    history = trained(network, rows_of(), TrainingOptions(6, 64, 0.05, "constant"), held_out)
    assert len(history["held_out_losses"]) == 7
    assert history["n_steps"] == 6 * 47
    z = evaluate(network, held_out)
    loss = np.mean(np.logaddexp(0, z) - held_out.labels * z)
    assert loss == pytest.approx(min(history["held_out_losses"]), rel=1e-6)


def test_untrained_start_is_a_candidate():
    rows = rows_of(300)
    misleading = Dataset(rows.z, 1.0 - rows.labels, ids=rows.ids)
    network = network_of()
    before = weights_of(network)
    trained(network, misleading, TrainingOptions(2, 50, 0.05), rows_of(2000, 1))
    assert_same(before, weights_of(network))


def test_weight_k_is_the_row_k_times_in_every_step():
    """With all rows in one batch the gradients, and hence the results, agree."""
    times = np.random.default_rng(5).integers(1, 4, 300).astype(np.float64)
    rows = rows_of(300, weights=times)
    repeated = Dataset(rows.z, rows.labels, ids=rows.ids).take(np.repeat(np.arange(300), times.astype(int)))
    networks = [network_of(), network_of()]
    for network, columns in zip(networks, (rows, repeated), strict=True):
        trained(network, columns, TrainingOptions(10, 10_000, 0.01))
    np.testing.assert_allclose(evaluate(networks[0], rows), evaluate(networks[1], rows), atol=1e-5)


def test_broken_column_is_named_with_its_rows():
    rows = rows_of(400)
    rows.z[[17, 230]] = np.nan
    with pytest.raises(TrainingDiverged, match=r"epoch 1, step 1: .* column 'logits' is nan at rows") as caught:
        trained(network_of(), rows, TrainingOptions(1, 400))
    assert {17, 230} == {int(row) for row in re.findall(r"\d+", str(caught.value).split("at rows")[1])}


def test_broken_weights_are_named():
    network = network_of()
    with torch.no_grad():
        network.trunk.last.bias[0] = torch.inf
    with pytest.raises(TrainingDiverged, match=r"weights trunk.layers.1.bias are no longer finite. Hint: lower"):
        trained(network, rows_of(100), TrainingOptions(1, 100))


def test_infinite_loss_of_finite_inputs_names_the_largest_value():
    class Infinite(Loss):
        def forward(self, logits, labels, weights=None, field_ids=None):
            return logits.sum() * np.inf

    rows = rows_of(100)
    rows.z[42] = 30.0
    with pytest.raises(TrainingDiverged, match=r"largest value is 30 in column 'logits' at row 42"):
        train(network_of(), rows, Infinite(), TrainingOptions(1, 100))


def mapped(folder, rows):
    columns = []
    for name in ("z", "y", "ids"):
        np.save(folder / f"{name}.npy", getattr(rows, name))
        columns.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return Dataset(*columns[:2], ids=columns[2])


def test_memory_maps_train_as_arrays_do(tmp_path):
    in_memory, from_disk = network_of(), network_of()
    trained(in_memory, rows_of(), TrainingOptions(1, 500), rows_of(300, 1))
    trained(from_disk, mapped(tmp_path, rows_of()), TrainingOptions(1, 500), rows_of(300, 1))
    assert_same(weights_of(in_memory), weights_of(from_disk))


def test_memory_does_not_grow_with_rows(tmp_path):
    peaks = []
    for n in (600_000, 1_200_000):
        rows = mapped(tmp_path, rows_of(n))
        tracemalloc.start()
        trained(network_of(), rows, TrainingOptions(1, 65_536))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_lazy_updates_touch_only_rows_of_the_batch():
    network = network_of(sparse=True)
    rows = rows_of(200)
    rows.ids[:, 0] = 1
    before = network.encoder.table.detach().clone()
    trained(network, rows, TrainingOptions(1, 100, 0.05))
    moved = (network.encoder.table.detach() != before).any(dim=1)
    assert moved[:5].tolist() == [False, True, False, False, False]
    assert moved[5:].all()


def test_adam_takes_the_steps_of_torchs_fused_one_to_the_bit():
    """Thirty steps on a small network; one weight has no gradient in the first ten."""

    def moved(make):
        generator = torch.Generator().manual_seed(0)
        shapes = ((5, 7), (7,), (7, 1), (3,))
        weights = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
        adam = make(weights)
        for step in range(30):
            for weight in weights:
                weight.grad = None
            rows = torch.randn(16, 5, generator=generator)
            loss = (torch.relu(rows @ weights[0] + weights[1]) @ weights[2]).square().mean()
            (loss if step < 10 else loss + (weights[3] + 1.0).square().sum()).backward()
            adam.param_groups[0]["lr"] = 0.01 / (step + 1)
            adam.step()
        return weights

    expected = moved(lambda weights: torch.optim.Adam(weights, fused=True))
    assert all(torch.equal(weight, other) for weight, other in zip(moved(Adam), expected, strict=True))
