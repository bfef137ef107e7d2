"""The engine: the numbers of `model.predict`, and a clear word about everything it cannot answer."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import CALIBRATORS, calibrator
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.scores import logit, to_logits
from monocal.models import Fusion
from monocal.neural.base import NeuralCalibrator
from monocal.serving import Engine, Request
from monocal.serving.encode import FieldEncoder
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
SCORES = {"click": "pctr", "effective_view": "pev", "long_view": "plv"}
WITHOUT_TORCH = sorted(name for name, kind in CALIBRATORS.items() if not issubclass(kind, NeuralCalibrator))


def request_of(table, shared=(), tasks=SCORES, **more):
    rows = table.to_pydict()
    return Request(
        scores={task: rows[SCORES[task]] for task in tasks},
        shared={name: rows[name][0] for name in shared},
        fields={name: rows[name] for name in FIELDS if name not in shared},
        **more,
    )


def test_columns_may_be_any_sequence(model, log):
    request = request_of(log.slice(50, 7))
    scores = {task: tuple(column) for task, column in request.scores.items()}
    tuples = Request(scores, fields={name: tuple(column) for name, column in request.fields.items()})
    found, expected = (Engine(model).calibrate(columns).probabilities["click"] for columns in (tuples, request))
    assert found.tolist() == expected.tolist()


def test_one_number_is_the_logit_that_it_is_among_others(rng):
    for score in [*rng.random(200).tolist(), 0.0, 1e-9, 1e-7, 1.0 - 1e-9, 1.0]:
        assert to_logits([score], "probability") == to_logits([score, 0.0], "probability")[0] == logit([score])
    for score in (-80.0, -40.0, -1.5, 40.0, 80.0):
        assert to_logits([score], "logit") == np.clip(score, -40.0, 40.0)
    for wide in ([-60.0, -1.0, 3.0], [-1.0, 3.0, 80.0]):
        assert np.array_equal(to_logits(wide, "logit"), np.clip(wide, -40.0, 40.0))


def test_the_look_up_takes_at_most_64_bytes_per_value():
    vocabulary = Vocabulary((FieldVocabulary("site", pa.array([f"{place:050d}" for place in range(1025)])),))
    assert 16 * 1025 < FieldEncoder(vocabulary, refuses_missing=True)._table._entries.nbytes <= 64 * 1025


@pytest.fixture(scope="module")
def neural(log):
    """Every method that is trained by gradient descent, after one epoch."""
    pytest.importorskip("torch", reason="fitting needs torch")
    pytest.importorskip("numba", reason="the paper's integrand needs numba")
    return {
        name: monocal.fit(
            log.slice(0, 1000),
            method=calibrator(name, n_epochs=1),
            score="pctr",
            label="click",
            fields=["site_id", "country"],
        )
        for name in CALIBRATORS
        if name not in WITHOUT_TORCH
    }


@pytest.mark.parametrize("scores_are", ["probability", "logit"])
def test_no_request_has_a_loop_compiled_again(neural, scores_are):
    folded_knots = pytest.importorskip("monocal.compiled.predict")
    engine = Engine(replace(neural["umc"], scores_are=scores_are))
    engine.warm_up()
    n_known = len(folded_knots.score_knot_rows.signatures)
    both = np.tile([0.2, 0.3], (50, 1))
    read_only = np.full(50, 0.2)
    read_only.flags.writeable = False
    ids = np.zeros((50, 2), np.int32)
    fixed_ids = ids.copy()
    fixed_ids.flags.writeable = False
    for scores in (both[:, 0], read_only, np.full(50, 0.2, np.float32), np.full(50, 0.2).tolist()):
        for given in (ids, fixed_ids, np.asfortranarray(ids), ids.astype(np.int64)):
            engine.calibrate(Request({"click": scores}, ids=given))
            engine.calibrate(Request({"click": scores}, ids=given, sampling_rate=0.5))
    assert n_known
    assert len(folded_knots.score_knot_rows.signatures) == n_known


def test_every_method_is_served_with_its_offline_numbers(log, neural):
    columns = {"score": "pctr", "label": "click", "fields": ["site_id", "country"]}
    others = {method: monocal.fit(log, method=method, **columns) for method in WITHOUT_TORCH}
    whole = log.slice(0, 300)
    for name, model in {**others, **neural}.items():
        offline = model.predict(whole)
        engine = Engine(model)
        for start, n_rows in ((0, 1), (7, 1), (9, 60), (100, 200)):
            rows = whole.slice(start, n_rows).to_pydict()
            fields = {name: rows[name] for name in ("site_id", "country")}
            online = engine.calibrate(Request({"click": rows["pctr"]}, fields=fields)).probabilities["click"]
            assert np.array_equal(online, offline[start : start + n_rows]), name


def test_neural_models_are_served_without_torch_and_the_web_server(neural, tmp_path):
    folders = [str(model.save(tmp_path / str(place))) for place, model in enumerate(neural.values())]
    program = (
        "import sys; from monocal.serving import Engine, Request;"
        f"engines = [Engine.load(folder) for folder in {folders!r}];"
        "asked = Request({'click': [0.5]}, shared={'site_id': 'site_1', 'country': 'country_1'});"
        "answers = [engine.calibrate(asked) for engine in engines];"
        "print(len(answers), {'torch', 'starlette', 'msgspec'} & set(sys.modules))"
    )
    found_at = {**os.environ, "PYTHONPATH": str(Path(monocal.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300, env=found_at
    )
    assert done.stdout.strip() == f"{len(folders)} set()"


def test_an_id_that_equals_the_size_of_its_table_counts_as_unseen(model):
    engine = Engine(model)
    sizes = np.array(model.vocabulary.sizes)
    for field, size in enumerate(sizes):
        ids = np.ones((3, len(sizes)), dtype=np.int64)
        ids[:, field] = [0, size, size - 1]
        answer = engine.calibrate(Request({"click": [0.2] * 3}, ids=ids))
        assert answer.ids[:, field].tolist() == [0, 0, size - 1]
        unseen, first_beyond, last = answer.probabilities["click"]
        assert first_beyond == unseen
        assert last != unseen


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_row_scorer_is_bit_equal_to_predict_samples(model, rng, shift):
    calibrator = model.task("click").calibrator
    was = calibrator.recent_shift_
    calibrator.recent_shift_ = shift
    try:
        logits = rng.normal(-2.0, 3.0, 500)
        ids = rng.integers(0, 40_000, (500, 6)).astype(np.int32)
        expected = calibrator.predict_data(Dataset(logits, ids=ids))
        assert np.array_equal(calibrator.row_scorer()(logits, ids), expected)
    finally:
        calibrator.recent_shift_ = was


def test_a_calibrator_that_fell_back_serves_the_uncalibrated_score(log):
    model = monocal.fit(log, method="platt", score="pctr", label="click")
    model.tasks[0].calibrator.fell_back_ = True
    answer = Engine(model).calibrate(Request({"click": [0.25, 0.5]}))
    assert answer.probabilities["click"] == pytest.approx([0.25, 0.5], rel=1e-12)


def test_a_missing_field_is_refused_or_taken_as_unseen_as_the_policy_says(model, log):
    table = log.slice(0, 5)
    request = request_of(table)
    del request.fields["country"]
    with pytest.raises(InvalidInput, match="field 'country': got no values; expected every field"):
        Engine(model).calibrate(request)
    answer = Engine(model, missing_fields="unseen").calibrate(request)
    assert answer.ids[:, 2].tolist() == [0] * 5
    request.fields["country"] = ["nowhere"] * 5
    unseen = Engine(model).calibrate(request)
    assert np.array_equal(answer.probabilities["click"], unseen.probabilities["click"])
    with pytest.raises(UnknownName, match="missing_fields: got 'ignore'; expected one of refuse, unseen"):
        Engine(model, missing_fields="ignore")


def test_sampling_rate_of_the_request_wins_over_the_models(log):
    table = log.slice(0, 20)
    rows = table.to_pydict()
    plain = monocal.fit(log, method="platt", score="pctr", label="click")
    corrected = monocal.fit(log, method="platt", score="pctr", label="click", sampling_rate=0.25)
    constant = Engine(corrected).calibrate(Request({"click": rows["pctr"]}))
    assert np.array_equal(constant.probabilities["click"], corrected.predict(table))
    asked = Engine(plain).calibrate(Request({"click": rows["pctr"]}, sampling_rate=0.25))
    scores = {"click": np.array(rows["pctr"])}
    expected = plain.predict_ids(np.zeros((20, 0), np.int32), scores, 0.25)
    assert np.array_equal(asked.probabilities["click"], expected["click"])
    each = Engine(plain).calibrate(Request({"click": rows["pctr"]}, sampling_rate=[0.25] * 20))
    assert np.array_equal(each.probabilities["click"], asked.probabilities["click"])


def test_a_model_with_a_rate_column_asks_for_the_rate(log):
    table = log.append_column("rate", pa.array(np.where(np.arange(log.num_rows) % 2, 0.5, 0.1)))
    model = monocal.fit(table, method="platt", score="pctr", label="click", sampling_rate="rate")
    engine = Engine(model)
    engine.warm_up()
    rows = table.slice(0, 8).to_pydict()
    answer = engine.calibrate(Request({"click": rows["pctr"]}, sampling_rate=rows["rate"]))
    assert np.array_equal(answer.probabilities["click"], model.predict(table.slice(0, 8)))
    with pytest.raises(InvalidInput, match=r"sampling_rate: got None; .* fitted with the column 'rate'"):
        engine.calibrate(Request({"click": rows["pctr"]}))


def test_a_request_for_some_tasks_gets_those_and_no_fused_score(model, log):
    answer = Engine(model).calibrate(request_of(log.slice(0, 3), tasks=("click",)))
    assert list(answer.probabilities) == ["click"]
    assert answer.fused is None


def refused(**changes):
    ok = {"scores": {"click": [0.1, 0.2]}, "fields": {name: ["a", "b"] for name in FIELDS}}
    return Request(**{**ok, **changes})


def fields(**changes):
    return {**{name: ["a", "b"] for name in FIELDS}, **changes}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (refused(scores={}), "scores: got no task; expected at least one score"),
        (refused(scores={"click": []}), "scores: got no candidates"),
        (refused(scores={"clik": [0.1]}), "task: got 'clik'; .* did you mean 'click'"),
        (
            refused(scores={"click": [0.1, 1.5]}),
            r"scores of 'click': got 1.5 at row 1; expected probabilities in \[0, 1",
        ),
        (refused(scores={"click": [0.1, float("nan")]}), "scores of 'click': got nan at row 1"),
        (refused(scores={"click": [0.1, "0.2"]}), "scores of 'click': got a str at row 1; expected numbers"),
        (refused(scores={"click": [0.1, None]}), "scores of 'click': got null at row 1"),
        (refused(scores={"click": [True, 0.2]}), "scores of 'click': got a bool at row 0"),
        (refused(scores={"click": [[0.1], [0.2]]}), "scores of 'click': got a list at row 0"),
        (refused(scores={"click": np.zeros((2, 2))}), r"scores of 'click': got an array of shape \(2, 2\)"),
        (refused(scores={"click": np.array(["0.1", "0.2"])}), "scores of 'click': got a str_? at row 0"),
        (refused(scores={"click": "0.1"}), "scores of 'click': got a str; expected a list"),
        (refused(scores={"click": [0.1, 0.2], "long_view": [0.1]}), "scores of 'long_view': got 1 values; expected 2"),
        (refused(fields=fields(site_id=["a"])), "field 'site_id': got 1 values; expected 2, one per candidate"),
        (refused(fields=fields(site_id="ab")), "field 'site_id': got a str; expected a list"),
        (
            refused(scores={"click": [0.1]}, fields={name: ["a"] for name in FIELDS} | {"site_id": []}),
            "field 'site_id': got 0 values; expected 1, one per candidate",
        ),
        (refused(fields=fields(site_id=["a", 0.5])), "field 'site_id': got 0.5; expected text"),
        (refused(fields=fields(site_id=["a", ["b"]])), r"field 'site_id': got \['b'\]; expected text"),
        (refused(fields=fields(site=["a", "b"])), "field: got 'site'; .* did you mean 'site_id'"),
        (refused(shared={"site_id": "a"}), "field 'site_id': got values under both fields and shared"),
        (refused(ids=np.zeros((2, 6), np.int32)), "ids: got ids and field values; expected one of the two"),
        (refused(fields={}, ids=np.zeros((2, 5), np.int32)), r"ids: got an array of shape \(2, 5\)"),
        (refused(fields={}, ids=np.zeros((2, 6))), r"ids: .* type float64; expected integers of shape \(2, 6\)"),
        (refused(fields={}, ids=np.full((2, 6), -1)), "ids: got -1; expected ids ≥ 0"),
        (refused(sampling_rate=0.0), "sampling_rate: got 0; expected the share of negatives"),
        (refused(sampling_rate=[0.5]), "sampling_rate: got 1 rates; expected one number or 2"),
        (refused(fusion=Fusion({"clicks": 1.0})), "task of fusion weights: got 'clicks'"),
        (
            refused(
                scores={"click": [0.99, 0.2], "long_view": [0.99, 0.2]},
                fusion=Fusion({"click": 1.7e308, "long_view": 1.7e308}, powers={"click": 1e-9, "long_view": 1e-9}),
            ),
            "fusion: got weights too large",
        ),
        (refused(fusion=Fusion({"click": 1.0}), other=[1.0]), "other: got 1 values; expected 2"),
        (refused(other=[1.0, 2.0]), "other: got numbers, but no fusion rule"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_with_a_reason(model, request_, message):
    with pytest.raises(InvalidInput, match=message):
        Engine(model).calibrate(request_)


def test_a_model_that_answers_with_no_number_has_no_fused_score(model):
    engine = Engine(model)
    engine._scorers = {"click": lambda _logits, _ids: np.array([0.2, np.nan])}
    with pytest.raises(InvalidInput, match="expected finite fused scores"):
        engine.calibrate(refused(fusion=Fusion({"click": 1.0})))
