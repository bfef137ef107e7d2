"""The two verbs that a newcomer starts with, `monocal demo` and `monocal simulate`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from urllib.request import Request, urlopen

import typer

from monocal.cli.options import Names, Natural, Range
from monocal.cli.output import print_json, print_table, remark
from monocal.core.errors import InvalidInput, MonocalError
from monocal.core.files import atomic_file, output_folder

WORLD = "conditional"
"""A score that is wrong in a way that depends on where it is shown, which is what calibration by fields is for."""

_MARK = "demo.json"


def demo(
    *, out: str = "runs/demo", rows: Annotated[int, Range(5000)] = 100_000, seed: Natural = 0, as_json: bool = False
) -> None:
    """Goes all the way once, on a simulated log.

    A click log is simulated, `monocal calibrate` judges it and saves a model, and a service answers one request.

    Arguments:
        out (FOLDER): What to write: log.parquet, new.parquet (later rows) and box.
        rows: Rows of the log; a fifth as many are later ones.

    Examples:
        monocal demo
        monocal demo --out runs/demo --rows 500000 --seed 1
    """
    import pyarrow.parquet as pq

    from monocal.cli.fit import calibrate
    from monocal.lab.simulator import simulate_log

    folder = output_folder(out)
    _claim(folder)
    table = simulate_log(rows + rows // 5, seed, WORLD).table()
    log, new, box = folder / "log.parquet", folder / "new.parquet", folder / "box"
    for place, part in ((log, table.slice(0, rows)), (new, table.slice(rows))):
        with atomic_file(place) as temporary:
            pq.write_table(part, temporary)
    remark(f"simulated {rows:,} rows as {log} and {rows // 5:,} later ones as {new}")
    remark(f"$ monocal calibrate {log} --score pctr --label click --time timestamp --out {box}")
    calibrate([str(log)], out=str(box), score="pctr", label="click", time="timestamp", as_json=as_json)
    if find_spec("uvicorn") is None:
        remark("no service: pip install 'monocal[serve]'")
        return
    from monocal.models import load_model

    row = table.slice(rows, 1)
    fields = row.select(list(load_model(box / "model").field_names)).to_pydict()
    request = {"scores": {"click": row["pctr"].to_pylist()}, "fields": fields}
    remark(f"$ monocal serve {box / 'model'}, asked once: POST /v1/calibrate {json.dumps(request)}")
    answer = ask_once(box / "model", request)
    if as_json:
        remark(json.dumps(answer))  # the one document is the verdict
    else:
        print_json(answer)


def ask_once(model: Path, request: Mapping[str, Any]) -> Any:
    """Serves a model on a free port of this machine for one request, and returns the answer.

    Arguments:
        model: The folder of a saved model.
        request: The body of /v1/calibrate.
    """
    words = [sys.executable, "-m", "monocal", "serve", str(model), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        try:
            events = (json.loads(line) for line in service.stderr if line.startswith("{"))
            port = next((event["port"] for event in events if event.get("event") == "listening"), None)
            if port is None:
                raise MonocalError("the service did not start. Hint: monocal serve says why")
            url, body = f"http://127.0.0.1:{port}/v1/calibrate", json.dumps(request).encode()
            with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=60) as answer:
                return json.load(answer)
        finally:
            service.terminate()


def _claim(folder: Path) -> None:
    """Marks the folder as that of a demo, or refuses it: nothing that another wrote is replaced."""
    taken = [name for name in ("log.parquet", "new.parquet", "box") if (folder / name).exists()]
    if taken and not (folder / _MARK).is_file():
        got = f"{str(folder)!r}, which holds {', '.join(taken)} from elsewhere"
        raise InvalidInput.of("output folder", got, "a new folder, or that of an earlier demo", "choose another folder")
    with atomic_file(folder / _MARK) as temporary:
        temporary.write_text('{"format": "monocal demo", "schema_version": 1}\n', encoding="utf-8")


def simulate(
    path: str | None = None,
    *,
    rows: str = "100_000",
    world: str = "default",
    tasks: Names = None,
    seed: Natural = 0,
    list_worlds: Annotated[bool, typer.Option("--list", help="List the worlds and stop.")] = False,
    as_json: bool = False,
) -> None:
    """Writes a click log whose true probabilities are known.

    Columns: timestamp, user_id, one per field, then for each task a score (pctr, pev, plv), a label (click, …) and
    the truth (true_p, …).

    Arguments:
        path (PATH): The Parquet file to write.
        rows (NUMBER): How many impressions.
        world (NAME): Which kind of log; see --list.
        tasks (NAMES): click, effective_view, long_view.

    Examples:
        monocal simulate log.parquet
        monocal simulate big.parquet --rows 10_000_000 --world large
        monocal simulate videos.parquet --world multitask
        monocal simulate search.parquet --world search
        monocal simulate --list
    """
    from monocal.lab.simulator import WORLDS, write_simulated_log
    from monocal.lab.simulator.search import FIELDS
    from monocal.lab.simulator.worlds import SEARCH, SEARCH_SUMMARY

    if list_worlds:
        if as_json:
            print_json({**{name: world.summary for name, world in WORLDS.items()}, SEARCH: SEARCH_SUMMARY})
        else:
            table = [(name, world.summary, str(len(world.fields))) for name, world in WORLDS.items()]
            table.append((SEARCH, SEARCH_SUMMARY, str(len(FIELDS))))
            print_table("Worlds", ["world", "what it is", "fields"], table, left=2)
        return
    if path is None or not path.endswith(".parquet"):
        given = None if path is None else repr(path)
        raise InvalidInput.of("PATH", given, "a file ending in .parquet", "write monocal simulate log.parquet")
    n_rows = _count(rows)
    write_simulated_log(path, n_rows, seed=seed, world=world, tasks=tuple(tasks or ()) or None)
    if as_json:
        print_json({"out": path, "n_rows": n_rows, "world": world, "seed": seed})
    else:
        remark(f"wrote {n_rows:,} rows of the world {world!r} to {path}")


def _count(text: str) -> int:
    try:
        number = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = 0.5
    if number != int(number):
        raise InvalidInput.of("--rows", repr(text), "a whole number", "write 100_000 or 1e5")
    return int(number)
