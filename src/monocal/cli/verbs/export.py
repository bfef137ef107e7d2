"""monocal export."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from monocal.cli.options import Debug, Json, ModelArgument, Out
from monocal.cli.output import print_json, remark

EXAMPLES = """
monocal export model/ --to onnx --out model.onnx
monocal export model/ --out model.onnx --inputs ids
monocal export model/ --out model.onnx --tolerance 1e-5 --nodes 400
"""


def export(
    model: ModelArgument,
    out: Out,
    to: Annotated[Literal["onnx"], typer.Option("--to", help="The format.")] = "onnx",
    inputs: Annotated[
        Literal["values", "ids"],
        typer.Option("--inputs", help="Whether the graph takes raw field values or ids of the model's vocabulary."),
    ] = "values",
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0.0,
            help="Largest difference to predict that is accepted; 1e-6 if not given, 1e-4 with fixed nodes.",
        ),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option("--nodes", min=1, help="Nodes of an integral that ONNX cannot express (umc, integrand concat)."),
    ] = 128,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Writes a model as ONNX and proves that it agrees.

    The graph is run on thousands of rows beside the model; beyond the tolerance nothing is written.
    """
    from dataclasses import asdict

    from monocal.core.files import check_output
    from monocal.core.outputs import output_file
    from monocal.models import load_model
    from monocal.models.onnx import export_onnx

    target = output_file(out)
    check_output(target, [model])
    done = export_onnx(load_model(model), target, inputs=inputs, tolerance=tolerance, n_nodes=nodes)
    if as_json:
        print_json({"to": to, **asdict(done)})
        return
    remark(f"wrote {done.path}")
    remark(
        f"  largest difference to predict: {done.largest_difference:.1e} on {done.n_rows:,} rows "
        f"(accepted: {done.tolerance:.0e})"
    )
    if done.n_nodes is not None:
        remark(f"  its integral is taken at {done.n_nodes} nodes, not in closed form")
    remark(f"  inputs: {', '.join(done.inputs)}")
    remark(f"  outputs: {', '.join(done.outputs)}")
