"""monocal bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monocal.cli.options import Debug, Json
from monocal.cli.output import print_json, print_lines, print_table, remark
from monocal.core.errors import InvalidInput

EXAMPLES = """
monocal bench --list
monocal bench main --out runs/main
monocal bench main --out runs/smoke --rows 2000
monocal bench promotions --data "promotions, 100,000 rows" --calibrator isotonic
monocal bench paper --out runs/paper --data promotions --epochs 2
monocal bench persistence --data-dir logs/
monocal bench ab --out runs/ab
monocal bench my_study.toml --out runs/mine --data-dir logs/ --workers 2
"""


def bench(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="A TOML file, or the name of a shipped study.", show_default=False),
    ] = None,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FOLDER", help="Keeps cells and results; the same folder resumes."),
    ] = "runs",
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="FOLDER", help="The folder of real logs.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Cells at once, one thread each.")] = 2,
    memory_gib: Annotated[
        float, typer.Option("--memory-gib", min=0.1, help="Memory of all running cells together.")
    ] = 16.0,
    rows: Annotated[
        int | None, typer.Option("--rows", min=100, help="At most so many rows per part and one seed: a smoke run.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="NAME", help="Only this data set of the study; may be repeated."),
    ] = None,
    calibrator: Annotated[
        list[str] | None,
        typer.Option("--calibrator", metavar="NAME", help="Only this calibrator of the study; may be repeated."),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, help="Passes of published recipes, instead of their own number; rows say so."),
    ] = None,
    finished_only: Annotated[
        bool, typer.Option("--finished-only", help="Run nothing; write the table of the cells that are finished.")
    ] = False,
    retry_skipped: Annotated[
        bool, typer.Option("--retry-skipped", help="Try cells again that were skipped before.")
    ] = False,
    list_studies: Annotated[bool, typer.Option("--list", help="List the shipped studies and stop.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Runs a study and writes its leaderboard.

    A study is data × calibrators × seeds, or an online experiment with simulated users. Finished cells are never
    repeated: an interrupted study goes on with the same command.
    """
    from monocal.lab.studies.cell_runner import RunOptions
    from monocal.lab.studies.run_study import run_file
    from monocal.lab.studies.study import read_entries, shipped_studies

    if list_studies:
        questions = {name: str(read_entries(name)[0]["question"]) for name in shipped_studies()}
        if as_json:
            print_json(questions)
        else:
            print_table("Studies", ["study", "what it asks"], list(questions.items()), left=2)
        return
    if study is None:
        raise InvalidInput.of("STUDY", None, "a TOML file or a shipped study", "see monocal bench --list")
    options = RunOptions(workers, int(memory_gib * 2**30), data_dir, retry_skipped, finished_only)
    leaderboard = run_file(
        study, out, options, smoke_rows=rows, data=data or (), calibrators=calibrator or (), n_epochs=epochs
    )
    text = leaderboard.read_text(encoding="utf-8")
    if as_json:
        print_json({"leaderboard": leaderboard, "markdown": text})
    else:
        print_lines(text)
        remark(f"written to {leaderboard}")
