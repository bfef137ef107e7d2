"""One step of the hand-written trainer is Adam on the stated loss, on the touched rows and on no others."""

import numpy as np
import pytest
import torch

from monocal.kernels.embedding import embedding_kernels
from monocal.lab.rankers.fm.dense import DenseShape
from monocal.lab.rankers.fm.field_plan import FieldPlan
from monocal.lab.rankers.fm.model import CHUNK_ROWS, FmModel
from monocal.lab.rankers.fm.threads import workers
from monocal.lab.rankers.fm.trainer import FmState, FmTrainer, observed

SIZES = (5, 3, 7)
DIMENSIONS = 4


def make_trainer(n_tasks=1, l2=0.0, batch_rows=64, sizes=SIZES, seed=3):
    shape = DenseShape(len(sizes) * DIMENSIONS, (6, 5), n_tasks)
    state = FmState.start(sizes, DIMENSIONS, shape, seed)
    # The true start is nearly zero, where mistakes in the second-order term would hide.
    width = DIMENSIONS + n_tasks
    state.store[:, :width] = np.random.default_rng(seed).normal(0, 0.5, (sum(sizes), width)).astype(np.float32)
    return FmTrainer(sizes, DIMENSIONS, shape, state, 0.05, l2, batch_rows)


def draw_batch(n_rows, n_tasks=1, seed=0, sizes=SIZES):
    rng = np.random.default_rng(seed)
    features = np.stack([rng.integers(0, size, n_rows) for size in sizes], axis=1).astype(np.int32)
    return features, rng.integers(0, 2, (n_rows, n_tasks)).astype(np.float32), np.ones((n_rows, n_tasks), np.float32)


class Reference:
    """The same model with torch's autograd and torch's Adam."""

    def __init__(self, trainer, l2):
        self.shape, self.l2 = trainer.shape, l2
        width = DIMENSIONS + self.shape.n_tasks
        self.table = torch.from_numpy(trainer.state.store[:, :width].copy()).requires_grad_()
        self.dense = trainer.state.dense.clone().requires_grad_()
        self.optimiser = torch.optim.Adam([self.table, self.dense], lr=trainer.learning_rate)
        self.offsets = torch.from_numpy(np.cumsum(trainer.field_sizes) - np.array(trainer.field_sizes))

    def logits(self, features):
        views = self.shape.split(self.dense)
        rows = self.table[torch.from_numpy(features).long() + self.offsets]
        vectors, linear = rows[..., :DIMENSIONS], rows[..., DIMENSIONS:].sum(1)
        pairs = 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1)
        hidden = vectors.flatten(1)
        for weight, bias in zip(views.weights, views.biases, strict=True):
            hidden = torch.relu(hidden @ weight.t() + bias)
        deep = (hidden.view(len(features), self.shape.n_tasks, -1) * views.heads).sum(2)
        scale = 1.0 if views.scales is None else views.scales
        return linear + deep + pairs[:, None] * scale

    def step(self, features, labels, weights):
        views = self.shape.split(self.dense)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(
            self.logits(features), torch.from_numpy(labels), reduction="none"
        )
        counts = torch.from_numpy(weights)
        loss = ((losses * counts).sum(0) / counts.sum(0)).sum()
        penalty = sum((weight**2).sum() for weight in [*views.weights, views.heads, self.table])
        self.optimiser.zero_grad()
        (loss + self.l2 * penalty).backward()
        self.optimiser.step()
        return float(loss.detach())


@pytest.mark.parametrize("most_folded", [0, 9, 100])
@pytest.mark.parametrize(("n_tasks", "l2"), [(1, 0.0), (1, 1e-2), (3, 1e-2)])
def test_when_every_row_is_touched_the_step_is_torchs_adam(n_tasks, l2, most_folded, monkeypatch):
    monkeypatch.setattr("monocal.lab.rankers.fm.trainer.FOLDED_VALUES", most_folded)
    trainer = make_trainer(n_tasks, l2)
    assert len(trainer._plan.small) == {0: 0, 9: 2, 100: 3}[most_folded]
    reference = Reference(trainer, l2)
    with workers(2, trainer.workspace) as run:
        for seed in range(5):
            batch = draw_batch(64, n_tasks, seed)
            assert all(np.unique(batch[0][:, f]).size == size for f, size in enumerate(SIZES))
            assert np.isclose(trainer.step(*batch, run), reference.step(*batch), rtol=1e-4)
    width = DIMENSIONS + n_tasks
    assert np.allclose(trainer.state.store[:, :width], reference.table.detach().numpy(), atol=2e-4)
    assert np.allclose(trainer.state.dense, reference.dense.detach(), atol=2e-4)


@pytest.mark.parametrize("sizes", [SIZES, (5, 3000, 7), (3000, 2500)])
def test_the_model_scores_like_the_reference(sizes):
    trainer = make_trainer(3, sizes=sizes)
    features = draw_batch(50, sizes=sizes)[0]
    expected = Reference(trainer, 0.0).logits(features).detach().numpy()
    assert np.allclose(trainer.model().score(features, 2), expected, atol=1e-5)


