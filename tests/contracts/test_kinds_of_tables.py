"""Whatever a table is handed over as, the predictions are the same bits."""

import io
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.tables.files import open_place
from monocal.tables.source import open_table

FIELDS = ["site_id", "country"]


@pytest.fixture(scope="module")
def log() -> pa.Table:
    # in the order of the countries, so that a folder partitioned by country holds the rows in the same order
    table = monocal.simulate_log(3_000, seed=1).table().select(["pctr", "click", *FIELDS])
    keys = pa.array([f"country_{int(value.split('_')[1]):02d}" for value in table["country"].to_pylist()])
    return table.set_column(3, "country", keys).sort_by("country")


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=FIELDS)


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    pq.write_table(log, folder / "log.parquet")
    pa_csv.write_csv(log, folder / "log.csv")
    (folder / "returns.csv").write_bytes((folder / "log.csv").read_bytes().replace(b"\n", b"\r"))
    (folder / "several").mkdir()
    for number, start in enumerate(range(0, log.num_rows, 1_000)):
        pq.write_table(log.slice(start, 1_000), folder / "several" / f"part-{number}.parquet")
    for kind in ("parquet", "csv"):
        ds.write_dataset(
            log, folder / f"hive-{kind}", format=kind, partitioning=ds.partitioning(_schema(log), flavor="hive")
        )
    (folder / "hive-parquet" / "_SUCCESS").touch()
    return folder


def _schema(log):
    return pa.schema([log.schema.field("country")])


def _duckdb(folder):
    import duckdb

    return duckdb.connect().sql(f"select * from '{folder}/log.parquet'")


def _polars(folder):
    return pytest.importorskip("polars").read_parquet(folder / "log.parquet")


def _memory(folder):
    import fsspec

    with fsspec.filesystem("memory").open("/logs/log.parquet", "wb") as write:
        write.write((folder / "log.parquet").read_bytes())
    return "memory://logs/log.parquet"


