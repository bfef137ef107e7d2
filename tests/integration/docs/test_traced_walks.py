"""The walks of the architecture page as they happen: rooms in the order in which a running verb first enters them."""

import asyncio
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text(encoding="utf-8")
FREE = ("core", "compiled")
"""`core` is everywhere, compiled loops are not Python functions, and every import asks for paths that moved."""


def rooms_of_page(walk):
    body = re.split(r"^### ", PAGE.split(f"### {walk}\n")[1], flags=re.MULTILINE)[0]
    rooms = [path.split("/")[0] for path in re.findall(r"^\d+\. `([\w/]+\.py)`", body, flags=re.MULTILINE)]
    return list(dict.fromkeys(room for room in rooms if room not in FREE))


@contextmanager
def rooms_entered():
    """Notes the room of every function that is called; everything must have been imported before."""
    entered = []

    def note(frame, event, _argument):
        package, _, path = frame.f_globals.get("__name__", "").partition(".")
        room = path.split(".")[0]
        if event == "call" and package == "monocal" and room not in (*FREE, *entered):
            entered.append(room)

    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    pq.write_table(monocal.simulate_log(2_000, seed=1).table(), folder / "log.parquet")
    assert main(commands(folder)["fit"]) == 0
    return folder


def commands(folder):
    model, table = str(folder / "model"), str(folder / "log.parquet")
    columns = ["--score", "pctr", "--label", "click", "--fields", "device,country", "--time", "timestamp"]
    return {
        "fit": ["fit", table, *columns, "--method", "wide_logistic", "--out", model],
        "apply": ["apply", model, table, "--out", str(folder / "scored.parquet")],
        "report": ["report", model, table, "--out", str(folder / "report.html")],
    }


@pytest.mark.parametrize("verb", ["fit", "apply", "report"])
def test_verb(place, verb):
    assert main(commands(place)[verb]) == 0
    with rooms_entered() as entered:
        assert main(commands(place)[verb]) == 0
    assert entered == rooms_of_page(verb)


def test_request(place):
    from monocal.serving import Settings, create_app

    app = create_app(Settings(place / "model"))
    body = {"scores": {"click": [0.1]}, "fields": {"device": ["phone"], "country": ["DE"]}}

    async def ask():
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
        async with app.router.lifespan_context(app), client:
            first = await client.post("/v1/calibrate", json=body)
            assert first.status_code == 200, first.text
            with rooms_entered() as entered:
                await client.post("/v1/calibrate", json=body)
        return entered

    # the engine took the scorers out of the model when it was loaded
    assert asyncio.run(ask()) == [room for room in rooms_of_page("/v1/calibrate") if room != "models"]
