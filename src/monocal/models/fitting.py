"""From a table with raw values to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.progress import progress
from monocal.core.roles import Roles
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats, ScoreSpace, sigmoid
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_log import ScoredLog
from monocal.models.model import Model, TaskModel
from monocal.tables.categories import distinct_text
from monocal.tables.columns import labels_or_missing, moments_of, numbers
from monocal.tables.stream import Table, TableStream, open_table
from monocal.vocabulary.value_index import ValueIndex
from monocal.vocabulary.vocabulary import Vocabulary, VocabularyBuilder

DEFAULT_METHOD = "umc"
_CANARY_ROWS = 32
_SCORE_BINS = 20


def fit(
    table: Table | EncodedLog | ScoredLog,
    *,
    method: str = DEFAULT_METHOD,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    min_count: int = 1,
    max_size: int | None = None,
    frozen_embeddings: Sequence[NDArray[np.float32]] | None = None,
    **arguments: Any,
) -> Model:
    """Fits one calibrator per task on a table with raw values and returns a model that can be saved and served.

    Arguments:
        table: A Parquet or CSV path, a data frame with the Arrow C stream interface, an `EncodedLog` with
            scores, or a `ScoredLog`, whose ranker's embeddings are handed over as well.
        method: Name of the calibrator, see `monocal.methods()`.
        score: Column of the ranker's score.
        label: Column of the 0/1 label.
        fields: Categorical columns.
        tasks: For several tasks: name to (label column, score column); null labels are rows without that task.
        weight: Column that says how often a row counts.
        time: Column that orders rows; without it they are taken to be in time order.
        sampling_rate: Share of negatives the ranker was trained on: a number or a column.
        scores_are: The space of the score columns.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        frozen_embeddings: A ranker's table per field, for methods that can use it.
        arguments: Constructor arguments of the calibrator.

    Example:
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50, "site": ["a", "b"] * 100}
        >>> model = fit(log, method="platt", score="pctr", label="click", fields=["site"])
        >>> round(float(model.predict(log).mean()), 3)
        0.25
    """
    prototype = calibrator(method, **arguments)
    if isinstance(table, ScoredLog):
        frozen_embeddings = table.embeddings if frozen_embeddings is None else frozen_embeddings
        table = table.as_encoded()
    if isinstance(table, EncodedLog):
        log = table
        if not log.scores:
            raise InvalidInput.of(
                "table", "an encoded log without scores", "a score column per task", "rank the log first"
            )
    else:
        log = encode_table(
            table,
            table_schema(
                score=score,
                label=label,
                fields=fields,
                tasks=tasks,
                weight=weight,
                time=time,
                sampling_rate=sampling_rate,
                scores_are=scores_are,
            ),
            min_count=min_count,
            max_size=max_size,
        )
    schema = log.schema
    fitted = []
    for task in log.scores:
        rows = observed_rows(log, task)
        one = calibrator(method, **prototype.get_params(deep=False))
        one.fit(
            log.scores[task][rows],
            log.labels[task][rows],
            features=log.features[rows] if log.n_fields else None,
            weights=None if log.weights is None else log.weights[rows],
            times=None if log.times is None else log.times[rows],
            scores_are=schema.scores_are,
            sampling_rate=row_rates(log, rows),
            embeddings=frozen_embeddings,
        )
        fitted.append(TaskModel(task, (schema.scores or {}).get(task, task), schema.labels[task], one))
    model = Model(
        tasks=tuple(fitted),
        vocabulary=log.vocabulary,
        scores_are=schema.scores_are,
        sampling_rate=schema.sampling_rate,
        info=_facts(log, tuple(fitted)),
    )
    return Model(**{**vars(model), "canary": _canary(model, log)})


def encode_table(table: Table, schema: Roles, *, min_count: int = 1, max_size: int | None = None) -> EncodedLog:
    """Reads the columns of a schema in two passes (count values, then encode) and returns them in memory."""
    stream = open_table(table)
    schema.check_columns(stream.column_names)
    vocabulary = _count(stream, schema.fields, min_count, max_size)
    ids: list[Ids] = []
    parts: dict[str, list[Any]] = {}
    groups = ValueIndex()

    def keep(name: str, column: Any) -> None:
        parts.setdefault(name, []).append(column)

    with progress("reading", stream.n_rows) as bar:
        for batch in stream.batches(schema.columns, dictionary_columns=schema.fields):
            ids.append(vocabulary.encode(batch))
            for task, column in schema.labels.items():
                keep(f"label:{task}", labels_or_missing(batch, column, "label"))
            for task, column in (schema.scores or {}).items():
                keep(f"score:{task}", numbers(batch, column, "score"))
            if schema.weight is not None:
                keep("weight", numbers(batch, schema.weight, "weight"))
            if schema.time is not None:
                keep("time", moments_of(batch, schema.time))
            if schema.group is not None:
                keep("group", _numbered(batch, schema.group, groups))
            if isinstance(schema.sampling_rate, str):
                keep("rate", numbers(batch, schema.sampling_rate, "sampling rate"))
            bar.advance(batch.num_rows)
    if not ids:
        raise InvalidInput.of("table", "no rows", "at least one row", "check the filter that produced the table")
    columns = {name: np.concatenate(found) for name, found in parts.items()}
    features = np.concatenate(ids)
    if "time" in columns and np.any(np.diff(columns["time"]) < 0):
        order = np.argsort(columns["time"], kind="stable")
        features = features[order]
        columns = {name: column[order] for name, column in columns.items()}
    return EncodedLog.of(
        features,
        {task: columns[f"label:{task}"] for task in schema.labels},
        vocabulary,
        schema,
        times=columns.get("time"),
        groups=columns.get("group"),
        weights=columns.get("weight"),
        scores={task: columns[f"score:{task}"] for task in schema.scores or {}},
        sampling_rates=columns.get("rate"),
    )


def table_schema(
    *,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    group: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
) -> Roles:
    """Returns the schema of a table that has scores already; arguments as in `fit`.

    Example:
        >>> table_schema(score="pctr", label="click").scores
        {'click': 'pctr'}
    """
    if tasks is None:
        if score is None or label is None:
            missing = "score" if score is None else "label"
            raise InvalidInput.of(missing, None, f"the name of the {missing} column", f'pass {missing}="…"')
        tasks = {label: (label, score)}
    elif score is not None or label is not None:
        raise InvalidInput.of("tasks", "tasks and score or label", "one of the two", "put every task into tasks")
    return Roles(
        labels={name: columns[0] for name, columns in tasks.items()},
        fields=fields,
        weight=weight,
        time=time,
        group=group,
        sampling_rate=sampling_rate,
        scores={name: columns[1] for name, columns in tasks.items()},
        scores_are=scores_are,
    )


def _count(stream: TableStream, fields: Sequence[str], min_count: int, max_size: int | None) -> Vocabulary:
    builder = VocabularyBuilder(fields)
    if fields:
        with progress("counting values", stream.n_rows) as bar:
            for batch in stream.batches(fields, dictionary_columns=fields):
                builder.add(batch)
                bar.advance(batch.num_rows)
    return builder.build(min_count=min_count, max_size=max_size)


def _numbered(batch: Any, column: str, seen: ValueIndex) -> Ids:
    values, _, which = distinct_text(batch.column(column), column)
    numbered: Ids = seen.add(pc.fill_null(values, "\0"))[which]
    return numbered


def observed_rows(log: EncodedLog, task: str) -> slice | NDArray[np.int64]:
    """Returns the rows where a task's label is known."""
    labels = log.labels[task]
    missing = np.flatnonzero(labels < 0)
    return slice(None) if missing.size == 0 else np.flatnonzero(labels >= 0)


