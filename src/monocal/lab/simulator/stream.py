"""Simulated logs larger than memory: batches, and a Parquet file written as it is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, output_file
from monocal.core.process import progress
from monocal.lab.simulator.distortions import Distortion
from monocal.lab.simulator.log import SimulatedLog, check_n_rows, concatenate, simulate_block
from monocal.lab.simulator.outcomes import check_tasks
from monocal.lab.simulator.truth import BLOCK_ROWS, draw_truth
from monocal.lab.simulator.worlds import SEARCH, World, find_world

_ROW_GROUP = 16 * BLOCK_ROWS


def simulate_batches(
    n: int,
    seed: int = 0,
    world: str | World = "default",
    distortion: Distortion | None = None,
    tasks: tuple[str, ...] | None = None,
    batch_rows: int = _ROW_GROUP,
) -> Iterator[SimulatedLog]:
    """Yields the rows of `simulate_log` with the same arguments, batch by batch, in bounded memory.

    Arguments:
        n: How many rows in all.
        seed: As in `simulate_log`, like the next three.
        world: A name or a World.
        distortion: Instead of the world's own.
        tasks: Which tasks.
        batch_rows: Rows per batch; the rows themselves do not depend on it.

    Example:
        >>> [batch.n_rows for batch in simulate_batches(1000, batch_rows=400)]
        [400, 400, 200]
    """
    check_n_rows(n)
    if batch_rows < 1:
        raise InvalidInput.of("batch_rows", batch_rows, "at least one row", "leave it out for a good size")
    if world == SEARCH:
        from monocal.lab.simulator.search import simulate_search

        # a user's past runs through the whole log
        whole = simulate_search(n, seed)
        yield from (whole.take(slice(start, start + batch_rows)) for start in range(0, n, batch_rows))
        return
    truth = draw_truth(find_world(world), distortion)
    chosen = check_tasks(truth.world.tasks if tasks is None else tasks)
    waiting: list[SimulatedLog] = []
    n_waiting = 0
    for number in range(-(-n // BLOCK_ROWS)):
        waiting.append(simulate_block(truth, seed, number, n, chosen))
        n_waiting += waiting[-1].n_rows
        if n_waiting < batch_rows:
            continue
        whole = concatenate(waiting)
        start = 0
        while n_waiting - start >= batch_rows:
            yield whole.take(slice(start, start + batch_rows))
            start += batch_rows
        waiting, n_waiting = ([whole.take(slice(start, None))], n_waiting - start) if start < n_waiting else ([], 0)
    if waiting:
        yield concatenate(waiting)


def write_simulated_log(
    path: str | Path,
    n: int,
    seed: int = 0,
    world: str | World = "default",
    distortion: Distortion | None = None,
    tasks: tuple[str, ...] | None = None,
    show_progress: bool | None = None,
) -> Path:
    """Writes a simulated log to one Parquet file (columns as in `SimulatedLog.table`), row group by row group.

    Memory does not grow with the number of rows. The file appears whole or not at all.

    Arguments:
        path: The file to write.
        n: How many rows.
        seed: As in `simulate_log`, like the next three.
        world: A name or a World.
        distortion: Instead of the world's own.
        tasks: Which tasks.
        show_progress: True or False to decide; None shows a bar on a terminal.
    """
    import pyarrow.parquet as parquet

    check_n_rows(n)
    target = output_file(path)
    with atomic_file(target) as temporary, progress("simulating", n, show=show_progress) as bar:
        writer = None
        for batch in simulate_batches(n, seed, world, distortion, tasks):
            table = batch.table()
            if writer is None:
                floats = [name for name in table.column_names if table.schema.field(name).type == "double"]
                # Scores hardly repeat, so a dictionary would only cost time.
                strings = [name for name in table.column_names if name not in floats]
                writer = parquet.ParquetWriter(temporary, table.schema, use_dictionary=strings, compression="zstd")
            writer.write_table(table, row_group_size=_ROW_GROUP)
            bar.advance(batch.n_rows)
        if writer is not None:
            writer.close()
    return target
