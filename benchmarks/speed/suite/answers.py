"""What one answer costs: the compiled predictors, the engine from raw values, and ONNX Runtime, one thread each."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
from sklearn.isotonic import IsotonicRegression

import monocal
from monocal.lab.simulator import simulate_log
from monocal.models.onnx import export_onnx
from monocal.serving import Engine, Request
from monocal.tables.vocabulary import Vocabulary
from suite.timing import Call, Row, best_of

SIZES = {1: 200, 100: 20, 16_384: 1}
"""Rows of a request, and how often it is answered between two looks at the clock."""

ISOTONIC, GATHER = "scikit-learn's isotonic predict", "numpy gathers 21 vectors of 16"
WHOLE = {"carry": "none", "n_epochs": 1}
"""The whole network is believed, as the dearest case; how well it fits changes nothing about its time."""

METHODS: dict[str, dict] = {
    "platt": {},
    "wide_logistic": {},
    "sbcr": WHOLE,
    "fac": WHOLE,
    "umc": WHOLE,
    "umc, small": {"size": "small", **WHOLE},
}


def answers(n_rows: int, rounds: int) -> tuple[list[Row], list[str]]:
    """Fits every method, answers requests of all sizes, and returns rows and the columns of the ONNX table."""
    table = simulate_log(n_rows, seed=0, world="large").table()
    names = [name for name in table.column_names if name not in ("timestamp", "pctr", "click", "true_p")]
    scores = table.column("pctr").to_numpy()
    curve = IsotonicRegression(out_of_bounds="clip").fit(scores, table.column("click").to_numpy())
    vectors = np.random.default_rng(0).normal(size=(100_000, 16)).astype(np.float32)
    rows: list[Row] = []
    onnx: list[str] = []
    for label, options in METHODS.items():
        method = label.split(",")[0]
        model = monocal.fit(
            table, method=monocal.calibrator(method, **options), score="pctr", label="click", fields=names
        )
        engine, sessions = Engine(model), _sessions(model)
        engine.warm_up()
        for n, repeats in SIZES.items():
            calls = _calls(engine, sessions, model.vocabulary, table.slice(0, n), names)
            places = model.vocabulary.encode(table.slice(0, n)) % len(vectors)
            calls["isotonic"] = lambda n=n: curve.predict(scores[:n])
            calls["gather"] = lambda places=places: vectors[places].sum(axis=(1, 2))
            found = best_of(calls, rounds=rounds, repeats=repeats)
            rows.append(Row(f"{label}, {n:,} rows, from ids", found["ids"], ISOTONIC, found["isotonic"]))
            rows.append(Row(f"{label}, {n:,} rows, from ids", found["ids"], GATHER, found["gather"]))
            if method in ("umc", "wide_logistic"):
                cells = (found[name] * 1e6 for name in ("ids", "onnx ids", "values", "onnx values"))
                onnx.append(f"| {label} | {n:,} | " + " | ".join(f"{cell:,.1f}" for cell in cells) + " |")
    return rows, onnx


def _sessions(model: monocal.models.Model) -> dict[str, onnxruntime.InferenceSession]:
    """Returns the exported graph with either kind of input."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for inputs in ("ids", "values"):
            path = Path(folder) / f"{inputs}.onnx"
            export_onnx(model, path, inputs=inputs, tolerance=1e-4, n_parity_rows=256)
            found[inputs] = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return found


def _calls(
    engine: Engine,
    sessions: dict[str, onnxruntime.InferenceSession],
    vocabulary: Vocabulary,
    table: pa.Table,
    names: list[str],
) -> dict[str, Call]:
    """Returns the engine and ONNX Runtime, each from ids and from raw values, after a check that they agree."""
    scores = table.column("pctr").to_numpy()
    ids = vocabulary.encode(table)
    by_id = Request({"click": scores}, ids=ids)
    by_value = Request({"click": scores}, fields={name: table.column(name).to_pylist() for name in names})
    feeds = {
        "ids": {"pctr": scores, "features": ids.astype(np.int64)},
        "values": {"pctr": scores, **{name: np.array(by_value.fields[name], object) for name in names}},
    }
    calls: dict[str, Call] = {
        "ids": lambda: engine.calibrate(by_id),
        "values": lambda: engine.calibrate(by_value),
        "onnx ids": lambda: sessions["ids"].run(None, feeds["ids"]),
        "onnx values": lambda: sessions["values"].run(None, feeds["values"]),
    }
    wanted = engine.calibrate(by_id).probabilities["click"]
    assert np.array_equal(wanted, engine.calibrate(by_value).probabilities["click"])
    for inputs, feed in feeds.items():
        assert np.allclose(sessions[inputs].run(None, feed)[0], wanted, atol=1e-4)
    return calls
