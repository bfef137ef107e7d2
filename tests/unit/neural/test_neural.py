"""What the contract does not say: presets, ablations, embeddings, wide part, and the three ways to compute a map."""

import copy

import numpy as np
import pytest
from sklearn.base import clone

import monocal.neural.train
from monocal.calibrators import calibrator
from monocal.core.dataset import Dataset
from monocal.lab.simulator import simulate_log
from monocal.neural.base import NeuralCalibrator
from monocal.neural.train import evaluate
from monocal.ops.numpy_ops import NUMPY

SMALL = {
    "umc": {"size": "small"},
    "umc_concat": {"size": "small"},
    "fac": {"hidden": (32,)},
    "sbcr": {"hidden": (32, 16)},
    "mcnet": {"hidden": (32,)},
    "desc": {"hidden": (16,), "n_dimensions": 4},
    "adacalib": {"candidate_bins": (5, 10)},
}
MAPS = [
    ("umc", {}),
    ("umc", {"embeddings": "none"}),
    ("umc_concat", {}),
    ("umc_concat", {"umnn": False}),
    ("fac", {}),
    ("sbcr", {}),
    ("mcnet", {}),
    ("desc", {}),
    ("adacalib", {}),
]
IDS = ["-".join([method, *map(str, arguments)]) for method, arguments in MAPS]


@pytest.fixture(scope="module")
def log():
    return simulate_log(6000, seed=3)


def small(method, **arguments):
    return calibrator(method, **{**SMALL[method], **arguments})


def fit(one, log, **more):
    return one.fit(log.logits, log.labels, features=log.features, scores_are="logit", **more)


def predict(one, log):
    return one.predict(log.logits, features=log.features)


@pytest.fixture(scope="module")
def fitted(log):
    """Fits each method once for all tests that only predict."""
    kept = {}

    def of(method, **arguments):
        key = f"{method} {sorted(arguments.items())}"
        if key not in kept:
            kept[key] = fit(small(method, **arguments), log)
        return copy.copy(kept[key])

    return of


@pytest.fixture
def trained(monkeypatch):
    """Collects the arguments of every training."""
    calls = []
    real = monocal.neural.train.train

    def watched(network, rows, *others):
        calls.append({"network": network, "rows": rows, "loss": others[0], "options": others[1], "held_out": others[2]})
        return real(network, rows, *others)

    monkeypatch.setattr(monocal.neural.train, "train", watched)
    return calls


@pytest.mark.parametrize(("method", "arguments"), MAPS, ids=IDS)
def test_arrays_give_the_numbers_of_the_torch_network(log, trained, method, arguments):
    one = fit(small(method, wide=False, recent_share=0.0, **arguments), log)
    (call,) = trained
    slope, intercept = one.weights_["affine"]
    by_torch = evaluate(call["network"], Dataset(slope * log.logits + intercept, ids=log.features))
    p = predict(one, log)
    np.testing.assert_allclose(np.log(p) - np.log1p(-p), by_torch, atol=2e-5)


def test_umc_without_numba_gives_the_numbers_of_the_compiled_loops(log, fitted):
    one = fitted("umc")
    plain = NeuralCalibrator._prepare(one, one.weights_)
    np.testing.assert_allclose(plain(log.logits, log.features), one._fitted_map()(log.logits, log.features), atol=2e-6)


@pytest.mark.parametrize(("method", "arguments"), MAPS, ids=IDS)
def test_a_row_depends_on_itself_alone_to_the_last_bit(log, fitted, method, arguments):
    one = fitted(method, **arguments)
    together = predict(one, log)
    for row in (0, 1, 7, 4095, 5999):
        alone = one.predict(log.logits[row : row + 1], features=log.features[row : row + 1])
        assert alone[0] == together[row]


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_published_presets(log, trained, preset):
    one = fit(calibrator("umc_concat", preset=preset, n_epochs=1), log)
    assert calibrator("umc_concat", preset=preset)._settings().n_epochs == 20
    (call,) = trained
    options, network = call["options"], call["network"]
    assert (options.batch_rows, options.learning_rate, options.schedule) == (16_384, 1e-3, "constant")
    assert call["held_out"] is None
    assert call["rows"].n_rows == 6000
    assert network.wide is None
    assert network.offsets.out_features == 50
    assert one.weights_["affine"].tolist() == [1.0, 0.0]
    assert one.recent_shift_ == 0.0
    factor, normalise = {"paper": (1.0, "batch"), "authors": (1e-2, "none")}[preset]
    assert call["loss"].factors[1] == factor
    assert call["loss"].losses[1].settings.normalise == normalise


