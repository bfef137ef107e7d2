"""Fitting on a Spark table by passes: the cluster sums up, the ordinary calibrator fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from monocal.calibrators import Calibrator, calibrator
from monocal.calibrators.binned import HistogramCalibrator
from monocal.carry_over.shrinkage import carry_by_position
from monocal.core.errors import InvalidInput
from monocal.core.format import fingerprint
from monocal.core.spaces import ScoreSpace
from monocal.models.facts import canary_of, facts_of_logits
from monocal.models.fit import method_and_arguments
from monocal.models.learned_rows import rows_number
from monocal.models.model import Model, TaskModel
from monocal.spark.barrier import check_slots, fit_in_barrier
from monocal.spark.collecting import collected, refusals_of_workers
from monocal.spark.compressed import Cells, WeightedRows, compress
from monocal.spark.judged_rows import BEFORE, Judging, Slot
from monocal.spark.pooled import binned, pooled
from monocal.spark.vocabulary import vocabulary
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

SMOOTH_METHODS = ("none", "platt", "temperature", "beta", "gauss", "gamma")
PASS_METHODS = (*SMOOTH_METHODS, "histogram", "isotonic")
"""Methods whose fit needs a few sums over the table and nothing of its fields or its order in time."""

_ON_ONE_MACHINE = {
    "numeric": "nothing in a fit on Spark",
    "label_time": "labels that have all come: what delays are like is learned from all rows in one place",
}
"""Arguments of `monocal.fit` that a fit on Spark does not have, and what it wants instead."""

_CANARY_ROWS = 32
_FACTS = "n_rows long, high long, low long, first long, last long"
_HALF = 1 << 32


def fit(
    df: Any,
    *,
    method: str | Calibrator,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    min_count: int = 1,
    max_size: int | None = None,
    hashed_fields: Mapping[str, int] | None = None,
    workers: int = 2,
    **arguments: Any,
) -> Model:
    """Fits one calibrator per task on a Spark table and returns an ordinary model.

    Methods that need a few sums (`PASS_METHODS`): the cluster turns the table into at most some hundred thousand
    weighted rows on which the same calibrator has the same fit, to 1e-11 in the answers; the driver fits it.
    `wide_logistic` and the networks `umc`, `sbcr`, `fac`, `desc`, `mcnet`: the tasks of one barrier stage
    form a process group and fit together, each on its own shard; the rows must fit into their memory. The same table
    and `workers` give the same bits.

    Arguments:
        df: The table.
        method: One of `PASS_METHODS`, or one that is fitted in shards: its name, or one with its arguments.
        score: Column of the ranker's score.
        label: Column of the 0/1 label.
        fields: Categorical columns; `PASS_METHODS` learn nothing from them.
        tasks: For several tasks: name to (label column, score column); null labels are rows without that task.
        weight: Column that says how often a row counts.
        time: Column of the rows' times, which the model remembers; methods that look at time need it.
        sampling_rate: Share of negatives the ranker was trained on: a number or a column.
        scores_are: The space of the score columns.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        hashed_fields: Field to number of buckets, for fields whose values are hashed instead of listed.
        workers: Tasks that fit together in a barrier stage; the session needs as many slots.
        arguments: Constructor arguments of the calibrator, where `method` is a name.

    Example:
        model = fit(spark.table("ads.log"), method="platt", score="pctr", label="click")
        model.save("model")
    """
    for name, wish in _ON_ONE_MACHINE.items():
        if arguments.get(name):
            hint = "fit on one machine, on the newest rows; apply and evaluate take that model"
            raise InvalidInput.of(name, arguments[name], wish, hint)
    chosen, arguments = method_and_arguments(fit, method, arguments, min_count=min_count)
    if isinstance(arguments.get("carry"), Mapping):
        arguments["carry"] = carry_by_position(arguments["carry"], fields)
    _check_method(chosen, calibrator(chosen, **arguments), time)
    roles = Roles.of(
        score=score,
        label=label,
        tasks=tasks,
        fields=fields,
        weight=weight,
        time=time,
        sampling_rate=sampling_rate,
        scores_are=scores_are,
        soft_labels=soft_labels,
    )
    roles.check_columns(df.columns)
    if chosen not in PASS_METHODS:
        check_slots(df.sparkSession, workers)
    known = vocabulary(df, roles.fields, min_count=min_count, max_size=max_size, hashed_fields=hashed_fields)
    # the sums need no fields
    blind = replace(roles, fields=())
    rows = df.select(*(f"`{name}`" for name in blind.columns))
    judging = Judging(blind, tuple(Slot(task, BEFORE) for task in blind.labels))
    cells = compress(rows, judging)
    for number, task in enumerate(blind.labels):
        if number not in cells:
            raise InvalidInput.of(f"labels of task {task!r}", "no row with a label", "some labels", "check the column")
    if chosen in PASS_METHODS:
        model = _fit_by_passes(rows, judging, cells, known, chosen, arguments)
    else:
        needed = df.select(*(f"`{name}`" for name in roles.columns))
        model = fit_in_barrier(needed, roles, known, chosen, arguments, workers)
    n_rows, learned = _learned_from(rows, blind)
    info = {
        "n_rows": n_rows,
        "tasks": {task: _facts(cells[number], soft_labels) for number, task in enumerate(blind.labels)},
        "time_column": time,
        "learned_from": [learned],
        **({"soft_labels": True} if soft_labels else {}),
    }
    model = replace(model, info=info)
    columns = [f"`{name}`" for name in roles.columns]
    # the first rows in an order of their values: which partition answers first is chance
    some = Table.read(collected(df.select(*columns).orderBy(*columns).limit(_CANARY_ROWS)), roles)
    ids = known.encode_columns({name: some.fields[name] for name in known.names}, some.n_rows)
    return replace(model, canary=canary_of(model, ids, some))


def _fit_by_passes(
    rows: Any,
    judging: Judging,
    cells: Mapping[int, Cells],
    known: Vocabulary,
    method: str,
    arguments: Mapping[str, Any],
) -> Model:
    roles = judging.roles
    samples = _samples(rows, judging, cells, calibrator(method, **arguments))
    tasks = []
    for number, task in enumerate(roles.labels):
        few, fitted = samples[number], calibrator(method, **arguments)
        fitted.fit(few.logits, few.labels, weights=few.weights, scores_are="logit")
        fitted.scores_are_ = roles.scores_are
        fitted.sampling_rate_ = "per row" if isinstance(roles.sampling_rate, str) else roles.sampling_rate
        fitted.n_fields_ = len(known.fields)
        tasks.append(TaskModel(task, roles.score_columns.get(task, task), roles.labels[task], fitted))
    return Model(tuple(tasks), known, roles.scores_are, roles.sampling_rate)


def _check_method(method: str, chosen: Calibrator, time: str | None) -> None:
    if method not in PASS_METHODS and not chosen.fits_in_parts:
        wish = f"one of {', '.join(PASS_METHODS)}, wide_logistic, umc, sbcr, fac, desc, mcnet"
        raise InvalidInput.of("method", repr(method), wish, "fit it on one machine, on the newest rows")
    if isinstance(chosen, HistogramCalibrator) and chosen.binning != "width":
        raise InvalidInput.of("binning", repr(chosen.binning), '"width"', "bins of equal mass need all rows in order")
    if method not in PASS_METHODS:
        if chosen.looks_at_time and time is None:
            raise InvalidInput.of(
                "time",
                None,
                f"a column that tells older rows from newer ones, for {method!r} with these arguments",
                'name the column, or set carry="none", recent_share=0 and guard=False',
            )
    elif chosen.guard or chosen.recent_share:
        name = "guard" if chosen.guard else "recent_share"
        raise InvalidInput.of(name, getattr(chosen, name), "off", "it needs rows in time order: fit on one machine")


def _samples(rows: Any, judging: Judging, cells: Mapping[int, Cells], chosen: Calibrator) -> dict[int, WeightedRows]:
    if isinstance(chosen, HistogramCalibrator):
        return binned(rows, judging, chosen.n_bins)
    if chosen.name == "isotonic":
        return pooled(rows, judging)
    return {slot: found.two_points() for slot, found in cells.items()}


def _facts(cells: Cells, soft_labels: bool) -> dict[str, Any]:
    """What a model remembers of its rows, with every logit at the middle of its cell of 1/2048."""
    facts, weights = facts_of_logits(cells.middle, cells.label, cells.rows), cells.moments[0]
    # a soft label is two rows, which count as far as they weigh
    return {**facts, "label_rate": float(cells.label @ weights / weights.sum())} if soft_labels else facts


def _learned_from(rows: Any, roles: Roles) -> tuple[int, dict[str, Any]]:
    """Counts the rows and returns the number by which a model recognises them, as on one machine."""

    def facts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                found = Table.read(batch, roles)
                number = rows_number(found)
                times = (0, 0) if found.times is None else (int(found.times.min()), int(found.times.max()))
                yield pa.RecordBatch.from_arrays(
                    [pa.array([value]) for value in (found.n_rows, number // _HALF, number % _HALF, *times)],
                    names=["n_rows", "high", "low", "first", "last"],
                )

    from pyspark.sql import functions as F

    # halves, because Spark refuses sums beyond 2⁶³
    sums = (F.sum("n_rows"), F.sum("high"), F.sum("low"), F.min("first"), F.max("last"))
    with refusals_of_workers():
        n_rows, high, low, first, last = rows.mapInArrow(facts, _FACTS).agg(*sums).first()
    if not n_rows:
        raise InvalidInput.of("table", "no rows", "at least one row", "check the table and the filter")
    learned = {"n_rows": n_rows, "rows": fingerprint(n_rows, (high * _HALF + low) % 2**64)}
    return n_rows, learned if roles.time is None else {**learned, "first": first, "last": last}
