"""monocal demo."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from monocal.cli.options import Debug, Json, Seed
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal demo
monocal demo --out runs/demo --rows 500000 --seed 1
"""


def demo(
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="What to write.")] = "runs/demo",
    rows: Annotated[int, typer.Option("--rows", min=5000, help="Rows of the simulated log.")] = 150_000,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Goes all the way once, on a simulated log.

    A click log is simulated, ranked and calibrated with many methods; a model is saved. The oldest 60 % of
    the rows train the ranker; then the page changes and the ranker does not. The next 20 % fit calibrators, the
    newest 20 % judge them.
    """
    from monocal.lab.demo import LEFT_OUT, SAVED_METHOD, run_demo

    found = run_demo(out, n_rows=rows, seed=seed)
    remark(found.comparison.holdout.explanation)
    if as_json:
        print_json(
            found.comparison.as_dict()
            | {
                "errors_to_truth": found.errors,
                "lead": None if found.lead is None else asdict(found.lead),
                "model": str(found.model_folder),
                "report": str(found.report),
            }
        )
        return
    from monocal.cli.tables import print_comparison

    print_comparison(found.comparison)
    if found.lead is not None:
        typer.echo(f"\n{found.lead}")
    typer.echo("\nMean absolute error to the true probability, which only a simulator knows:")
    for method, error in sorted(found.errors.items(), key=lambda item: item[1]):
        typer.echo(f"  {method:<14} {error:.5f}")
    typer.echo(f"\nmodel   {found.model_folder}\nscores  {found.scored_log}\nreport  {found.report}")
    calibrated = found.test_log.with_name("calibrated.parquet")
    started = Path(sys.argv[0])
    command = f"{shlex.quote(sys.executable)} -m monocal" if started.suffix == ".py" else shlex.quote(str(started))
    typer.echo(
        f"\nTry next:\n  {command} inspect {found.model_folder}"
        f"\n  {command} apply {found.model_folder} {found.test_log} --out {calibrated}"
        f"\nand {LEFT_OUT}, which takes longer than all methods above together, on the same rows:"
        f"\n  {command} compare {found.scored_log} --methods {SAVED_METHOD},{LEFT_OUT} --score pctr --label click "
        f"--fields {','.join(found.fields)} --time timestamp --group user_id --holdout 0.5"
    )