def test_arguments_replace_the_presets_choices():
    settings = calibrator("umc_concat", preset="paper", wide=True, held_out_share=0.3, recent_share=0.1)._settings()
    assert (settings.wide, settings.held_out_share, settings.recent_share) == (True, 0.3, 0.1)


def test_auxiliary_losses(log, trained):
    for auxiliary in ("sc", "field", "mse"):
        fit(small("sbcr", carry="none", auxiliary=auxiliary, sc_weight=0.5, n_bins=7, tau=0.0, n_epochs=1), log)
    names = [type(call["loss"].losses[1]).__name__ for call in trained]
    assert names == ["SmoothCalibrationLoss", "FieldCalibrationLoss", "SquaredError"]
    assert (trained[0]["loss"].losses[1].n_bins, trained[0]["loss"].losses[1].gaps.tau) == (7, 0.0)


def test_wide_start_sees_the_training_slice_alone(log):
    """Labels of the held-out rows change the stopping and the refit, not where training starts."""
    other = log.labels.copy()
    other[-600:] = 1 - other[-600:]
    one = fit(small("umc", carry="none"), log)
    two = small("umc", carry="none").fit(log.logits, other, features=log.features, scores_are="logit")
    np.testing.assert_array_equal(one.weights_["affine"], two.weights_["affine"])
    assert np.abs(one.weights_["wide.shifts"] - two.weights_["wide.shifts"]).max() > 0.01


def test_before_training_umc_is_the_wide_logistic_of_the_training_slice(log, fitted):
    wide = calibrator("wide_logistic", l2="auto", tolerance=1e-6, max_iterations=100)
    wide.fit(log.logits[:5400], log.labels[:5400], features=log.features[:5400], scores_are="logit")
    held_out = log.take(slice(5400, None))
    z = wide._predict_logits(Dataset(held_out.logits, ids=held_out.features))
    loss = np.mean(np.logaddexp(0.0, z) - held_out.labels * z)
    assert fitted("umc", carry="none").history_["held_out_losses"][0] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("l2", ["auto", 10.0])
def test_refitted_shifts_are_optimal(log, l2):
    """The gradient of the penalised log-loss with respect to every shift is 0, beside the trained curve."""
    one = fit(small("umc", carry="none", recent_share=0.0, l2=l2), log)
    shifts, offsets, penalties = (one.weights_[f"wide.{name}"] for name in ("shifts", "offsets", "penalties"))
    residual = predict(one, log) - log.labels
    for field in range(6):
        ids = log.features[:, field]
        gradient = np.bincount(ids, residual, offsets[field + 1] - offsets[field])
        gradient += penalties[field] * shifts[offsets[field] : offsets[field + 1]]
        assert np.abs(gradient[1:]).max() < 0.5
    assert abs(residual.sum()) < 0.5


def test_unseen_and_rare_values_share_one_vector(log):
    features = log.features.copy()
    features[17, 0] = 1999
    one = small("umc", min_count=5)
    one.fit(log.logits, log.labels, features=features, scores_are="logit")
    slots, offsets = one.weights_["encoder.slots"], one.weights_["encoder.offsets"]
    assert slots[offsets[0] + 1999] == slots[offsets[0]]
    counts = np.bincount(features[:5400, 0], minlength=2000)
    assert slots[offsets[0] + int(counts.argmax())] != slots[offsets[0]]


@pytest.mark.parametrize("method", ["umc", "umc_concat"])
def test_a_rankers_vectors_are_used_and_stay_frozen(log, method):
    random = np.random.default_rng(0)
    # the ranker knows fewer values than the log has, and more
    sizes = [size - 3 if f == 0 else size + 2 for f, size in enumerate(log.field_sizes)]
    tables = [random.normal(size=(size, 8)).astype(np.float32) for size in sizes]
    one = fit(small(method), log, embeddings=tables)
    np.testing.assert_array_equal(one.weights_["encoder.table"], np.concatenate(tables))
    beyond = np.array([[sizes[0] + 50, 1, 1, 1, 1, 1]])
    unseen = np.array([[0, 1, 1, 1, 1, 1]])
    assert one.predict([0.0], features=beyond) == one.predict([0.0], features=unseen)
    own = fit(small(method, embeddings="own"), log, embeddings=tables)
    assert own.weights_["encoder.table"].shape[1] == 16


