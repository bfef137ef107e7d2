"""How long a raw log takes to become ids on disk, how much memory that needs, and how fast batches come back.

python benchmarks/speed/data_speed.py                   # 20 million rows × 21 text columns, several minutes
python benchmarks/speed/data_speed.py --rows 500000     # a quick look

The log is made once (values follow a power law; the numbers of values are those of a public click log, up to 6.7
million in one column) and kept in --folder. Every measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

_ROOT = Path(__file__).resolve().parents[2]
_SIZES = (7, 7, 4737, 7745, 26, 8552, 559, 36, 2686408, 6729486, 8251, 5, 4, 2626, 8, 9, 435, 4, 68, 172, 60)
_FIELDS = tuple(f"f{index:02d}" for index in range(len(_SIZES)))
_BATCH_ROWS = 16_384
_CSV_ROWS = 1_000_000


def main() -> None:
    arguments = _arguments()
    if arguments.step:
        print(json.dumps(_STEPS[arguments.step](arguments.log, arguments.folder)))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    whole = _log(arguments.folder / f"log_{arguments.rows}.parquet", arguments.rows)
    part = _log(arguments.folder / f"log_{max(arguments.rows // 10, 1)}.parquet", max(arguments.rows // 10, 1))
    text = _text_log(arguments.folder, whole, min(_CSV_ROWS, arguments.rows))
    load = os.getloadavg()[0]
    measured = {
        "nothing but imports": _measure("import", whole, arguments.folder),
        "Parquet": _measure("encode", whole, arguments.folder),
        "batches": _measure("batches", whole, arguments.folder),
        "a tenth": _measure("encode", part, arguments.folder),
        "text": _measure("encode", text, arguments.folder),
    }
    lines = _report(arguments.rows, measured, whole.stat().st_size, load)
    print("\n".join(lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, default=_ROOT / "runs" / "bench-data", help="where the logs are kept")
    parser.add_argument("--step", choices=sorted(_STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _report(n_rows: int, measured: dict, n_bytes: int, load: float) -> list[str]:
    encoded, tenth, text, batches = (measured[name] for name in ("Parquet", "a tenth", "text", "batches"))
    base = measured["nothing but imports"]

    def row(what: str, measured: dict) -> str:
        speed = measured["n_rows"] / measured["cpu_s"] / 1e3
        return (
            f"| {what} | {measured['n_rows']:,} | {measured['cpu_s']:.1f} | {measured['wall_s']:.1f} "
            f"| {measured['peak_mib']:,.0f} | {speed:,.0f} k |"
        )

    return [
        "# Speed of the data pipeline",
        "",
        f"`python benchmarks/speed/data_speed.py --rows {n_rows}`",
        "",
        f"{len(_FIELDS)} text columns, {min(_SIZES)} to {max(_SIZES):,} possible values each, power law; Parquet file "
        f"of {n_bytes / 1e6:,.0f} MB. Values counted in the training part (60 % of the rows), minimum count 2, "
        f"{encoded['n_values']:,} values kept. {platform.machine()}, {os.cpu_count()} cores shared with other work "
        f"(load average {load:.1f} at the start): CPU seconds, user and system, over all threads, are the figure to "
        "trust.",
        "",
        "| encode_log | rows | CPU s | wall s | peak RSS MiB | rows per CPU s |",
        "| --- | --- | --- | --- | --- | --- |",
        row("from Parquet", encoded),
        row("from Parquet, a tenth of the rows", tenth),
        row("from CSV", text),
        "",
        f"A process that only imports the package has {base['peak_mib']:,.0f} MiB. Memory grows with the number of "
        "distinct values, not of rows.",
        "",
        f"| batches of {_BATCH_ROWS:,} × {len(_FIELDS)} from the memory map | rows/s, CPU time | rows/s, wall time |",
        "| --- | --- | --- |",
        f"| block-shuffled | {batches['shuffled_cpu'] / 1e6:.1f} M | {batches['shuffled_wall'] / 1e6:.1f} M |",
        f"| in order | {batches['ordered_cpu'] / 1e6:.1f} M | {batches['ordered_wall'] / 1e6:.1f} M |",
        "",
        f"Peak RSS of a process that reads all batches twice: {batches['peak_mib']:,.0f} MiB "
        f"(the ids alone are {n_rows * len(_FIELDS) * 4 / 2**20:,.0f} MiB).",
        "",
    ]


def _log(path: Path, n_rows: int) -> Path:
    """Makes the log unless it is there; written block by block and renamed when whole."""
    if path.exists():
        return path
    rng = np.random.default_rng(0)
    columns = [("click", pa.int8()), ("time", pa.int64()), *((name, pa.string()) for name in _FIELDS)]
    unfinished = path.with_suffix(".part")
    with pq.ParquetWriter(unfinished, pa.schema(columns), compression="snappy") as writer:
        for start in range(0, n_rows, 500_000):
            n = min(500_000, n_rows - start)
            clicks = pa.array(rng.random(n) < 0.17).cast(pa.int8())
            texts = [_text_column(rng, n, size, place) for place, size in enumerate(_SIZES)]
            arrays = [clicks, pa.array(np.arange(start, start + n)), *texts]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns)))
    unfinished.replace(path)
    return path


def _text_column(rng: np.random.Generator, n_rows: int, n_values: int, place: int) -> pa.Array:
    """Value v is drawn with a density proportional to v^(-2/3), and spelled with eight hexadecimal digits."""
    used, which = np.unique((n_values * rng.random(n_rows) ** 3).astype(np.uint64), return_inverse=True)
    spelled = (used * np.uint64(0x9E3779B97F4A7C15) + np.uint64(place)) >> np.uint64(32)
    texts = pa.array([f"{value:08x}" for value in spelled.tolist()])
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), texts).cast(pa.string())


def _text_log(folder: Path, log: Path, n_rows: int) -> Path:
    path = folder / f"log_{n_rows}.csv"
    if not path.exists():
        with pq.ParquetFile(log) as file:
            rows = pa.Table.from_batches(_first(file.iter_batches(), n_rows))
        pa_csv.write_csv(rows.slice(0, n_rows), path.with_suffix(".part"), pa_csv.WriteOptions(quoting_style="none"))
        path.with_suffix(".part").replace(path)
    return path


def _first(batches, n_rows: int) -> list:
    held, n = [], 0
    for batch in batches:
        held.append(batch)
        n += batch.num_rows
        if n >= n_rows:
            break
    return held


def _measure(step: str, log: Path, folder: Path) -> dict:
    command = [sys.executable, __file__, "--step", step, "--log", str(log), "--folder", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def _only_import(_log: Path, _folder: Path) -> dict:
    import monocal.lab.prepare.encoder

    return {"module": monocal.lab.prepare.encoder.__name__, "peak_mib": _peak_mib()}


def _encode(log: Path, folder: Path) -> dict:
    from monocal.lab.prepare.encoder import encode_log
    from monocal.tables.roles import Roles

    target = folder / f"encoded_{log.stem}_{log.suffix[1:]}"
    shutil.rmtree(target, ignore_errors=True)
    wall, cpu = time.perf_counter(), time.process_time()
    encoded = encode_log(log, Roles(label="click", fields=_FIELDS, time="time"), target)
    return {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": _peak_mib(),
        "n_rows": encoded.n_rows,
        "n_values": sum(encoded.field_sizes) - encoded.n_fields,
    }


def _batches(log: Path, folder: Path) -> dict:
    from monocal.lab.prepare.encoded_log import EncodedLog
    from monocal.neural.batches import batches_in_order, shuffled_batches

    encoded = EncodedLog.open(folder / f"encoded_{log.stem}_{log.suffix[1:]}")
    result = {}
    columns = {"features": encoded.features}
    orders = {
        "shuffled": shuffled_batches(columns, _BATCH_ROWS, seed=1, epoch=0),
        "ordered": batches_in_order(columns, _BATCH_ROWS),
    }
    for name, batches in orders.items():
        wall, cpu, check = time.perf_counter(), time.process_time(), 0
        for batch in batches:
            # touching every id, as a training step would; in order, batches are views until then
            check += int(batch["features"].sum())
        result[f"{name}_wall"] = encoded.n_rows / (time.perf_counter() - wall)
        result[f"{name}_cpu"] = encoded.n_rows / (time.process_time() - cpu)
        result[f"{name}_check"] = check
    assert result["shuffled_check"] == result["ordered_check"]
    return result | {"peak_mib": _peak_mib()}


def _peak_mib() -> float:
    """The peak of this program alone: what getrusage says may stem from the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


_STEPS = {"import": _only_import, "encode": _encode, "batches": _batches}


if __name__ == "__main__":
    main()
