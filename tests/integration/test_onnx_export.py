from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import CALIBRATORS, LogitCalibrator, calibrator
from monocal.core.errors import InvalidInput
from monocal.core.scores import logit
from monocal.lab.simulator import simulate_log
from monocal.models.onnx import export_onnx
from monocal.neural.base import NeuralCalibrator

FIELDS = ["site_id", "country", "device"]
STATISTICAL = [name for name, kind in CALIBRATORS.items() if not issubclass(kind, NeuralCalibrator)]


@pytest.fixture(scope="module")
def table():
    rows = simulate_log(6000, seed=1).table()
    return rows.append_column("z", pa.array(logit(rows["pctr"].to_numpy())))


def fitted(table, method, *, score="pctr", scores_are="probability", **arguments):
    if method == "per_segment":
        arguments["field"] = 2
    chosen = calibrator(method, **arguments)
    return monocal.fit(table, method=chosen, score=score, scores_are=scores_are, label="click", fields=FIELDS)


@pytest.fixture(scope="module", params=STATISTICAL)
def every_model(request, table):
    """A model of every method, on probabilities and on logits, with a shift of the newest rows."""
    return {
        score: fitted(table, request.param, score=score, scores_are=kind, recent_share=0.1)
        for score, kind in (("pctr", "probability"), ("z", "logit"))
    }


def assert_every_node_has_a_name_of_its_own(path):
    """ONNX Runtime 1.20.0 to 1.21.1 do not load some graphs whose nodes have no names."""
    names = [node.name for node in onnx.load(path).graph.node]
    assert "" not in names
    assert len(set(names)) == len(names)


def sweep_of(score):
    """Scores over the whole range and runs of neighbouring float64 numbers."""
    chains = [c + np.arange(-500, 500) * np.spacing(c) for c in (-3.1, -0.7, 0.3, 1.7)]
    logits = np.unique(np.concatenate([np.linspace(-15, 15, 8001), *chains]))
    return logits if score == "z" else np.unique(1 / (1 + np.exp(-logits)))


@pytest.mark.parametrize("inputs", ["values", "ids"])
def test_graph_says_what_predict_says(every_model, tmp_path, inputs):
    for model in every_model.values():
        result = export_onnx(model, tmp_path / "m.onnx", inputs=inputs)
        assert result.largest_difference < 1e-9
        assert_every_node_has_a_name_of_its_own(result.path)


def test_no_step_of_the_score_lowers_the_graphs_probability(every_model, tmp_path):
    for score, model in every_model.items():
        if model.task().calibrator.tags.monotone == "none":
            continue
        result = export_onnx(model, tmp_path / "m.onnx", inputs="ids")
        session = onnxruntime.InferenceSession(result.path, providers=["CPUExecutionProvider"])
        scores = sweep_of(score)
        for row in ([0, 0, 0], [1, 2, 1], [7, 1, 2]):
            features = np.tile(np.array([row], np.int64), (len(scores), 1))
            feed = {score: scores, "features": features}
            (answers,) = session.run(None, {tensor.name: feed[tensor.name] for tensor in session.get_inputs()})
            assert np.diff(answers).min() >= 0.0


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


def test_null_values_count_as_unseen(tmp_path):
    log = {"p": [0.1, 0.4, 0.2, 0.3] * 30, "y": [0, 1, 0, 0] * 30, "site": ["a", None, "b", None] * 30}
    model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["site"])
    assert export_onnx(model, tmp_path / "m.onnx").largest_difference < 1e-12


def test_ids_outside_the_tables_count_as_unseen(table, tmp_path):
    result = export_onnx(fitted(table, "wide_logistic"), tmp_path / "m.onnx", inputs="ids")
    session = onnxruntime.InferenceSession(result.path, providers=["CPUExecutionProvider"])
    features = np.array([[0, 0, 0], [-1, -7, -2], [10**6, 10**9, 10**12]])
    (answers,) = session.run(None, {"pctr": np.full(3, 0.2), "features": features})
    assert answers[0] == answers[1] == answers[2]


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


def test_graph_knows_the_curve_of_the_score_and_never_falls(tmp_path):
    rows = simulate_log(12_000, world="conditional", seed=2).table()
    model = fitted(rows, "wide_logistic", base="curve")
    curve = model.task().calibrator.base_curve
    assert curve is not None
    result = export_onnx(model, tmp_path / "m.onnx", inputs="ids")
    assert result.largest_difference < 1e-12
    assert_every_node_has_a_name_of_its_own(result.path)
    session = onnxruntime.InferenceSession(result.path, providers=["CPUExecutionProvider"])
    close = [np.nextafter(knot, knot + way) for knot in curve.knots for way in (-1.0, 0.0, 1.0)]
    scores = 1.0 / (1.0 + np.exp(-np.sort(np.concatenate([close, np.linspace(-20.0, 20.0, 4_001)]))))
    names = [one.name for one in session.get_inputs()]
    feed = {name: scores if name == "pctr" else np.ones((scores.size, len(FIELDS)), np.int64) for name in names}
    (answers,) = session.run(["click_calibrated"], feed)
    assert np.all(np.diff(answers) >= 0.0)
