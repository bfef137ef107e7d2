"""One network for all tasks of a model: what is shared, what is not, and what each task is still promised."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import monocal
from monocal.calibrators.neural.umc.calibrator import UmcCalibrator
from monocal.calibrators.neural.umc.shared_arrays import shared_scorers
from monocal.calibrators.neural.umc.shared_fit import fit_together
from monocal.core.errors import InvalidInput
from monocal.core.spaces import sigmoid
from monocal.models.onnx.export import export_onnx
from monocal.serving import Engine, Request
from monocal.training import joint_objective
from monocal.training.joint_objective import train_jointly

TASKS = {"click": ("click", "pctr"), "view": ("view", "pview"), "buy": ("buy", "pbuy")}
FIELDS = ["device", "site"]
N_ROWS = 6_000


def three_columns(n: int = 4_000, seed: int = 0):
    """Logits and labels of three tasks; how steep a score should be depends on the first field."""
    random = np.random.default_rng(seed)
    features = random.integers(1, 6, (n, 2)).astype(np.int32)
    logits = random.normal(-1.0, 1.0, (3, n))
    slopes = np.where(features[:, 0] > 2, 1.6, 0.6)
    labels = (random.random((3, n)) < sigmoid(slopes * logits)).astype(np.int8)
    return logits, labels, features


@pytest.fixture(scope="module")
def table() -> pa.Table:
    logits, labels, features = three_columns(N_ROWS + 2_000)
    columns = {name: features[:, place] for place, name in enumerate(FIELDS)}
    for place, (label, score) in enumerate(TASKS.values()):
        columns |= {label: labels[place], score: sigmoid(logits[place])}
    return pa.table(columns)


@pytest.fixture(scope="module")
def model(table):
    older = table.slice(0, N_ROWS)
    unknown = pa.array([None if row % 3 == 0 else value for row, value in enumerate(older["buy"].to_pylist())])
    older = older.set_column(older.column_names.index("buy"), "buy", unknown)
    asked = {"carry": "none", "held_out_share": 0.0, "batch_rows": 256, "size": "small"}
    return monocal.fit(older, tasks=TASKS, fields=FIELDS, shared_network=True, **asked)


def same_arrays(one, other) -> set[str]:
    return {name for name, array in one.weights_.items() if np.array_equal(array, other.weights_[name])}


def test_tasks_have_the_same_vectors_and_hidden_layers_and_heads_of_their_own(model):
    first, *others = (task.calibrator for task in model.tasks)
    for other in others:
        same = same_arrays(first, other)
        assert {"encoder.table", "encoder.slots", "curve.trunk.layers.0.weight", "curve.trunk.layers.0.bias"} <= same
        assert not {"curve.trunk.layers.1.weight", "curve.curve.knots", "affine", "wide.shifts"} & same


def test_training_moved_every_head(model):
    for task in model.tasks:
        assert np.abs(task.calibrator.weights_["curve.trunk.layers.1.weight"]).max() > 1e-3


def test_each_task_is_better_than_its_score_on_later_rows(model, table):
    newer = table.slice(N_ROWS)
    p = model.predict(newer)
    for name, (label, score) in TASKS.items():
        y, raw = newer[label].to_numpy(), newer[score].to_numpy()
        assert np.mean((p[name] - y) ** 2) < np.mean((raw - y) ** 2)


def test_each_task_rises_with_its_score_for_fixed_fields(model):
    ids = np.repeat(np.array([[0, 0], [3, 2], [1, 5]], dtype=np.int32), 4_001, axis=0)
    sweep = sigmoid(np.tile(np.linspace(-12.0, 12.0, 4_001), 3))
    answers = model.predict_ids(ids, dict.fromkeys(TASKS, sweep))
    for p in answers.values():
        assert (np.diff(p.reshape(3, -1), axis=1) >= 0.0).all()
        assert np.isfinite(p).all()


def test_a_saved_model_answers_alike(model, table, tmp_path):
    model.save(tmp_path / "model")
    loaded = monocal.load(tmp_path / "model")
    newer = table.slice(N_ROWS)
    for name, p in model.predict(newer).items():
        assert np.array_equal(p, loaded.predict(newer)[name])
    assert loaded.fingerprint == model.fingerprint


def fitted(logits, labels, features, **arguments):
    made = [UmcCalibrator(size="small", n_epochs=1, batch_rows=512, **arguments) for _ in labels]
    fit_together(made, list(logits), list(labels), features=features, scores_are="logit")
    return made


def test_scores_of_unobserved_rows_do_not_matter():
    logits, labels, features = three_columns()
    labels[2, ::2] = -1
    changed = logits.copy()
    changed[2, ::2] = 7.0
    for network, other in zip(fitted(logits, labels, features), fitted(changed, labels, features), strict=True):
        assert same_arrays(network, other) == set(network.weights_)


def test_a_network_is_judged_on_rows_of_which_it_has_seen_no_label_of_any_task(monkeypatch):
    seen = []

    def recorded(network, rows, *others):
        seen.append(len(rows.labels))
        return train_jointly(network, rows, *others)

    monkeypatch.setattr(joint_objective, "train_jointly", recorded)
    logits, labels, features = three_columns()
    labels[0, 2_000:] = -1  # so that the first task's cuts lie in the first half
    fitted(logits, labels, features)
    assert 1_000 <= seen[0] < 1_600
    assert seen[1] == 4_000


def test_a_task_that_later_rows_give_no_share_has_no_part_in_the_network():
    logits, labels, features = three_columns()
    random = np.random.default_rng(1)
    labels[1] = random.random(labels.shape[1]) < sigmoid(logits[1])  # nothing for a network to find
    believed = [network.carry_["network"][0] for network in fitted(logits, labels, features)]
    assert believed[0] > 0.3
    assert believed[2] > 0.3
    assert believed[1] < min(believed[0], believed[2])


def requests_of(model, n_rows: int):
    random = np.random.default_rng(n_rows)
    ids = random.integers(0, 6, (n_rows, 2)).astype(np.int32)
    return ids, {task: random.random(n_rows) for task in model.task_names}


@pytest.mark.parametrize("n_rows", [1, 3, 33, 100])
def test_the_engine_passes_the_network_once_and_answers_as_predict_does(model, n_rows):
    engine = Engine(model)
    assert [scorer.tasks for scorer in engine._scorers._shared] == [model.task_names]
    assert not engine._scorers._alone
    ids, scores = requests_of(model, n_rows)
    for same in (ids, np.column_stack([np.full(n_rows, 3, np.int32), ids[:, 1]])):
        for asked in (model.task_names, model.task_names[::-1], model.task_names[1:2]):
            wanted = {task: scores[task] for task in asked}
            found = engine.calibrate(Request(wanted, ids=same)).probabilities
            expected = model.predict_ids(same, wanted)
            assert list(found) == list(asked)
            assert all(np.array_equal(found[task], expected[task]) for task in asked)


def test_the_engine_follows_shares_levels_and_tasks_without_a_network(model):
    changed = []
    for task_model, share in zip(model.tasks, (0.4, 0.0, 0.7), strict=True):
        moved = clone(task_model.calibrator).restore(task_model.calibrator.state())
        moved.weights_ = {**moved.weights_, "mix": np.array([share])}
        moved.recent_shift_ = 0.25 + share
        changed.append(replace(task_model, calibrator=moved))
    mixed = replace(model, tasks=tuple(changed), canary={})
    engine = Engine(mixed)
    assert [scorer.tasks for scorer in engine._scorers._shared] == [("click", "buy")]
    ids, scores = requests_of(mixed, 50)
    found = engine.calibrate(Request(scores, ids=ids)).probabilities
    expected = mixed.predict_ids(ids, scores)
    assert all(np.array_equal(found[task], expected[task]) for task in TASKS)


def test_a_refreshed_model_still_passes_its_network_once(model, table):
    newer = model.refresh(table.slice(N_ROWS))
    engine = Engine(newer)
    assert [scorer.tasks for scorer in engine._scorers._shared] == [model.task_names]
    ids, scores = requests_of(newer, 50)
    found = engine.calibrate(Request(scores, ids=ids)).probabilities
    assert all(np.array_equal(p, found[task]) for task, p in newer.predict_ids(ids, scores).items())


def test_a_challenger_of_a_shared_network_learns_its_head_alone(model, table):
    for task in model.refresh(table.slice(N_ROWS)).tasks:
        in_use, challenger = task.calibrator.weights_, task.calibrator.challenger_
        assert np.array_equal(challenger["curve.trunk.layers.0.weight"], in_use["curve.trunk.layers.0.weight"])
        assert not np.array_equal(challenger["curve.trunk.layers.1.weight"], in_use["curve.trunk.layers.1.weight"])


def test_onnx_answers_as_predict_does(model, tmp_path):
    found = export_onnx(model, tmp_path / "model.onnx", inputs="ids", n_parity_rows=512)
    assert found.largest_difference <= 1e-6
    assert found.outputs == ("click_calibrated", "view_calibrated", "buy_calibrated")


def test_a_few_knots_are_enough():
    logits, labels, features = three_columns(2_000)
    made = fitted(logits, labels, features, n_knots=3, carry="none", held_out_share=0.0)
    scorer = shared_scorers(dict(zip("abc", made, strict=True)))[0]
    found = scorer(dict(zip("abc", logits, strict=True)), features)
    for network, p, z in zip(made, found.values(), logits, strict=True):
        assert np.array_equal(p, network.predict(z, features=features))


@pytest.mark.parametrize(
    ("arguments", "wish"),
    [
        ({"method": "wide_logistic"}, 'the method "umc"'),
        ({"integrand": "concat"}, 'the method "umc"'),
        ({"fields": []}, "fields, and a network"),
        ({"tasks": {"click": ("click", "pctr")}}, "several tasks"),
        ({"guard": True}, "guard=False"),
        ({"sc_weight": 0.5}, "sc_weight=0"),
        ({"curve_rows": 1_000}, "curve_rows=None"),
        ({"soft_labels": True}, "0/1 labels"),
    ],
)
def test_what_cannot_share_is_refused_with_the_way_out(table, arguments, wish):
    with pytest.raises(InvalidInput, match="shared_network: got .*leave it out") as refusal:
        monocal.fit(table, **{"tasks": TASKS, "fields": FIELDS, "shared_network": True, **arguments})
    assert wish in str(refusal.value)
