"""An online level moves the parts of a product, and the product with them."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.models.products import Product
from monocal.operations.online_level import LevelRules
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import Request
from monocal.serving.runtime.live_level import LiveLevel

TASKS = {"click": ("click", "pctr"), "long": ("long_view", "pcvr"), "both": ("long_view", "plv")}


@pytest.fixture(scope="module")
def log():
    table = monocal.simulate_log(6_000, seed=2, world="multitask").table()
    return table.append_column("pcvr", pa.array((table["plv"].to_numpy() / table["pctr"].to_numpy()).clip(0.0, 1.0)))


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log, method="platt", tasks=TASKS, products=[Product(("pctr", "pcvr"), "plv")])


def test_a_level_learned_online_keeps_the_product(model, log, tmp_path):
    engine, rows = Engine(model), log.slice(0, 200).to_pydict()
    request = Request({task: np.array(rows[column]) for task, (_, column) in TASKS.items()})
    level = LiveLevel(tmp_path / "feedback", LevelRules(batch_rows=100), 1 << 20)
    level.start(engine)
    answer = level.corrected(engine.calibrate(request), request, engine)
    known = np.ones(200)
    labels = {"click": np.ones(200), "long": np.ones(200), "both": np.zeros(200)}
    said = {
        task: {
            "probabilities": p,
            "corrections": answer.corrections[task],
            "labels": labels[task],
            "known": known,
        }
        for task, p in answer.probabilities.items()
    }
    assert asyncio.run(level.learn(engine, engine.version, said, answer.ids))
    p = level.corrected(engine.calibrate(request), request, engine).probabilities
    assert np.all(p["click"] > answer.probabilities["click"])
    assert np.array_equal(p["both"], p["click"] * p["long"])
