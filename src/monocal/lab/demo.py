"""The first run: a click log from the simulator through every arrow, to a comparison, a model and a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, output_folder
from monocal.core.scores import sigmoid
from monocal.evaluation.compare import MethodComparison, compare
from monocal.lab.lead import Lead, explain_lead
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.rankers import rank_log, ranker
from monocal.lab.simulator import Compose, ConditionalMonotone, Field, World, simulate_log
from monocal.models import Model
from monocal.reports import report as write_report
from monocal.tables.roles import Roles

TRAINING_SHARE = 0.6
"""The share of rows from before the page changed; those train the ranker."""

AFTER = World(
    "a page on which clicks rise around a score that depends on the device",
    fields=(
        Field("site_id", 300, effect=1.0),
        Field("ad_id", 200, effect=0.8),
        Field("country", 40, effect=0.2, source="attribute"),
        Field("hour", 24, effect=0.1, source="hour"),
        Field("position", 10, effect=0.6, shape="falling"),
        Field("device", 5, effect=0.2, source="attribute"),
    ),
    base_rate=0.15,
    distortion=ConditionalMonotone(
        fields=("device",),
        height=3.5,
        place=-1.5,
        width=1.0,
        slope=0.5,
        shift=-2.0,
        slope_spread=0.3,
        height_spread=0.3,
        place_spread=1.2,
    ),
    draws="score",
    seed=21,
)
BEFORE = replace(AFTER, summary="the page that the ranker learned on", base_rate=0.25, distortion=Compose())


def demo_log(n_rows: int, seed: int = 0) -> pa.Table:
    """Returns a click log in time order whose page changes after 60 % of its rows.

    The same users meet the same ads on the same sites throughout. Before the change a click's logit is a sum of the
    fields' effects, which a ranker can learn. After it the logit rises with that sum around a place that the
    device decides, and is flat elsewhere: a ranker trained before orders well within a device and is wrong about how
    often people click, in a way that depends on score and device together. The world was chosen to show this; how
    methods compare elsewhere is on the page of benchmarks.

    Arguments:
        n_rows: How many rows.
        seed: Draws them.

    Example:
        >>> log = demo_log(5_000)
        >>> import numpy as np
        >>> rates = [np.mean(part["click"].to_numpy()) for part in (log.slice(0, 3_000), log.slice(3_000))]
        >>> rates[0] > 1.4 * rates[1]
        np.True_
    """
    cut = round(TRAINING_SHARE * n_rows)
    before, after = (simulate_log(n_rows, seed, world).table() for world in (BEFORE, AFTER))
    return pa.concat_tables([before.slice(0, cut), after.slice(cut)])


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
    "umc",
)
LEFT_OUT = "desc"
"""Takes longer than all other methods together; the command says how to compare it on the same rows."""
SAVED_METHOD = "umc"
RIVAL = "wide_logistic"
RIVAL_ARGUMENTS = {"l2": "auto", "carry": "auto"}
"""What a practitioner would use instead, with learned penalties and shares."""

N_ROWS = 150_000
"""So many that later rows accept the network of `SAVED_METHOD`, and no more: the first run should be short."""

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
        lead: Whether and why the saved method is ahead of `RIVAL`; None if either was not compared.
        model: The saved model.
        model_folder: Where it is.
        report: An HTML page about the model on the test rows.
        scored_log: A Parquet file with the ranker's scores, of the rows that calibrators and tests use.
        test_log: The rows of it that judged the methods.
        fields: Its categorical columns.
    """

    comparison: MethodComparison
    errors: dict[str, float]
    lead: Lead | None
    model: Model
    model_folder: Path
    report: Path
    scored_log: Path
    test_log: Path
    fields: tuple[str, ...]


def run_demo(
    folder: str | Path,
    *,
    n_rows: int = N_ROWS,
    seed: int = 0,
    methods: tuple[str, ...] = METHODS,
    saved_method: str = SAVED_METHOD,
) -> DemoOutcome:
    """Simulates a click log, ranks it with DeepFM, compares calibrators on it, saves one as a model, and
    writes its report.

    The oldest 60 % of the rows train the ranker; then the page changes, and the ranker does not. The next 20 % of
    the rows fit calibrators, the newest 20 % judge them, by log-loss: averages per field value cannot see errors that
    depend on score and field together.

    Arguments:
        folder: Where logs, scores and the model go. What an earlier run left there is replaced; a folder that holds
            files with the same names from elsewhere is refused.
        n_rows: Rows of the simulated log.
        seed: Draws the log and the ranker's start.
        methods: Calibrators to compare.
        saved_method: The one of them that is saved, as it was judged.
    """
    folder = output_folder(folder)
    _claim(folder)
    fields = tuple(field.name for field in AFTER.fields)
    raw = folder / "log.parquet"
    rows = demo_log(n_rows, seed)
    _write(rows, raw)
    schema = Roles(label=_LABEL, fields=fields, time=_TIME, group=_USER)
    log = encode_log(raw, schema, folder / "encoded")
    scored = rank_log(log, ranker("deepfm", batch_rows=1024, seed=seed), folder / "ranked")
    start = log.parts["calibration"].start
    scores = sigmoid(np.asarray(scored.logits[_LABEL][start:]))
    table = rows.select([_TIME, _USER, *fields, _LABEL, _TRUTH]).slice(start).append_column(_SCORE, pa.array(scores))
    cut = log.parts["test"].start - start
    test, test_log = table.slice(cut), folder / "test.parquet"
    _write(table, folder / "scored.parquet")
    _write(test, test_log)
    comparison = compare(
        folder / "scored.parquet",
        methods=methods,
        score=_SCORE,
        label=_LABEL,
        fields=fields,
        time=_TIME,
        group=_USER,
        holdout=1.0 - cut / table.num_rows,
        arguments={RIVAL: RIVAL_ARGUMENTS} if RIVAL in methods else None,
        seed=seed,
    )
    truth = test[_TRUTH].to_numpy()
    errors = {
        result.method: float(np.mean(np.abs(result.evaluation.forecast.probabilities - truth)))
        for result in comparison.results
        if result.evaluation is not None and result.evaluation.forecast is not None
    }
    lead = explain_lead(comparison, test, fields, _SCORE, method=saved_method, other=RIVAL)
    model = comparison.result(saved_method).model
    assert model is not None, comparison.result(saved_method).problem
    model.save(folder / "model")
    report = write_report(model, test_log, folder / "report.html", time=_TIME, group=_USER)
    return DemoOutcome(
        comparison, errors, lead, model, folder / "model", report, folder / "scored.parquet", test_log, fields
    )


def _write(table: pa.Table, path: Path) -> None:
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary)


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
