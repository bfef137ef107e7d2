import numpy as np
import onnx
import onnxruntime
import pytest

import monocal
from monocal.calibrators import calibrator as make
from monocal.core.errors import InvalidInput
from monocal.lab.simulator import simulate_log
from monocal.models.onnx import export_onnx

FIELDS = ["site_id", "country", "device"]

EXACT = {
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
CONCAT = {
    "concat": {"size": "small"},
    "concat, not rescaled": {"size": "small", "rescaling": False},
    "concat, score alone": {"size": "small", "use_features": False},
    "authors": {"preset": "authors"},
}


@pytest.fixture(scope="module")
def table():
    return simulate_log(3000, seed=1).table()


def fitted(table, method, *, fields=FIELDS, mix=1.0, **arguments):
    """A model with noise on every weight: one epoch after an identity start leaves networks that do nothing."""
    small = make(method, n_epochs=1, recent_share=0.1, n_threads=1, **arguments)
    model = monocal.fit(table, method=small, score="pctr", label="click", fields=fields)
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


@pytest.mark.parametrize("case", EXACT)
def test_graph_says_what_predict_says(table, tmp_path, case):
    result = export_onnx(fitted(table, **({"method": case} | EXACT[case])), tmp_path / "m.onnx")
    assert result.largest_difference <= 1e-6
    assert (result.tolerance, result.n_nodes) == (1e-6, None)
    names = [node.name for node in onnx.load(result.path).graph.node]
    assert "" not in names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CONCAT)
def test_graph_at_fixed_nodes_is_close_to_predict(table, tmp_path, case):
    result = export_onnx(fitted(table, method="umc_concat", **CONCAT[case]), tmp_path / "m.onnx")
    assert result.largest_difference <= 1e-4
    assert (result.tolerance, result.n_nodes) == (1e-4, 128)


def test_error_falls_with_the_square_of_the_number_of_nodes(table, tmp_path):
    model = fitted(table, method="umc_concat", preset="authors")
    errors = [
        export_onnx(model, tmp_path / "m.onnx", n_nodes=n, tolerance=1.0, n_parity_rows=1000).largest_difference
        for n in (8, 64)
    ]
    # 64 times smaller on the average over kinks; a factor 4 is left for where they happen to lie
    assert errors[1] < errors[0] / 16


def test_too_few_nodes_are_refused_with_a_way_out(table, tmp_path):
    model = fitted(table, method="umc_concat", preset="authors")
    with pytest.raises(InvalidInput, match="differs by .* from predict; expected at most 1e-04.* raise n_nodes"):
        export_onnx(model, tmp_path / "m.onnx", n_nodes=1)
    with pytest.raises(InvalidInput, match="n_nodes: got 0; expected at least 1"):
        export_onnx(model, tmp_path / "m.onnx", n_nodes=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["umc", "fac", "sbcr"])
def test_models_without_fields(table, tmp_path, method):
    result = export_onnx(fitted(table, fields=(), method=method), tmp_path / "m.onnx")
    assert result.inputs == ("pctr",)
    assert result.largest_difference <= 1e-6


@pytest.mark.parametrize("method", ["umc", "umc_concat", "wide_logistic"])
def test_graph_takes_any_number_of_rows_of_raw_values(table, tmp_path, method):
    if method == "wide_logistic":
        model = monocal.fit(table, method=method, score="pctr", label="click", fields=FIELDS)
    else:
        model = fitted(table, method=method, size="small")
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


def test_ids_beyond_the_table_and_rare_values_are_unseen(table, tmp_path):
    model = fitted(table, method="umc", wide=False)
    slots, offsets = (model.tasks[0].calibrator.weights_[f"encoder.{name}"] for name in ("slots", "offsets"))
    rare = int(np.flatnonzero(slots[: offsets[1]] == slots[0])[-1])
    assert rare > 0
    result = export_onnx(model, tmp_path / "m.onnx", inputs="ids")
    session = onnxruntime.InferenceSession(result.path, providers=["CPUExecutionProvider"])
    features = np.array([[0, 1, 1], [rare, 1, 1], [10**9, 1, 1], [0, 2, 2]])
    (answers,) = session.run(None, {"pctr": np.full(4, 0.2), "features": features})
    assert answers[0] == answers[1] == answers[2] != answers[3]


MONOTONE = ["umc", "umc, share 0.4", "fac, in order", "adacalib, in order"]


@pytest.mark.parametrize("case", MONOTONE)
def test_no_step_of_the_score_lowers_the_graphs_probability(table, tmp_path, case):
    """On trained weights with noise, over the whole range and runs of neighbouring float64 numbers."""
    model = fitted(table, **({"method": case} | EXACT[case]))
    result = export_onnx(model, tmp_path / "m.onnx", inputs="ids")
    session = onnxruntime.InferenceSession(result.path, providers=["CPUExecutionProvider"])
    scores = np.linspace(1e-7, 1 - 1e-7, 6001)
    chains = [c + np.arange(-1000, 1000) * np.spacing(c) for c in (0.01, 0.03, 0.2, 0.5, 0.93)]
    scores = np.unique(np.concatenate([scores, *chains, 1 / (1 + np.exp(-np.linspace(-15, 15, 4001)))]))
    for row in ([0, 0, 0], [1, 2, 1], [7, 1, 2], [40, 3, 3]):
        features = np.tile(np.array([row], np.int64), (len(scores), 1))
        (answers,) = session.run(None, {"pctr": scores, "features": features})
        assert np.diff(answers).min() >= 0.0