class _Served(BaseHTTPRequestHandler):
    """Serves the bytes of one file, whole or in ranges."""

    content = b""

    def do_HEAD(self):
        self._head(200, len(self.content))

    def do_GET(self):
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if not asked:
            self._head(200, len(self.content))
            self.wfile.write(self.content)
            return
        first, last = (int(part) for part in asked.split("-"))
        part = self.content[first : last + 1]
        self._head(206, len(part), f"bytes {first}-{first + len(part) - 1}/{len(self.content)}")
        self.wfile.write(part)

    def _head(self, status, length, span=""):
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(length))
        if span:
            self.send_header("Content-Range", span)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_table_on_the_web(model, log, folder):
    handler = type("Handler", (_Served,), {"content": (folder / "log.parquet").read_bytes()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            found = model.predict(f"http://127.0.0.1:{server.server_port}/log.parquet")
        finally:
            server.shutdown()
    assert np.array_equal(found, model.predict(log))


def _above(folder):
    """The folders of values are not those directly below; a log that is being written beside them is no part of it."""
    if not (folder / "above").exists():
        shutil.copytree(folder / "hive-parquet", folder / "above" / "2024" / "log")
        shutil.copytree(folder / "hive-parquet", folder / "above" / "_temporary" / "0")
    return folder / "above"


KINDS = {
    "file": lambda f: f / "log.parquet",
    "text": lambda f: str(f / "log.csv"),
    "text with returns alone": lambda f: f / "returns.csv",
    "folder": lambda f: f / "several",
    "glob": lambda f: str(f / "several" / "*.parquet"),
    "files": lambda f: sorted((f / "several").iterdir()),
    "Hive": lambda f: f / "hive-parquet",
    "Hive of CSV": lambda f: str(f / "hive-csv"),
    "glob of folders": lambda f: str(f / "hive-parquet" / "country=*"),
    "glob in folders": lambda f: str(f / "hive-parquet" / "*" / "*.parquet"),
    "glob through folders": lambda f: str(f / "hive-csv" / "**" / "*.csv"),
    "glob above": lambda f: str(f / "hive-p*"),
    "folders": lambda f: sorted(f.glob("hive-parquet/country=*")),
    "files in folders": lambda f: sorted(map(str, f.glob("hive-csv/*/*.csv"))),
    "folder above": _above,
    "URI": lambda f: (f / "log.parquet").as_uri(),
    "URI of a partitioned folder": lambda f: (f / "hive-parquet").as_uri(),
    "URI through fsspec": _memory,
    "pandas": lambda f: pq.read_table(f / "log.parquet").to_pandas(),
    "polars": _polars,
    "polars, lazy": lambda f: _polars(f).lazy(),
    "duckdb": _duckdb,
    "dataset": lambda f: ds.dataset(f / "several"),
    "dataset in memory": lambda f: ds.dataset(pq.read_table(f / "log.parquet")),
    "scanner": lambda f: ds.dataset(f / "several").scanner(),
    "reader": lambda f: pq.read_table(f / "log.parquet").to_reader(),
    "mapping": lambda f: pq.read_table(f / "log.parquet").to_pydict(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_bits(kind, model, log, folder):
    assert np.array_equal(model.predict(KINDS[kind](folder)), model.predict(log))


@pytest.mark.parametrize("kind", ["Hive", "files", "polars, lazy", "dataset"])
def test_a_fit_on_it_is_the_same_fit(kind, model, log, folder):
    again = monocal.fit(KINDS[kind](folder), method="wide_logistic", score="pctr", label="click", fields=FIELDS)
    assert np.array_equal(again.predict(log), model.predict(log))


def test_standard_input_and_several_paths_on_the_command_line(model, log, folder, tmp_path):
    model.save(tmp_path / "model")
    parts = [str(path) for path in sorted((folder / "several").iterdir())]
    given = {"log.parquet": ["-"], "log.csv": ["-"], "": parts}
    for number, (source, tables) in enumerate(given.items()):
        out = tmp_path / f"out-{number}.parquet"
        content = (folder / source).read_bytes() if source else b""
        subprocess.run(
            [sys.executable, "-m", "monocal", "apply", str(tmp_path / "model"), *tables, "--out", str(out)],
            input=content,
            check=True,
            capture_output=True,
        )
        assert np.array_equal(pq.read_table(out)["pctr_calibrated"].to_numpy(), model.predict(log)), source


def test_files_of_partitions_without_a_column_or_without_their_value_are_refused(log, tmp_path):
    one = log.slice(0, 5).drop(["country"])
    for value, table in (("a", one), ("b", one.drop(["site_id"]))):
        (tmp_path / f"country={value}").mkdir()
        pq.write_table(table, tmp_path / f"country={value}" / f"{value}.parquet")
    for place in (tmp_path, str(tmp_path / "*" / "*.parquet")):
        with pytest.raises(InvalidInput, match=r"b\.parquet without column 'site_id'"):
            open_table(place)
    (tmp_path / "country=b" / "b.parquet").rename(tmp_path / "c.parquet")
    pq.write_table(one, tmp_path / "c.parquet")
    for place in (tmp_path, [tmp_path / "c.parquet", *tmp_path.glob("*/a.parquet")]):
        with pytest.raises(InvalidInput, match=r"c\.parquet without column 'country'"):
            open_table(place)


def test_an_equals_sign_above_the_table_is_no_column(log, tmp_path):
    place = tmp_path / "run=7" / "several"
    place.mkdir(parents=True)
    for number in range(2):
        pq.write_table(log, place / f"{number}.parquet")
    for table in (place, place / "*.parquet", sorted(place.iterdir()), place / "0.parquet"):
        assert open_table(table).column_names == log.column_names


def test_a_place_that_nothing_opens_names_the_extra():
    with pytest.raises(InvalidInput, match=r"monocal\[remote\]"):
        open_place("nowhere://bucket/log.parquet", "table")


def test_a_place_without_a_table_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="a place with Parquet or CSV files"):
        open_table((tmp_path / "absent.parquet").as_uri())
    (tmp_path / "day=1").mkdir()
    with pytest.raises(InvalidInput, match="a folder with Parquet or CSV files"):
        open_table(tmp_path)


def test_empty_standard_input_is_refused(monkeypatch):
    from monocal.cli.arguments import spool_standard_input

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b""))))
    with pytest.raises(InvalidInput, match="empty standard input"):
        spool_standard_input()
