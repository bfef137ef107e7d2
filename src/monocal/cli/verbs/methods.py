"""monocal methods."""

from __future__ import annotations

from typing import Annotated

import typer

from monocal.cli.options import Debug, Json
from monocal.cli.output import print_json, print_lines, print_table

EXAMPLES = """
monocal methods
monocal methods umc
monocal methods --json
"""


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Tell everything about one method.", show_default=False)
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Lists the calibration methods and their guarantees.

    With a name, explains one method and its options.
    """
    from monocal.calibrators import calibrator
    from monocal.calibrators import methods as every_method

    if name is not None:
        _explain(calibrator(name), as_json)
        return
    if as_json:
        print_json({one.name: {"summary": one.summary, "tags": one.tags.as_dict()} for one in every_method()})
        return
    rows = [
        (one.name, one.summary, one.tags.monotone, one.tags.features, "yes" if one.tags.keeps_mean else "")
        for one in every_method()
    ]
    notes = [
        "monotone: a higher score never gets a lower probability for the same features (weak: ties are allowed).",
        "keeps mean: on the fitting rows the mean prediction equals the observed rate.",
        "Options of a method: monocal methods NAME.",
    ]
    print_table("Methods", ["method", "what it does", "monotone", "features", "keeps mean"], rows, notes, left=5)


def _explain(one: object, as_json: bool) -> None:
    from inspect import cleandoc

    from monocal.calibrators import Calibrator

    assert isinstance(one, Calibrator)
    options = one.get_params(deep=False)
    text = cleandoc(type(one).__doc__ or "")
    if as_json:
        print_json({"name": one.name, "tags": one.tags.as_dict(), "options": options, "text": text})
        return
    tags = ", ".join(f"{key} {value}" for key, value in one.tags.as_dict().items())
    lines = [f"{one.name}: {text}", "", f"Promises: {tags}", "", "Options (--set name=value):"]
    lines += [f"  {key} = {value!r}" for key, value in options.items()]
    print_lines("\n".join(lines))
