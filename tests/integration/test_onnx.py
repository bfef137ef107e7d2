"""The exported graph of every method says what predict says, and rises where the method does."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import CALIBRATORS, LogitCalibrator
from monocal.calibrators import calibrator as make
from monocal.core.errors import InvalidInput
from monocal.core.scores import logit
from monocal.lab.simulator import simulate_log
from monocal.models.onnx import export_onnx
from monocal.neural.base import NeuralCalibrator

FIELDS = ["site_id", "country", "device"]
STATISTICAL = [name for name, kind in CALIBRATORS.items() if not issubclass(kind, NeuralCalibrator)]
NETWORKS = {
    "umc": {},
    "umc, share 0.4": {"method": "umc", "mix": 0.4},
    "umc, network rejected": {"method": "umc", "mix": 0.0},
    "umc, no shifts": {"method": "umc", "wide": False},
    "umc, score alone": {"method": "umc", "embeddings": "none"},
    "fac, in order": {"method": "fac", "hard_monotone": True},
    "sbcr, share 0.4": {"method": "sbcr", "mix": 0.4},
    "mcnet": {},
    "desc": {"n_dimensions": 4, "hidden": (16,)},
    "adacalib": {"field": 2},
    "adacalib, in order": {"method": "adacalib", "field": 2, "hard_monotone": True},
    "umc_concat, broken line": {"method": "umc_concat", "umnn": False},
}
MONOTONE_NETWORKS = ["umc", "umc, share 0.4", "fac, in order", "adacalib, in order"]
CONCAT = {
    "concat": {"size": "small"},
    "concat, not rescaled": {"size": "small", "rescaling": False},
    "concat, score alone": {"size": "small", "use_features": False},
    "authors": {"preset": "authors"},
}


@pytest.fixture(scope="module")
def table():
    rows = simulate_log(6000, seed=1).table()
    return rows.append_column("z", pa.array(logit(rows["pctr"].to_numpy())))


def fitted(table, method, *, score="pctr", scores_are="probability", **arguments):
    if method == "per_segment":
        arguments["field"] = 2
    chosen = make(method, **arguments)
    return monocal.fit(table, method=chosen, score=score, scores_are=scores_are, label="click", fields=FIELDS)


@pytest.fixture(scope="module", params=STATISTICAL)
def every_model(request, table):
    """A model of every method, on probabilities and on logits, with a shift of the newest rows."""
    return {
        score: fitted(table, request.param, score=score, scores_are=kind, recent_share=0.1)
        for score, kind in (("pctr", "probability"), ("z", "logit"))
    }


def noisy(table, method, *, fields=FIELDS, mix=1.0, **arguments):
    """A model with noise on every weight: one epoch after an identity start leaves networks that do nothing."""
    small = make(method, n_epochs=1, recent_share=0.1, n_threads=1, **arguments)
    model = monocal.fit(table.slice(0, 3000), method=small, score="pctr", label="click", fields=fields)
    random = np.random.default_rng(0)
    calibrator = model.tasks[0].calibrator
    calibrator.weights_ = {
        name: value
        if name.endswith(("knots", "offsets", "slots", "places", "heights", "mix"))
        else (value + 0.3 * random.normal(size=value.shape) / _fan_in(name, value)).astype(value.dtype)
        for name, value in calibrator.weights_.items()
    }
    if "mix" in calibrator.weights_:
        calibrator.weights_["mix"] = np.array([mix])
    return model


def _fan_in(name, value):
    return np.sqrt(value.shape[1]) if name.endswith("weight") else 1.0


def noisy_case(table, case):
    return noisy(table, **({"method": case} | NETWORKS[case]))


def assert_every_node_has_a_name_of_its_own(path):
    """ONNX Runtime 1.20.0 to 1.21.1 do not load some graphs whose nodes have no names."""
    names = [node.name for node in onnx.load(path).graph.node]
    assert "" not in names
    assert len(set(names)) == len(names)


def asker(model, folder):
    """Exports a graph that takes ids; returns a function that asks it for scores and rows of ids."""
    path = export_onnx(model, folder / "m.onnx", inputs="ids").path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_inputs()]

    def ask(scores, features):
        feed = {name: np.asarray(features, np.int64) if name == "features" else scores for name in names}
        return session.run(None, feed)[0]

    return ask


def assert_never_falls(ask, scores):
    for row in ([0, 0, 0], [1, 2, 1], [7, 1, 2], [40, 3, 3]):
        assert np.diff(ask(scores, np.tile([row], (len(scores), 1)))).min() >= 0.0


def sweep_of(score):
    """Scores over the whole range and runs of neighbouring float64 numbers."""
    chains = [c + np.arange(-500, 500) * np.spacing(c) for c in (-3.1, -0.7, 0.3, 1.7)]
    logits = np.unique(np.concatenate([np.linspace(-15, 15, 8001), *chains]))
    return logits if score == "z" else np.unique(1 / (1 + np.exp(-logits)))


@pytest.mark.parametrize("inputs", ["values", "ids"])
def test_the_graph_of_a_statistical_method_says_what_predict_says(every_model, tmp_path, inputs):
    for model in every_model.values():
        result = export_onnx(model, tmp_path / "m.onnx", inputs=inputs)
        assert result.largest_difference < 1e-9
        assert_every_node_has_a_name_of_its_own(result.path)


@pytest.mark.parametrize("case", NETWORKS)
def test_the_graph_of_a_network_says_what_predict_says(table, tmp_path, case):
    result = export_onnx(noisy_case(table, case), tmp_path / "m.onnx")
    assert result.largest_difference <= 1e-6
    assert (result.tolerance, result.n_nodes) == (1e-6, None)
    assert_every_node_has_a_name_of_its_own(result.path)


@pytest.mark.parametrize("case", CONCAT)
def test_a_graph_at_fixed_nodes_is_close_to_predict(table, tmp_path, case):
    result = export_onnx(noisy(table, "umc_concat", **CONCAT[case]), tmp_path / "m.onnx")
    assert result.largest_difference <= 1e-4
    assert (result.tolerance, result.n_nodes) == (1e-4, 128)


def test_no_step_of_the_score_lowers_the_graphs_probability(every_model, tmp_path):
    for score, model in every_model.items():
        if model.task().calibrator.tags.monotone != "none":
            assert_never_falls(asker(model, tmp_path), sweep_of(score))


@pytest.mark.parametrize("case", MONOTONE_NETWORKS)
def test_no_step_of_the_score_lowers_the_probability_of_a_networks_graph(table, tmp_path, case):
    """On trained weights with noise, over the whole range and runs of neighbouring float64 numbers."""
    chains = [c + np.arange(-1000, 1000) * np.spacing(c) for c in (0.01, 0.03, 0.2, 0.5, 0.93)]
    scores = np.unique(np.concatenate([np.linspace(1e-7, 1 - 1e-7, 6001), *chains, sweep_of("pctr")]))
    assert_never_falls(asker(noisy_case(table, case), tmp_path), scores)


def test_a_graph_knows_the_curve_of_the_score_and_never_falls(tmp_path):
    rows = simulate_log(12_000, world="conditional", seed=2).table()
    model = fitted(rows, "wide_logistic", base="curve")
    curve = model.task().calibrator.base_curve
    assert curve is not None
    result = export_onnx(model, tmp_path / "m.onnx", inputs="ids")
    assert result.largest_difference < 1e-12
    assert_every_node_has_a_name_of_its_own(result.path)
    close = [np.nextafter(knot, knot + way) for knot in curve.knots for way in (-1.0, 0.0, 1.0)]
    scores = 1.0 / (1.0 + np.exp(-np.sort(np.concatenate([close, np.linspace(-20.0, 20.0, 4_001)]))))
    assert_never_falls(asker(model, tmp_path), scores)


def test_ids_beyond_the_table_and_rare_values_are_unseen(table, tmp_path):
    ask = asker(fitted(table, "wide_logistic"), tmp_path)
    answers = ask(np.full(3, 0.2), [[0, 0, 0], [-1, -7, -2], [10**6, 10**9, 10**12]])
    assert answers[0] == answers[1] == answers[2]
    model = noisy(table, "umc", wide=False)
    slots, offsets = (model.tasks[0].calibrator.weights_[f"encoder.{name}"] for name in ("slots", "offsets"))
    rare = int(np.flatnonzero(slots[: offsets[1]] == slots[0])[-1])
    assert rare > 0
    answers = asker(model, tmp_path)(np.full(4, 0.2), [[0, 1, 1], [rare, 1, 1], [10**9, 1, 1], [0, 2, 2]])
    assert answers[0] == answers[1] == answers[2] != answers[3]


def test_null_values_count_as_unseen(tmp_path):
    log = {"p": [0.1, 0.4, 0.2, 0.3] * 30, "y": [0, 1, 0, 0] * 30, "site": ["a", None, "b", None] * 30}
    model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["site"])
    assert export_onnx(model, tmp_path / "m.onnx").largest_difference < 1e-12


def test_logits_sampling_column_and_tasks(table, tmp_path):
    rates = np.where(np.arange(table.num_rows) % 2, 0.5, 0.2)
    wide = table.append_column("rate", pa.array(rates)).append_column("view", table["click"])
    wide = wide.append_column("z2", pa.array(table["z"].to_numpy() / 2))
    model = monocal.fit(
        wide,
        method="platt",
        tasks={"click": ("click", "z"), "view": ("view", "z2")},
        scores_are="logit",
        sampling_rate="rate",
    )
    result = export_onnx(model, tmp_path / "m.onnx")
    assert result.outputs == ("click_calibrated", "view_calibrated")
    assert result.largest_difference < 1e-12


@pytest.mark.parametrize("a", [0.005, -0.005])
def test_a_parabola_is_exported_whichever_way_it_bends(table, tmp_path, a):
    model = fitted(table, "gauss")
    model.tasks[0].calibrator.a_, model.tasks[0].calibrator.b_ = a, 0.5
    assert export_onnx(model, tmp_path / "m.onnx").largest_difference < 1e-12


def test_fall_back_is_exported_as_identity(table, tmp_path):
    model = fitted(table, "isotonic")
    model.tasks[0].calibrator.fell_back_ = True
    assert export_onnx(model, tmp_path / "m.onnx").largest_difference < 1e-12


def test_a_graph_beyond_tolerance_is_refused_and_not_kept(table, tmp_path):
    with pytest.raises(InvalidInput, match="a graph that differs by .* from predict; expected at most"):
        export_onnx(fitted(table, "isotonic"), tmp_path / "m.onnx", tolerance=-1.0)
    assert list(tmp_path.iterdir()) == []


class Unwritten(LogitCalibrator):
    name = "unwritten"
    class_tags = CALIBRATORS["platt"].class_tags

    def _fit(self, samples):
        pass

    def _predict_logits(self, samples):
        return samples.logits


def test_a_method_without_a_graph_is_refused(table, tmp_path):
    model = fitted(table, "platt")
    other = Unwritten().fit(table["pctr"].to_numpy(), table["click"].to_numpy())
    unwritten = replace(model, tasks=(replace(model.tasks[0], calibrator=other),))
    with pytest.raises(InvalidInput, match="the method 'unwritten'; expected one that can be exported to ONNX"):
        export_onnx(unwritten, tmp_path / "m.onnx")


def test_error_falls_with_the_square_of_the_number_of_nodes(table, tmp_path):
    model = noisy(table, method="umc_concat", preset="authors")
    errors = [
        export_onnx(model, tmp_path / "m.onnx", n_nodes=n, tolerance=1.0, n_parity_rows=1000).largest_difference
        for n in (8, 64)
    ]
    # 64 times smaller on the average over kinks; a factor 4 is left for where they happen to lie
    assert errors[1] < errors[0] / 16


def test_too_few_nodes_are_refused_with_a_way_out(table, tmp_path):
    model = noisy(table, method="umc_concat", preset="authors")
    with pytest.raises(InvalidInput, match="differs by .* from predict; expected at most 1e-04.* raise n_nodes"):
        export_onnx(model, tmp_path / "m.onnx", n_nodes=1)
    with pytest.raises(InvalidInput, match="n_nodes: got 0; expected at least 1"):
        export_onnx(model, tmp_path / "m.onnx", n_nodes=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["umc", "fac", "sbcr"])
def test_models_without_fields(table, tmp_path, method):
    result = export_onnx(noisy(table, fields=(), method=method), tmp_path / "m.onnx")
    assert result.inputs == ("pctr",)
    assert result.largest_difference <= 1e-6


@pytest.mark.parametrize("method", ["umc", "umc_concat", "wide_logistic"])
def test_graph_takes_any_number_of_rows_of_raw_values(table, tmp_path, method):
    if method == "wide_logistic":
        model = monocal.fit(table, method=method, score="pctr", label="click", fields=FIELDS)
    else:
        model = noisy(table, method=method, size="small")
    result = export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(result.path, providers=["CPUExecutionProvider"])
    for n in (0, 1, 7, 500):
        part = table.slice(0, n)
        feed = {name: np.array(part[name].to_pylist(), dtype=object) for name in FIELDS}
        feed["pctr"] = part["pctr"].to_numpy()
        (answers,) = session.run(["click_calibrated"], feed)
        assert answers.shape == (n,)
        if n:
            np.testing.assert_allclose(answers, model.predict(part), atol=result.tolerance)
