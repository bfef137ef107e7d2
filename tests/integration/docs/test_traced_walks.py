"""The files that a verb passes, as the architecture page lists them: traced from a verb that runs.

After a change that is meant: `python tests/integration/docs/test_traced_walks.py` writes the lists of the page again.
"""

import asyncio
import re
import sys
import tempfile
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import httpx
import pyarrow.parquet as pq

import monocal
from monocal.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"
SOURCE = Path(monocal.__file__).parent
HEAD = "## Four walks"
FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]


@contextmanager
def files_entered():
    """Notes every file of which a function is called, also in threads; all modules must have been imported before."""
    entered = {}

    def note(frame, event, _argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)) and name.endswith(".py"):
            entered.setdefault(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def traced(call):
    call()
    with files_entered() as entered:
        call()
    return [str(Path(name).relative_to(SOURCE)) for name in entered]


def requests(model):
    from monocal.serving import Settings, create_app

    app = create_app(Settings(model))
    body = {"scores": {"click": [0.1]}, "fields": {name: ["1"] for name in FIELDS}}

    async def ask():
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
        async with app.router.lifespan_context(app), client:
            assert (await client.post("/v1/calibrate", json=body)).status_code == 200
            with files_entered() as entered:
                await client.post("/v1/calibrate", json=body)
        return [str(Path(name).relative_to(SOURCE)) for name in entered]

    return asyncio.run(ask())


def walks(folder):
    """Returns the files of each walk, in the order in which a verb enters them."""
    log = monocal.simulate_log(4_000, seed=1).table()
    pq.write_table(log, folder / "log.parquet")
    columns = {"score": "pctr", "label": "click", "fields": FIELDS, "time": "timestamp"}
    monocal.fit(log, method="wide_logistic", **columns).save(folder / "model")

    def verb(*words):
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert main([*map(str, words)]) == 0

    model, table = folder / "model", folder / "log.parquet"
    return {
        "fit": traced(lambda: monocal.fit(log, method="umc", **columns)),
        "apply": traced(lambda: verb("apply", model, table, "--out", folder / "scored.parquet")),
        "/v1/calibrate": requests(model),
        "report": traced(lambda: verb("report", model, table, "--out", folder / "report.html")),
    }


def listed():
    """Returns the files of each walk as the page lists them: a line per package, with its files."""
    text = PAGE.read_text(encoding="utf-8").split(HEAD)[1]
    parts = re.split(r"^### (.+?) \(.+\)$", text, flags=re.MULTILINE)[1:]
    found = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        lines = re.findall(r"^- `([\w./]+)/`: (.+)$", body, flags=re.MULTILINE)
        found[name] = [f"{package}/{file}.py" for package, files in lines for file in files.split(", ")]
    return found


def test_the_page_lists_the_files_that_each_of_four_verbs_passes(tmp_path):
    found = {walk: sorted(files) for walk, files in walks(tmp_path).items()}
    assert {walk: sorted(files) for walk, files in listed().items()} == found
    assert len(found) == 4


def write_page():
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEAD)
    intro = (
        "The files of which a function is called, everything imported before; packages and files in the order in which "
        'a verb enters them. `fit` is `monocal.fit(log, method="umc")`; the others work with a `wide_logistic`.'
    )
    parts = [HEAD, intro]
    with tempfile.TemporaryDirectory() as folder:
        for name, paths in walks(Path(folder)).items():
            by_package = {}
            for path in paths:
                package, _, file = path.removesuffix(".py").rpartition("/")
                by_package.setdefault(package, []).append(file)
            lines = [f"- `{package}/`: {', '.join(files)}" for package, files in by_package.items()]
            parts += [f"### {name} ({len(paths)} files)", "\n".join(lines)]
    PAGE.write_text(before + "\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_page()
