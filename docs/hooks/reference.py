"""Writes the pages of methods and metrics from the export lists and lists the decisions: nothing can be forgotten."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files

_METHODS = """# Methods

Every method is a calibrator with the same `fit` and `predict`; `monocal.calibrator("platt")` makes one by name, and
`monocal.fit(table, method="platt", …)` uses it on a table. Which one to take:
[Which method?](../guides/which_method.md)

*Monotone* means: for a fixed feature row a higher score never gets a lower probability (*strict*: gets a higher one;
*weak*: ties are possible). *Keeps the mean*: on the fitting rows the mean prediction is the observed rate. All of it
is checked by contract tests on fitted models.

| name | what it does to the score | monotone | features | keeps the mean |
| --- | --- | --- | --- | --- |
"""

_METRICS = """# Metrics

Every metric is an additive state with a value: batches can be summed in any order, and each value can carry a bootstrap
interval and a noise floor, see [Is this difference real?](../guides/is_it_real.md). What is undefined is NaN with a
reason. In the formulas $y_i$ is the label of row i, $p_i$ its prediction and n the number of rows; with weights, row i
counts $w_i$ times.

| name | better is | what it measures |
| --- | --- | --- |
"""


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Adds the generated pages."""
    files.append(File.generated(config, "reference/methods.md", content=_methods()))
    files.append(File.generated(config, "reference/metrics.md", content=_metrics()))
    return files


def _methods() -> str:
    from monocal.calibrators import CALIBRATORS, methods

    rows = "".join(
        f"| [`{method.name}`](#{method.name}) | {_in_a_table(method.summary)} | {method.tags.monotone} | "
        f"{method.tags.features} | {'yes' if method.tags.keeps_mean else ''} |\n"
        for method in methods()
    )
    parts = [_entry(name, kind) + _arguments(kind) for name, kind in CALIBRATORS.items()]
    return _METHODS + rows + "".join(parts)


def _arguments(kind: type) -> str:
    from monocal.calibrators.contract import arguments_of

    rows = "".join(
        f"| `{argument.name}` | `{argument.default!r}` | {_in_a_table(argument.meaning)} | {argument.expected} |\n"
        for argument in arguments_of(kind)
    )
    return f"\nAll arguments:\n\n| name | default | meaning | possible values |\n| --- | --- | --- | --- |\n{rows}"


def _metrics() -> str:
    from monocal.metrics import METRICS

    goals = {"minimize": "lower", "maximize": "higher", "toward": "closer to 1"}
    summaries = {name: (kind.__doc__ or "").strip().splitlines()[0] for name, kind in METRICS.items()}
    rows = "".join(
        f"| [`{name}`](#{name}) | {goals[kind.goal.kind]} | {_in_a_table(summaries[name])} |\n"
        for name, kind in METRICS.items()
    )
    parts = [_entry(name, kind) for name, kind in METRICS.items()]
    return _METRICS + rows + "".join(parts)


def _in_a_table(words: str) -> str:
    # a bar would end the cell
    return re.sub(r":math:`([^`]+)`", lambda found: f"${found[1].replace('|', chr(92) + 'vert ').strip()}$", words)


def _entry(name: str, kind: type) -> str:
    return (
        f"\n## `{name}` {{ #{name} }}\n\n::: {kind.__module__}.{kind.__qualname__}\n"
        "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n      members: false\n"
    )