def test_a_rows_score_does_not_depend_on_its_neighbours():
    model = make_trainer(sizes=(5, 3000, 7)).model()
    features = draw_batch(2 * CHUNK_ROWS + 9, sizes=(5, 3000, 7))[0]
    together = model.score(features, 2)
    assert np.allclose(model.score(features[::-1], 1)[::-1], together, atol=1e-6)
    assert np.allclose(model.score(features[:1], 1), together[:1], atol=1e-6)


def test_rows_that_a_batch_does_not_touch_keep_their_bits():
    trainer = make_trainer(l2=1e-2)
    features, labels, weights = draw_batch(40)
    features[:, 0] = np.where(features[:, 0] < 2, features[:, 0], 1)
    touched = np.unique(features.astype(np.int64) + np.cumsum(SIZES) - np.array(SIZES))
    before = trainer.state.store.copy()
    with workers(1, trainer.workspace) as run:
        trainer.step(features, labels, weights, run)
    changed = np.flatnonzero((trainer.state.store != before).any(axis=1))
    assert np.array_equal(changed, touched)
    assert touched.size < sum(SIZES)


def test_the_result_does_not_depend_on_the_number_of_threads():
    states = []
    for n_threads in (1, 3):
        trainer = make_trainer(batch_rows=3 * CHUNK_ROWS + 17)
        with workers(n_threads, trainer.workspace) as run:
            for seed in range(3):
                trainer.step(*draw_batch(3 * CHUNK_ROWS + 17, seed=seed), run)
        states.append(trainer.state)
    assert np.array_equal(states[0].store, states[1].store)
    assert torch.equal(states[0].dense, states[1].dense)


def test_weight_two_is_the_row_twice():
    features, labels, weights = draw_batch(30)
    weights[:10] = 2.0
    repeated = np.concatenate([np.arange(30), np.arange(10)])
    results = []
    for batch in [(features, labels, weights), (features[repeated], labels[repeated], weights[repeated] * 0 + 1)]:
        trainer = make_trainer()
        with workers(1, trainer.workspace) as run:
            trainer.step(*batch, run)
        results.append(trainer.state.store.copy())
    assert np.allclose(results[0], results[1], atol=2e-5)


def test_a_task_that_was_not_observed_teaches_nothing():
    features, labels, weights = draw_batch(30, n_tasks=2)
    weights[:, 1] = 0.0
    trainer, other = make_trainer(2), make_trainer(2)
    changed = labels.copy()
    changed[:, 1] = 1 - changed[:, 1]
    with workers(1, trainer.workspace) as run:
        first = trainer.step(features, labels, weights, run)
        second = other.step(features, changed, weights, run)
    assert np.isfinite(first)
    assert first == second
    assert np.array_equal(trainer.state.store, other.state.store)


def test_torch_gets_its_threads_back():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), workers(1, lambda: None) as run:
        assert torch.get_num_threads() == 1

        def fail(item, space):
            raise RuntimeError("stop")

        run(fail, [1])
    assert torch.get_num_threads() == before


def test_second_order_term_of_the_oracle():
    store = np.array([[0.1, 0.2, 0], [0.3, -0.1, 0], [-0.2, 0.4, 0]], np.float32)
    plan = FieldPlan.of((1, 1, 1), 2, most_values=0)
    rows, inputs, sums = np.empty((1, 3), np.int32), np.empty((1, 6), np.float32), np.empty((1, 2), np.float32)
    pairs, linear = np.empty(1, np.float32), np.empty((1, 1), np.float32)
    ids = np.zeros((1, 3), np.int32)
    embedding_kernels(2).gather(ids, plan.sizes, plan.offsets, plan.columns, store, rows, inputs, sums, pairs, linear)
    assert np.isclose(pairs[0], -0.03, atol=1e-7)


@pytest.mark.parametrize(("hidden", "expected"), [((512, 256, 128), 336_896), ((512, 256, 128, 64), 345_088)])
def test_parameter_counts_of_the_oracle(hidden, expected):
    assert DenseShape(21 * 16, hidden).n_parameters == expected


def test_ids_that_a_field_does_not_have_count_as_unseen():
    trainer = make_trainer()
    model = trainer.model()
    known = np.array([[0, 2, 0], [1, 0, 6]], np.int32)
    unknown = np.array([[99, 2, -5], [1, 3, 6]], np.int32)
    assert np.array_equal(model.score(known, 1), model.score(unknown, 1))


def test_embeddings_come_back_field_by_field():
    model = FmModel(np.arange(15 * 5, dtype=np.float32).reshape(15, 5), np.zeros(1, np.float32), SIZES, (6, 5))
    tables = model.embeddings()
    assert [table.shape for table in tables] == [(5, 4), (3, 4), (7, 4)]
    assert np.array_equal(np.concatenate(tables), model.values[:, :4])


def test_missing_labels_are_split_off():
    labels, weights = observed(np.array([1, 0, -1], np.int8))
    assert labels.tolist() == [1.0, 0.0, 0.0]
    assert weights.tolist() == [1.0, 1.0, 0.0]
