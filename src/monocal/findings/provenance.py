"""What exactly was measured: fingerprints of model and data, and how to do it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monocal.core.fingerprint import fingerprint
from monocal.core.version import __version__
from monocal.findings.rows import FieldColumn
from monocal.models.learned_rows import warn_about_fitted
from monocal.models.model import Model
from monocal.tables.late_labels import LateLabels
from monocal.tables.table import Table


@final
@dataclass(frozen=True)
class Provenance:
    """Facts for those who want to check.

    Attributes:
        facts: Pairs of name and value, in reading order.
        reproduce: The command or the lines of Python that make this report again.
        language: "shell" or "python".
        n_rows: Rows that were measured.
        table_name: What the rows are called; empty for a table in memory.
        late_labels: How mature the labels are, in words; empty if none may still come.
    """

    facts: tuple[tuple[str, str], ...]
    reproduce: str
    language: str
    n_rows: int
    table_name: str
    late_labels: str = ""


def data_fingerprint(rows: Table, fields: Sequence[FieldColumn]) -> str:
    """Changes whenever a label, a score, a value of the fields, or a weight, time, value or group changes."""
    columns: Mapping[str, Any] = {
        **{f"label {task}": column for task, column in rows.labels.items()},
        **{f"score {task}": column for task, column in rows.scores.items()},
        **{f"field {field.name}": field.ids for field in fields},
        **{f"values {field.name}": list(field.values) for field in fields},
        "weights": rows.weights,
        "times": rows.times,
        "value": rows.values,
        "groups": rows.groups,
    }
    return fingerprint(*[part for name, column in columns.items() for part in (name, column)])


def provenance(
    model: Model,
    *,
    model_name: str,
    table_name: str,
    rows: Table,
    labels: LateLabels | None,
    fields: Sequence[FieldColumn],
    seed: int,
    reproduce: str,
    language: str,
) -> Provenance:
    """Collects the facts."""
    info = model.info
    facts = [
        ("Model", model_name or "in memory"),
        ("Model fingerprint", model.fingerprint),
        ("Data", table_name or "in memory"),
        ("Data fingerprint", data_fingerprint(rows, fields)),
        ("Rows measured", f"{rows.n_table_rows:,}"),
    ]
    if labels is not None:
        facts.append(("Labels", str(labels)))
    if "n_rows" in info:
        facts.append(("Rows the model was fitted on", f"{int(info['n_rows']):,}"))
    share = warn_about_fitted(info, model.vocabulary, rows)
    if share >= 0.01:
        facts.append(("Rows measured that it was fitted on", f"about {share:.0%}: the model has seen their labels"))
    if "log_fingerprint" in info:
        facts.append(("Fingerprint of those rows", str(info["log_fingerprint"])))
    if model.sampling_rate is not None:
        facts.append(("Sampling rate", f"{model.sampling_rate}"))
    facts += [(f"Method for {task.name}", repr(task.calibrator)) for task in model.tasks]
    facts += [
        ("Seed", str(seed)),
        ("Versions", f"monocal {__version__}, Python {platform.python_version()}, numpy {np.__version__}"),
    ]
    return Provenance(
        tuple(facts), reproduce, language, rows.n_table_rows, table_name, "" if labels is None else str(labels)
    )
