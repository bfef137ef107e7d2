import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from monocal.core.dataset import Dataset
from monocal.core.errors import ArtefactError
from monocal.losses import CrossEntropy, Loss, SmoothCalibrationLoss
from monocal.neural.context import ContextEncoder
from monocal.neural.maps import umc, umc_parts
from monocal.neural.network import FieldMap, MonotoneMap
from monocal.training import TrainingDiverged, TrainingOptions, evaluate, train

KNOTS = [-2.0, -1.0, 0.0, 1.0]


def rows_of(n=3000, seed=0, weights=None):
    random = np.random.default_rng(seed)
    logits, features = random.normal(-1.0, 1.0, n), random.integers(0, 5, (n, 2)).astype(np.int32)
    truth = 0.6 * logits + 0.3 * features[:, 0] - 0.5
    labels = (random.random(n) < 1 / (1 + np.exp(-truth))).astype(np.float64)
    return Dataset(logits, labels, weights, features)


def network_of(seed=0, sparse=False):
    encoder = ContextEncoder([5, 5], 4, seed=seed, sparse=sparse)
    return FieldMap(MonotoneMap(umc_parts(8, KNOTS, (16,)), umc, context_width=8, seed=seed), encoder=encoder)


def weights_of(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def assert_same(one, other):
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_same_seed_same_result_and_global_generators_untouched():
    torch_before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    results = []
    for _ in range(2):
        network = network_of()
        train(network, rows_of(), held_out=rows_of(500, 1), options=TrainingOptions(2, 256, seed=3))
        results.append(weights_of(network))
    assert_same(*results)
    assert torch.equal(torch.random.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_thread_count_is_restored():
    before = torch.get_num_threads()
    train(network_of(), rows_of(200), options=TrainingOptions(1, 100, n_threads=1 if before > 1 else 2))
    assert torch.get_num_threads() == before


def test_network_ends_with_the_best_weights():
    network, held_out = network_of(), rows_of(800, 1)
    options = TrainingOptions(3, 64, learning_rate=0.05, schedule="constant", checks_per_epoch=4)
    history = train(network, rows_of(), held_out=held_out, options=options)
    assert len(history.held_out_losses) == 13
    z = evaluate(network, held_out)
    loss = np.mean(np.logaddexp(0, z) - held_out.labels * z)
    assert loss == pytest.approx(min(history.held_out_losses), rel=1e-6)


def test_untrained_start_is_a_candidate():
    rows = rows_of(300)
    misleading = Dataset(rows.z, 1.0 - rows.labels, ids=rows.ids)
    network = network_of()
    before = weights_of(network)
    history = train(network, misleading, held_out=rows_of(2000, 1), options=TrainingOptions(2, 50, 0.05))
    assert history.best_check == 0
    assert_same(before, weights_of(network))


def test_patience_stops_early():
    rows = rows_of(300)
    misleading = Dataset(rows.z, 1.0 - rows.labels, ids=rows.ids)
    options = TrainingOptions(10, 50, 0.05, patience=2)
    history = train(network_of(), misleading, held_out=rows_of(2000, 1), options=options)
    assert (history.n_epochs, history.n_steps) == (2, 12)


def test_weight_k_is_the_row_k_times_in_every_step():
    """With all rows in one batch the gradients, and hence the results, agree."""
    times = np.random.default_rng(5).integers(1, 4, 300).astype(np.float64)
    rows = rows_of(300, weights=times)
    repeated = Dataset(rows.z, rows.labels, ids=rows.ids).take(np.repeat(np.arange(300), times.astype(int)))
    networks = [network_of(), network_of()]
    for network, columns in zip(networks, (rows, repeated), strict=True):
        train(network, columns, options=TrainingOptions(10, 10_000, 0.01))
    np.testing.assert_allclose(evaluate(networks[0], rows), evaluate(networks[1], rows), atol=1e-5)


class Interrupting(Loss):
    """Cross-entropy that is interrupted at a given call."""

    def __init__(self, at):
        super().__init__()
        self.inner, self._left = SmoothCalibrationLoss(5), at

    def _loss(self, logits, labels, weights, field_ids):
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt
        return CrossEntropy()(logits, labels, weights) + self.inner(logits, labels, weights)


def interrupt(rows, options, held_out=None, loss=None):
    """Trains until the middle of the last epoch, as a kill would end it."""
    n_steps = -(-rows.n_rows // options.batch_rows) * options.n_epochs
    with pytest.raises(KeyboardInterrupt):
        train(network_of(), rows, held_out=held_out, loss=loss or Interrupting(n_steps - 1), options=options)
    assert (Path(options.checkpoint) / "checkpoint.json").is_file() == (options.n_epochs > 1)


@pytest.mark.parametrize("sparse", [False, True])
def test_resumed_training_ends_as_an_uninterrupted_one(tmp_path, sparse):
    options = TrainingOptions(3, 100, 0.02, checkpoint=str(tmp_path / "run"))
    whole, parts = network_of(sparse=sparse), network_of(sparse=sparse)
    expected = train(
        whole,
        rows_of(1000),
        held_out=rows_of(300, 1),
        loss=Interrupting(0),
        options=TrainingOptions(3, 100, 0.02),
    )
    with pytest.raises(KeyboardInterrupt):
        train(parts, rows_of(1000), held_out=rows_of(300, 1), loss=Interrupting(25), options=options)
    again = network_of(sparse=sparse)
    history = train(again, rows_of(1000), held_out=rows_of(300, 1), loss=Interrupting(0), options=options)
    assert history == expected
    assert_same(weights_of(whole), weights_of(again))


def test_checkpoint_of_another_training_is_refused(tmp_path):
    options = TrainingOptions(2, 100, checkpoint=str(tmp_path / "run"))
    interrupt(rows_of(500), options)
    with pytest.raises(ArtefactError, match="belongs to other rows, weights, options or layers"):
        train(network_of(), rows_of(501), options=options)


def changed(rows, column, at=137):
    """The same rows with one number in their middle changed."""
    values = np.array(getattr(rows, column))
    values[at] = 1 - values[at] if column != "z" else values[at] + 1e-9
    return replace(rows, **{column: values})


@pytest.mark.parametrize("column", ["z", "y", "ids", "w"])
def test_checkpoint_of_other_rows_is_refused_wherever_they_differ(tmp_path, column):
    rows = rows_of(500, weights=np.ones(500))
    options = TrainingOptions(2, 100, checkpoint=str(tmp_path / "run"))
    interrupt(rows, options)
    with pytest.raises(ArtefactError, match="belongs to other rows"):
        train(network_of(), changed(rows, column), loss=Interrupting(0), options=options)
    train(network_of(), rows, loss=Interrupting(0), options=options)


def test_checkpoint_with_other_held_out_rows_or_loss_or_start_is_refused(tmp_path):
    rows, held_out = rows_of(500), rows_of(300, 1)
    options = TrainingOptions(2, 100, checkpoint=str(tmp_path / "run"))
    interrupt(rows, options, held_out)
    other_start, other_loss = network_of(), Interrupting(0)
    with torch.no_grad():
        other_start.curve.beta += 0.01
    other_loss.inner = SmoothCalibrationLoss(6)
    for network, later, loss in (
        (network_of(), changed(held_out, "y"), Interrupting(0)),
        (network_of(), None, Interrupting(0)),
        (other_start, held_out, Interrupting(0)),
        (network_of(), held_out, other_loss),
    ):
        with pytest.raises(ArtefactError, match="belongs to other rows"):
            train(network, rows, held_out=later, loss=loss, options=options)


def test_finished_training_leaves_no_checkpoint(tmp_path):
    options = TrainingOptions(2, 100, checkpoint=str(tmp_path / "run"))
    interrupt(rows_of(500), options)
    train(network_of(), rows_of(500), loss=Interrupting(0), options=options)
    assert list(tmp_path.iterdir()) == []
    train(network_of(), rows_of(501), options=options)
    assert list(tmp_path.iterdir()) == []


def test_broken_column_is_named_with_its_rows():
    rows = rows_of(400)
    rows.z[[17, 230]] = np.nan
    with pytest.raises(TrainingDiverged, match=r"epoch 1, step 1: .* column 'logits' is nan at rows") as caught:
        train(network_of(), rows, options=TrainingOptions(1, 400))
    assert {17, 230} == {int(row) for row in re.findall(r"\d+", str(caught.value).split("at rows")[1])}


def test_broken_weights_are_named():
    network = network_of()
    with torch.no_grad():
        network.curve.trunk.last.bias[0] = torch.inf
    with pytest.raises(TrainingDiverged, match=r"weights curve.trunk.layers.1.bias are no longer finite. Hint: lower"):
        train(network, rows_of(100), options=TrainingOptions(1, 100))


def test_infinite_loss_of_finite_inputs_names_the_largest_value():
    class Infinite(Loss):
        def _loss(self, logits, labels, weights, field_ids):
            return logits.sum() * np.inf

    rows = rows_of(100)
    rows.z[42] = 30.0
    with pytest.raises(TrainingDiverged, match=r"largest value is 30 in column 'logits' at row 42"):
        train(network_of(), rows, loss=Infinite(), options=TrainingOptions(1, 100))


def mapped(folder, rows):
    columns = []
    for name in ("z", "y", "ids"):
        np.save(folder / f"{name}.npy", getattr(rows, name))
        columns.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return Dataset(*columns)


def test_memory_maps_train_as_arrays_do(tmp_path):
    in_memory, from_disk = network_of(), network_of()
    train(in_memory, rows_of(), held_out=rows_of(300, 1), options=TrainingOptions(1, 500))
    train(from_disk, mapped(tmp_path, rows_of()), held_out=rows_of(300, 1), options=TrainingOptions(1, 500))
    assert_same(weights_of(in_memory), weights_of(from_disk))


def test_memory_does_not_grow_with_rows(tmp_path):
    peaks = []
    for n in (600_000, 1_200_000):
        rows = mapped(tmp_path, rows_of(n))
        tracemalloc.start()
        train(network_of(), rows, options=TrainingOptions(1, 65_536))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_lazy_updates_touch_only_rows_of_the_batch():
    network = network_of(sparse=True)
    rows = rows_of(200)
    rows.ids[:, 0] = 1
    before = network.encoder.table.detach().clone()
    train(network, rows, options=TrainingOptions(1, 100, 0.05))
    moved = (network.encoder.table.detach() != before).any(dim=1)
    assert moved[:5].tolist() == [False, True, False, False, False]
    assert moved[5:].all()
