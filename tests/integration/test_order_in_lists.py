"""Order inside lists with the network, compiled, in the engine and in ONNX."""

import copy

import numpy as np
import onnxruntime
import pytest

import monocal
from monocal.models.onnx import export_onnx
from monocal.serving.engine import Engine, Request

N_LISTS, N_ITEMS, FIELDS = 300, 10, ["page", "country"]


@pytest.fixture(scope="module")
def lists():
    random = np.random.default_rng(3)
    page, country = np.repeat(random.integers(0, 3, (2, N_LISTS)), N_ITEMS, axis=1)
    z = random.normal(-1.0, 2.0, N_LISTS * N_ITEMS)
    truth = 1 / (1 + np.exp(-(np.array([0.3, 1.0, 2.0])[page] * z + 0.4 * country)))
    return {
        "pctr": 1 / (1 + np.exp(-z)),
        "click": (random.random(z.size) < truth).astype(int),
        "query_id": np.repeat(np.arange(N_LISTS), N_ITEMS),
        "page": [f"page {number}" for number in page],
        "country": [f"country {number}" for number in country],
    }


@pytest.fixture(scope="module")
def model(lists):
    return monocal.fit(
        lists,
        method=monocal.Umc(n_epochs=3, carry="none", n_threads=1, show_progress=False),
        score="pctr",
        label="click",
        fields=FIELDS,
    )


def n_swaps_and_ties(scores, probabilities):
    z, p = (np.reshape(column, (-1, N_ITEMS)) for column in (scores, probabilities))
    steps = np.diff(np.take_along_axis(p, np.argsort(z, axis=1), axis=1), axis=1)
    return int((steps < 0.0).sum()), int((steps == 0.0).sum())


def test_kendall_s_tau_is_1_in_every_list(model, lists):
    answers = model.predict(lists)
    assert n_swaps_and_ties(lists["pctr"], answers) == (0, 0)
    whole = np.argsort(lists["pctr"])
    assert np.any(np.diff(answers[whole]) < 0.0), "lists differ: over all rows the order is another one"


def test_not_even_a_sharp_network_swaps_items(model, lists):
    """Weights far from any training: answers saturate and tie there, and none falls."""
    sharp = copy.deepcopy(model)
    random = np.random.default_rng(0)
    calibrator = sharp.task().calibrator
    calibrator.weights_ = {
        name: value + random.normal(0.0, 0.5, value.shape).astype(value.dtype) if "trunk" in name else value
        for name, value in calibrator.weights_.items()
    }
    answers = sharp.predict(lists)
    assert n_swaps_and_ties(lists["pctr"], answers)[0] == 0
    assert not np.allclose(answers, model.predict(lists), atol=0.1)


def test_the_engine_keeps_the_order_of_requests(model, lists):
    engine = Engine(model)
    for first in range(0, 30 * N_ITEMS, N_ITEMS):
        scores = lists["pctr"][first : first + N_ITEMS]
        shared = {name: lists[name][first] for name in FIELDS}
        answer = engine.calibrate(Request({"click": scores}, shared=shared)).probabilities["click"]
        assert n_swaps_and_ties(scores, answer) == (0, 0)


def test_the_graph_keeps_the_order_of_lists(model, lists, tmp_path):
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = {"pctr": lists["pctr"], **{name: np.array(lists[name], dtype=object) for name in FIELDS}}
    assert n_swaps_and_ties(lists["pctr"], session.run(None, inputs)[0]) == (0, 0)
