"""Fits give the same bits as the version whose answers are frozen here, on the kind of machine that froze them.

A golden is the predictions of a model for rows it has not seen, and digests of everything it learned. Exponentials and
sums in vectors round by processor and library release, so bits are compared where these agree; elsewhere nine digits
are (five for networks, whose training amplifies a last bit). `python tests/goldens/test_bits.py` freezes all answers
anew, which is only right where a change of numbers is intended and said.
"""

import hashlib
import json
import platform
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.lab.simulator.outcomes import delay_labels
from monocal.models.onnx import export_onnx

FOLDER = Path(__file__).parent / "bits"
WORLDS = [("default", 1), ("default", 2), ("conditional", 1), ("conditional", 2), ("drifting", 1), ("drifting", 2)]
N_FITTED, N_FROZEN = 6_000, 60
WITHOUT_FIELDS = ["none", "histogram", "isotonic", "sir", "platt", "temperature", "beta", "gauss", "gamma"]
IN_ONE_WORLD = ["confcalib", "mlplatt", "mbct", "adacalib", "mcnet"]
NETWORKS = ("umc", "fac", "sbcr", "desc", "adacalib", "mcnet")
LATE = {"event_time": "timestamp", "label_time": "label_time", "window": "604800", "time": None}

CASES = {
    **{name: {"method": name} for name in [*WITHOUT_FIELDS, *IN_ONE_WORLD]},
    "platt, recent share": {"method": "platt", "arguments": {"recent_share": 0.2}},
    "platt, weights": {"method": "platt", "weight": "weight"},
    "platt, late labels": {"method": "platt", **LATE},
    "per segment": {"method": "per_segment", "arguments": {"field": 5}},
    "wide": {"method": "wide_logistic"},
    "wide, plain": {"method": "wide_logistic", "arguments": {"carry": "none", "l2": 1.0}},
    "wide, curve": {"method": "wide_logistic", "arguments": {"base": "curve"}},
    "wide, numeric": {"method": "wide_logistic", "numeric": ["price"]},
    "wide, weights": {"method": "wide_logistic", "weight": "weight"},
    "wide, soft labels": {"method": "wide_logistic", "label": "soft", "soft_labels": True},
    "wide, late labels": {"method": "wide_logistic", **LATE},
    "umc": {"method": "umc"},
    "umc, plain": {"method": "umc", "arguments": {"carry": "none"}},
    "umc, numeric and weights": {"method": "umc", "numeric": ["price"], "weight": "weight"},
    "fac": {"method": "fac"},
    "sbcr": {"method": "sbcr"},
    "desc": {"method": "desc"},
}
EXPORTED = ["platt", "isotonic", "gamma", "wide", "wide, numeric", "umc", "fac", "sbcr", "desc"]


def machine():
    """Returns what decides last bits: the processor's instructions and the libraries that sum."""
    import numba
    import scipy
    import scipy.linalg  # loads its BLAS
    import threadpoolctl
    import torch
    from numpy._core._multiarray_umath import __cpu_features__

    used = sorted(name for name, there in __cpu_features__.items() if there)
    versions = {"numpy": np, "scipy": scipy, "torch": torch, "numba": numba}
    # the C library and BLAS choose loops by maker and family of a processor, too
    kernels = sorted({str(found.get("architecture")) for found in threadpoolctl.threadpool_info()})
    return {
        "processor": f"{platform.machine()} {' '.join(used)}",
        "family": family_of_processor(),
        "blas": kernels,
        **{name: module.__version__ for name, module in versions.items()},
    }


