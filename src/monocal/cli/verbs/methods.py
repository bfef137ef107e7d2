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
        str | None, typer.Argument(metavar="NAME", help="Explain one method and its options.", show_default=False)
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
        print_json(
            {method.name: {"summary": method.summary, "tags": method.tags.as_dict()} for method in every_method()}
        )
        return
    rows = [
        (
            method.name,
            method.summary,
            method.tags.monotone,
            method.tags.features,
            "yes" if method.tags.keeps_mean else "",
        )
        for method in every_method()
    ]
    notes = [
        "monotone: a higher score never gets a lower probability for the same features (weak: ties are allowed).",
        "keeps mean: on the fitting rows the mean prediction equals the observed rate.",
        "Options of a method: monocal methods NAME.",
    ]
    print_table("Methods", ["method", "what it does", "monotone", "features", "keeps mean"], rows, notes, left=5)


def _explain(calibrator: object, as_json: bool) -> None:
    from inspect import cleandoc
    from textwrap import wrap

    from monocal.calibrators import Calibrator
    from monocal.calibrators.arguments import arguments_of
    from monocal.cli.prose import wrapped

    assert isinstance(calibrator, Calibrator)
    options = calibrator.get_params(deep=False)
    text = cleandoc(type(calibrator).__doc__ or "")
    if as_json:
        explained = {argument.name: argument.meaning for argument in arguments_of(type(calibrator))}
        facts = {"name": calibrator.name, "tags": calibrator.tags.as_dict(), "options": options, "meanings": explained}
        print_json({**facts, "text": text})
        return
    # the arguments are told below, those of the base classes with them; examples are python, for the docs
    about = text.partition("\nArguments:\n")[0].partition("\nExample:\n")[0]
    tags = ", ".join(f"{key} {value}" for key, value in calibrator.tags.as_dict().items())
    told = wrapped(f"{calibrator.name}: {about.rstrip()}")
    lines = [told, "", *wrap(f"Promises: {tags}", 80), "", "Options (--set name=value):"]
    for argument in arguments_of(type(calibrator)):
        possible = f" Possible: {argument.wish}." if argument.wish else ""
        lines += [f"  {argument.name} = {argument.default!r}"]
        lines += wrap(argument.meaning + possible, 80, initial_indent="      ", subsequent_indent="      ")
    print_lines("\n".join(lines))
