"""monocal metrics."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli.options import Debug, Json
from monocal.cli.output import first_line, print_json, print_lines, print_table

EXAMPLES = """
monocal metrics
monocal metrics frce
monocal metrics --json
"""


def metrics(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Explain one metric.", show_default=False)] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Lists the metrics and what they want.

    With a name, explains one.
    """
    from inspect import cleandoc

    from monocal.cli.prose import wrapped
    from monocal.metrics import METRICS, metric

    if name is not None:
        chosen = metric(name)
        text = cleandoc(type(chosen).__doc__ or "")
        if as_json:
            print_json({"name": name, "goal": _goal(name), "text": text})
        else:
            print_lines(wrapped(f"{name}: {text}\n\nGoal: {_goal(name)}"))
        return
    table = [(key, first_line(kind.__doc__), _goal(key)) for key, kind in METRICS.items()]
    if as_json:
        print_json({key: {"summary": summary, "goal": goal} for key, summary, goal in table})
        return
    notes = [
        "frce and fece refer to the first field given, mfrce and mfece to all of them, gauc to --group.",
        "A metric in full: monocal metrics NAME.",
    ]
    print_table("Metrics", ["metric", "what it measures", "goal"], table, notes, left=3)


def _goal(name: str) -> str:
    from monocal.metrics import METRICS

    goal = METRICS[name].goal
    return f"toward {goal.target:g}" if goal.kind == "toward" else goal.kind