def family_of_processor():
    """Returns maker, family and model of the processor where Linux tells them, else nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    pairs = dict(line.split(":", 1) for line in lines if ":" in line)
    found = {name.strip(): value.strip() for name, value in pairs.items()}
    return " ".join(found.get(name, "") for name in ("vendor_id", "cpu family", "model"))


@cache
def tables(world, seed):
    """Returns rows to fit and later rows to predict, with columns for every kind of input."""
    simulated = monocal.simulate_log(N_FITTED + N_FROZEN, seed=seed, world=world)
    table = delay_labels(simulated.table(), by=simulated.field_names[0])
    random = np.random.default_rng(100 + seed)
    clicks = table["click"].to_numpy()
    added = {
        "weight": random.integers(0, 4, len(table)).astype(np.float64),
        "price": np.exp(random.normal(size=len(table))),
        "soft": np.clip(clicks * 0.8 + random.random(len(table)) * 0.2, 0.0, 1.0),
    }
    for name, values in added.items():
        table = table.append_column(name, pa.array(values))
    return table[:N_FITTED], table[N_FITTED:]


def fitted(case, world, seed):
    fields = monocal.simulate_log(10, world=world).field_names
    asked = {"score": "pctr", "label": "click", "fields": fields, "time": "timestamp", **CASES[case]}
    method, arguments = asked.pop("method"), asked.pop("arguments", {})
    asked = {name: value for name, value in asked.items() if value is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return monocal.fit(tables(world, seed)[0], method=calibrator(method, **arguments), **asked)


def predicted(model, world, seed):
    return np.asarray(model.predict(tables(world, seed)[1]), dtype=np.float64)


def digests(model):
    """Returns digests of all learned arrays and numbers, sorted, so that names are free to change."""
    (task,) = model.tasks
    state = task.calibrator.state()
    arrays = [np.ascontiguousarray(array).tobytes() for array in state.arrays.values()]
    numbers = [repr(value).encode() for value in state.values.values() if isinstance(value, float)]
    return sorted(hashlib.sha256(data).hexdigest()[:12] for data in arrays + numbers)


def keys():
    for case in CASES:
        for world, seed in WORLDS[2:3] if case in IN_ONE_WORLD else WORLDS:
            yield case, world, seed


def exported(model, world, seed, folder):
    import onnxruntime

    path = export_onnx(model, folder / "model.onnx").path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = tables(world, seed)[1]
    given = {}
    for wanted in session.get_inputs():
        column = rows[wanted.name]
        numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        values = column.to_numpy() if numeric else np.array(column.to_pylist(), dtype=object)
        given[wanted.name] = values.reshape([-1] + [1] * (len(wanted.shape) - 1))
    return np.asarray(session.run(None, given)[0], dtype=np.float64).reshape(-1)


@cache
def frozen():
    with np.load(FOLDER / "predictions.npz") as file:
        predictions = {name: file[name] for name in file.files}
    return predictions, json.loads((FOLDER / "digests.json").read_text(encoding="utf-8"))


def same_machine():
    return frozen()[1]["machine"] == machine()


def assert_same(found, name, case):
    expected = frozen()[0][name]
    if same_machine():
        assert found.tobytes() == expected.tobytes(), f"{np.abs(found - expected).max():.2e} apart"
    else:
        assert found == pytest.approx(expected, rel=1e-5 if CASES[case]["method"] in NETWORKS else 1e-9)


@pytest.mark.parametrize(("case", "world", "seed"), list(keys()))
def test_a_fit_gives_the_frozen_bits(case, world, seed):
    model = fitted(case, world, seed)
    name = f"{case} / {world} / {seed}"
    assert_same(predicted(model, world, seed), name, case)
    if same_machine():
        assert digests(model) == frozen()[1]["state"][name]


@pytest.mark.parametrize("case", EXPORTED)
def test_an_exported_graph_gives_the_frozen_bits(case, tmp_path):
    found = exported(fitted(case, "conditional", 1), "conditional", 1, tmp_path)
    assert_same(found, f"{case} / onnx", case)


def evaluation():
    """Returns metrics, intervals and floors of one forecast as JSON values."""
    rows = tables("default", 1)[0]
    fields = {"site_id": rows["site_id"].to_numpy(zero_copy_only=False)}
    found = monocal.evaluate(
        rows["click"].to_numpy(),
        rows["pctr"].to_numpy(),
        fields=fields,
        groups=rows["user_id"].to_numpy(zero_copy_only=False),
        n_bootstrap=50,
        n_floor=20,
        seed=3,
    )
    return json.loads(json.dumps(found.as_dict()))


def _numbers(value, at=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{at}/{key}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _numbers(inner, f"{at}/{place}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, float(value)


def test_an_evaluation_gives_the_frozen_numbers():
    expected = dict(_numbers(json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))))
    found = dict(_numbers(evaluation()))
    assert len(expected) > 40
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


def freeze():
    predictions, state = {}, {}
    for case, world, seed in keys():
        model = fitted(case, world, seed)
        name = f"{case} / {world} / {seed}"
        predictions[name], state[name] = predicted(model, world, seed), digests(model)
    with tempfile.TemporaryDirectory() as folder:
        for case in EXPORTED:
            model = fitted(case, "conditional", 1)
            predictions[f"{case} / onnx"] = exported(model, "conditional", 1, Path(folder))
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / "predictions.npz", **predictions)
    kept = {"machine": machine(), "state": state}
    (FOLDER / "digests.json").write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
    (FOLDER / "evaluation.json").write_text(json.dumps(evaluation(), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"froze {len(predictions)} answers\n")


if __name__ == "__main__":
    freeze()
