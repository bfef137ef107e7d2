"""The first run: a click log from the simulator through every arrow, to a comparison, a model and a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file
from monocal.core.roles import Roles
from monocal.core.spaces import sigmoid
from monocal.judging.compare_methods import MethodComparison, compare_methods
from monocal.lab.rankers import rank_log, ranker
from monocal.lab.simulator import find_world, write_simulated_log
from monocal.logs.encoder import encode_log
from monocal.models import Model, fit
from monocal.report import write_report
from monocal.tables.stream import read_columns

METHODS = (
    "none",
    "histogram",
    "isotonic",
    "sir",
    "platt",
    "beta",
    "gauss",
    "wide_logistic",
    "confcalib",
    "mlplatt",
    "fac",
    "sbcr",
    "desc",
    "umc",
)
SAVED_METHOD = "umc"
_MARK = "demo.json"
_PLACES = ("log.parquet", "encoded", "ranked", "scored.parquet", "test.parquet", "model", "report.html")
_SCORE, _LABEL, _TIME, _USER, _TRUTH = "pctr", "click", "timestamp", "user_id", "true_p"


@final
@dataclass(frozen=True)
class DemoOutcome:
    """What the first run left behind.

    Attributes:
        comparison: Every method on the same rows, with intervals and noise floors.
        errors: Method to mean absolute error of its probabilities to the truth, which only a simulator knows.
        model: The saved model.
        model_folder: Where it is.
        report: An HTML page about the model on the test rows.
        scored_log: A Parquet file with the ranker's scores, of the rows that calibrators and tests use.
        test_log: The rows of it that judged the methods.
        fields: Its categorical columns.
    """

    comparison: MethodComparison
    errors: dict[str, float]
    model: Model
    model_folder: Path
    report: Path
    scored_log: Path
    test_log: Path
    fields: tuple[str, ...]


def run_demo(
    folder: str | Path,
    *,
    n_rows: int = 200_000,
    seed: int = 0,
    methods: tuple[str, ...] = METHODS,
    saved_method: str = SAVED_METHOD,
) -> DemoOutcome:
    """Simulates a click log, ranks it with DeepFM, compares calibrators on it, saves one as a model, and
    writes its report.

    The oldest 60 % of the rows train the ranker, the next 20 % fit calibrators, the newest 20 % judge them.

    Arguments:
        folder: Where logs, scores and the model go. What an earlier run left there is replaced; a folder that holds
            files with the same names from elsewhere is refused.
        n_rows: Rows of the simulated log.
        seed: Draws the log and the ranker's start.
        methods: Calibrators to compare.
        saved_method: The one that is saved.
    """
    folder = Path(folder)
    _claim(folder)
    fields = tuple(field.name for field in find_world("default").fields)
    raw = folder / "log.parquet"
    write_simulated_log(raw, n_rows, seed=seed, world="default")
    schema = Roles(labels=_LABEL, fields=fields, time=_TIME, group=_USER)
    log = encode_log(raw, schema, folder / "encoded")
    scored = rank_log(log, ranker("deepfm", batch_rows=1024, seed=seed), folder / "ranked")
    start = log.parts["calibration"].start
    table = read_columns(raw, [_TIME, _USER, *fields, _LABEL, _TRUTH]).slice(start)
    scores = sigmoid(np.asarray(scored.logits[_LABEL][start:]))
    table = table.append_column(_SCORE, pa.array(scores))
    cut = log.parts["test"].start - start
    paths = {"scored.parquet": table, "test.parquet": table.slice(cut)}
    for name, part in paths.items():
        with atomic_file(folder / name) as temporary:
            pq.write_table(part, temporary)
    roles: dict[str, Any] = {"score": _SCORE, "label": _LABEL, "fields": fields, "time": _TIME}
    comparison = compare_methods(
        folder / "scored.parquet", methods, **roles, group=_USER, holdout=1.0 - cut / table.num_rows, seed=seed
    )
    truth = table.slice(cut)[_TRUTH].to_numpy()
    errors = {
        result.method: float(np.mean(np.abs(result.report.forecast.probabilities - truth)))
        for result in comparison.results
        if result.report is not None
    }
    model = fit(table.slice(0, cut), method=saved_method, **roles)
    model.save(folder / "model")
    test_log = folder / "test.parquet"
    report = write_report(model, test_log, folder / "report.html", time=_TIME, group=_USER)
    return DemoOutcome(comparison, errors, model, folder / "model", report, folder / "scored.parquet", test_log, fields)


def _claim(folder: Path) -> None:
    """Marks the folder as that of a demo, or refuses it: nothing that another wrote is replaced."""
    if not (folder / _MARK).is_file():
        taken = [name for name in _PLACES if (folder / name).exists()]
        if taken:
            raise InvalidInput.of(
                "output folder",
                f"{str(folder)!r}, which holds {', '.join(taken)} from elsewhere",
                "a new folder, or that of an earlier demo",
                "choose another folder",
            )
    with atomic_file(folder / _MARK) as temporary:
        temporary.write_text('{"format": "monocal demo", "schema_version": 1}\n', encoding="utf-8")