def row_rates(log: EncodedLog, rows: slice | NDArray[np.int64]) -> Floats | float | None:
    """Returns the sampling rate of some rows: one each, one for all, or None."""
    if log.sampling_rates is not None:
        return log.sampling_rates[rows]
    rate = log.schema.sampling_rate
    return float(rate) if isinstance(rate, int | float) else None


def _facts(log: EncodedLog, tasks: tuple[TaskModel, ...]) -> dict[str, Any]:
    facts: dict[str, Any] = {"n_rows": log.n_rows, "log_fingerprint": log.fingerprint, "tasks": {}}
    for one in tasks:
        rows = observed_rows(log, one.name)
        samples = Samples.of(
            log.scores[one.name][rows], scores_are=log.schema.scores_are, sampling_rate=row_rates(log, rows)
        )
        edges = np.unique(np.quantile(samples.logits, np.linspace(0.0, 1.0, _SCORE_BINS + 1)[1:-1]))
        shares = np.bincount(np.searchsorted(edges, samples.logits), minlength=edges.size + 1) / samples.n_rows
        facts["tasks"][one.name] = {
            "n_rows": samples.n_rows,
            "label_rate": float(np.mean(log.labels[one.name][rows])),
            "mean_score": float(np.mean(sigmoid(samples.logits))),
            "score_edges_logit": edges,
            "score_shares": shares,
        }
    return facts


def _canary(model: Model, log: EncodedLog) -> dict[str, NDArray[Any]]:
    rows = np.unique(np.linspace(0, log.n_rows - 1, _CANARY_ROWS).astype(np.int64))
    ids: Ids = np.ascontiguousarray(log.features[rows])
    scores = {one.name: np.asarray(log.scores[one.name][rows], dtype=np.float64) for one in model.tasks}
    rates = None if log.sampling_rates is None else log.sampling_rates[rows]
    answers = model.predict_ids(ids, scores, model.sampling_rate if rates is None else rates)  # type: ignore[arg-type]
    stored: dict[str, NDArray[Any]] = {"ids": ids}
    for index, one in enumerate(model.tasks):
        stored[f"score{index}"] = scores[one.name]
        stored[f"answer{index}"] = answers[one.name]
    if rates is not None:
        stored["sampling_rate"] = rates
    return stored
