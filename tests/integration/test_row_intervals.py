"""The same interval from the library, the command line and the service; what was saved before refuses."""

import asyncio

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.serving import Settings, create_app


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    log = monocal.simulate_log(4000).table()
    fitted = monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["device", "country"])
    folder = tmp_path_factory.mktemp("model") / "model"
    fitted.save(folder)
    return folder


def test_library_command_line_and_service_agree(model, tmp_path):
    rows = monocal.simulate_log(50, seed=1).table()
    found = monocal.load(model).predict(rows, interval=0.8)
    pq.write_table(rows, tmp_path / "rows.parquet")
    tables = [str(tmp_path / name) for name in ("rows.parquet", "out.parquet")]
    assert main(["apply", str(model), tables[0], "--out", tables[1], "--interval", "0.8"]) == 0
    written = pq.read_table(tmp_path / "out.parquet")
    body = {
        "scores": {"click": rows["pctr"].to_pylist()},
        "fields": {name: rows[name].to_pylist() for name in ("device", "country")},
    }
    plain, answer, refused = ask(model, [body, {**body, "interval": 0.8}, {**body, "interval": 2}])
    assert "lower" not in plain.json()
    assert plain.json()["probabilities"] == answer.json()["probabilities"]
    assert refused.status_code == 422
    assert "interval" in refused.text
    for end in ("lower", "upper"):
        column = getattr(found, end)
        np.testing.assert_array_equal(written[f"pctr_calibrated_{end}"].to_numpy(), column)
        np.testing.assert_array_equal(answer.json()[end]["click"], column)
    np.testing.assert_array_equal(written["pctr_calibrated"].to_numpy(), found.probabilities)


def ask(model, bodies):
    async def send():
        app = create_app(Settings(model))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return [await client.post("/v1/calibrate", json=body) for body in bodies]

    return asyncio.run(send())
