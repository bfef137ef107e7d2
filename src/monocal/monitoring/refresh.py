"""From a saved model and a day of rows to the next saved model, which has to pass a gate if one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, final

from monocal.core.errors import InvalidInput
from monocal.models.artefact import MODEL_FOLDER, load_model, save_model
from monocal.models.model import Model
from monocal.models.refresh import refresh_rows, rows_to_learn
from monocal.monitoring.gate import MAX_HARM, GateVerdict, compare_models
from monocal.tables.late_labels import LateLabels
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike, open_table

GATE_SHARE = 0.3
"""The newest share of the rows, on which a refresh has to pass before anything is written."""


@final
@dataclass(frozen=True)
class Refresh:
    """What a refresh did.

    Attributes:
        model: The next generation.
        verdict: What the gate found; None without one.
        written: Whether the next generation was saved.
        late_labels: How mature the rows are, if labels may still come.
    """

    model: Model
    verdict: GateVerdict | None
    written: bool
    late_labels: LateLabels | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "written": self.written,
            "fingerprint": self.model.fingerprint if self.written else None,
            **self.model.info["history"][-1],
            **({} if self.late_labels is None else {"late_labels": self.late_labels.as_dict()}),
            "gate": None if self.verdict is None else self.verdict.as_dict(),
        }


def refresh(
    model: str | Path,
    table: TableLike,
    roles: Roles | None = None,
    *,
    out: str | Path,
    gate: bool = False,
    by: Sequence[str] = (),
    max_harm: float = MAX_HARM,
    since: str | None = None,
    until: str | None = None,
    **columns: Unpack[Columns],
) -> Refresh:
    """Writes the next generation of a saved model; the model itself is only read.

    With a gate, a refresh on the older rows is first compared with the old model on the newest ones, which neither has
    seen. If it does not pass, nothing is written. If it passes, what is written has learned from all rows.

    Arguments:
        model: The folder of the model in force.
        table: Labelled rows that are newer than those it learned from.
        roles: Which column is what, or the same by name; scores, fields and what is not named are those of the fit.
        out: The folder of the next generation; not that of the model.
        gate: Whether the refresh has to pass a gate on its newest rows.
        by: Columns that the gate guards.
        max_harm: What the gate tolerates.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
        columns: In place of roles: `label`, `weight`, `time` and others.
    """
    given = columns_of(refresh, roles, columns)
    out = MODEL_FOLDER.check_target(out)
    if out.resolve() == Path(model).resolve():
        raise InvalidInput.of(
            "out", repr(str(out)), "another folder than the model's, which stays in force", "write next to it"
        )
    old = load_model(model)
    given["slices"] = by if gate else ()
    rows, labels = rows_to_learn(old, open_table(table), given, since=since, until=until)
    verdict = None
    if gate:
        cut = rows.n_rows - round(rows.n_rows * GATE_SHARE)
        older, newest = rows.take(slice(0, cut)), rows.take(slice(cut, None))
        trial = refresh_rows(old, older)
        verdict = compare_models(old, trial, newest, by, max_harm)
        if not verdict.passed:
            return Refresh(trial, verdict, written=False, late_labels=labels)
    following = refresh_rows(old, rows, labels)
    save_model(following, out)
    return Refresh(following, verdict, written=True, late_labels=labels)