def test_ranker_embeddings_must_be_handed_over(log):
    with pytest.raises(ValueError, match=r'embeddings: got "ranker" without any table; .* pass fit\(embeddings=...\)'):
        fit(small("umc", embeddings="ranker"), log)
    with pytest.raises(ValueError, match="6 tables"):
        fit(small("umc"), log, embeddings=[np.zeros((3, 4), dtype=np.float32)])


@pytest.mark.parametrize("arguments", [{"use_features": False}, {"umnn": False}])
def test_ablations_without_features_ignore_them(log, arguments):
    one = fit(small("umc_concat", **arguments), log)
    shuffled = np.random.default_rng(0).permutation(log.features)
    np.testing.assert_array_equal(predict(one, log), one.predict(log.logits, features=shuffled))


def test_the_published_form_is_a_method_of_its_own(log):
    with pytest.raises(ValueError, match="preset: got 'paper' for the method 'umc'.*the method 'umc_concat'"):
        fit(calibrator("umc", preset="paper"), log)


def test_desc_needs_two_fields(log):
    with pytest.raises(ValueError, match="at least 2 fields"):
        small("desc").fit(log.logits, log.labels, features=log.features[:, :1], scores_are="logit")


def test_adacalib_refuses_a_field_that_does_not_exist(log):
    with pytest.raises(ValueError, match="field: got 6; expected a position in 0 … 5"):
        fit(small("adacalib", field=6), log)


@pytest.mark.parametrize(("method", "arguments"), MAPS, ids=IDS)
def test_every_weight_of_every_network_is_trained(log, monkeypatch, method, arguments):
    """Every tensor of the network meets a gradient that is not zero."""
    largest = {}
    real = monocal.neural.train.train

    def watched(network, rows, *others):
        for name, parameter in network.named_parameters():
            if parameter.requires_grad:
                largest[name] = 0.0

                def keep(gradient, name=name):
                    values = gradient.coalesce().values() if gradient.is_sparse else gradient
                    assert bool(values.isfinite().all()), name
                    largest[name] = max(largest[name], float(values.abs().max()))

                parameter.register_hook(keep)
        return real(network, rows, *others)

    monkeypatch.setattr(monocal.neural.train, "train", watched)
    fit(small(method, held_out_share=0.0, n_epochs=1, recent_share=0.0, **arguments), log)
    assert largest
    assert [name for name, size in largest.items() if size == 0.0] == []


@pytest.mark.parametrize("method", SMALL)
def test_training_itself_counts_weights(log, method):
    """With all rows in one batch, nothing beside the network and a random start, weight k is the row k times."""
    rows = np.arange(2000)
    times = np.where((log.labels[rows] == 1) | (log.logits[rows] > 0), 3, 1)
    alone = {"wide": False, "warm_start": False, "held_out_share": 0.0, "recent_share": 0.0, "batch_rows": 10_000}
    one = small(method, **alone, n_epochs=10, learning_rate=0.005, embeddings="own")

    def answers(chosen, weights=None):
        fitted = clone(one).fit(
            log.logits[chosen], log.labels[chosen], features=log.features[chosen], weights=weights, scores_are="logit"
        )
        return fitted._predict_logits(Dataset(log.logits[rows], ids=log.features[rows]))

    weighted, repeated, ignored = answers(rows, times), answers(np.repeat(rows, times)), answers(rows)
    # the bins of adacalib are cut between rows, and a repeated row has itself as its neighbour
    allowed = 0.2 if method == "adacalib" else 0.01
    assert np.abs(weighted - repeated).mean() < allowed * np.abs(ignored - repeated).mean()


def test_shifts_of_the_saved_model_are_those_of_the_prediction(log):
    one = fit(small("fac", recent_share=0.0), log)
    weights = one.weights_
    bare = {name: array for name, array in weights.items() if not name.startswith("wide.")}
    curve = one._prepare(bare)(log.logits, log.features)
    total = NUMPY.add_shifts(curve, log.features, weights["wide.shifts"], weights["wide.offsets"])
    p = predict(one, log)
    np.testing.assert_allclose(np.log(p) - np.log1p(-p), total + weights["wide.intercept"][0], atol=1e-9)
