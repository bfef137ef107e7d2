"""From a table with raw values to a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import CALIBRATORS, Calibrator, calibrator
from monocal.calibrators.params import parameter_names
from monocal.carry_over.shrinkage import carry_by_position
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.reduce import Local, Reducer
from monocal.core.scores import Floats, ScoreSpace
from monocal.core.threads import trim_heap
from monocal.models.facts import canary_of, count_values, fit_facts
from monocal.models.late import check_late_method, fit_late
from monocal.models.learned_rows import row_sample, rows_fact
from monocal.models.model import Model, TaskModel
from monocal.tables.source import TableLike
from monocal.tables.table import Table, rows_of_fit


@final
@dataclass(frozen=True, eq=False)
class FitOptions:
    """How rows are fitted; an unknown method or argument is refused at once, before anything is read.

    Attributes:
        method: Name of the calibrator.
        arguments: Constructor arguments of the calibrator.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        embeddings: A ranker's table per field, for methods that can use it; None means those of the log, if any.
    """

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    min_count: int = 1
    max_size: int | None = None
    embeddings: Sequence[NDArray[np.float32]] | None = None
    _made: Calibrator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", calibrator(self.method, **self.arguments))

    def calibrator(self) -> Calibrator:
        """Returns a calibrator that is not fitted yet."""
        return copy(self._made)

    @property
    def limits(self) -> dict[str, Any]:
        """Bounds of the vocabulary."""
        return {"min_count": self.min_count, "max_size": self.max_size}


def method_and_arguments(
    caller: Callable[..., Any], method: str | Calibrator, arguments: Mapping[str, Any], **own: Any
) -> tuple[str, dict[str, Any]]:
    """Returns a method's name and the arguments that are the method's alone.

    Arguments:
        caller: A public function that takes a method.
        method: A name, or a calibrator with the arguments it was made with; whether it is fitted does not matter.
        arguments: Arguments beside a name.
        own: Arguments of the caller that methods have as well. Beside a name nobody can say whose they are, so one that
            differs from the caller's default is refused; beside a calibrator they are the caller's.

    Example:
        >>> def fit(table, *, method="umc", seed=0, **arguments):
        ...     return method_and_arguments(fit, method, arguments, seed=seed)
        >>> fit([], method="histogram", n_bins=20, seed=1), fit([], method=calibrator("umc", seed=5), seed=1)
        (('histogram', {'n_bins': 20}), ('umc', {'seed': 5}))
        >>> fit([], method="umc", seed=1)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: seed: got 1; expected to know whose it is: both fit and 'umc' have one. Hint:
        method=monocal.calibrator('umc', seed=1) sets the method's, method=monocal.calibrator('umc') leaves it to fit.
    """
    if isinstance(method, Calibrator):
        return _taken_apart(method, arguments)
    if not isinstance(method, str):
        hint = 'write method="platt" or method=monocal.calibrator("platt", l2=1.0)'
        raise InvalidInput.of("method", repr(method), "the name of a method, or one with its arguments", hint)
    known = parameter_names(CALIBRATORS.named(method))
    defaults = inspect.signature(caller).parameters
    for name, value in own.items():
        if name in known and value != defaults[name].default:
            raise InvalidInput.of(
                name,
                value,
                f"to know whose it is: both {caller.__name__} and {method!r} have one",
                f"method=monocal.calibrator({method!r}, {name}={value!r}) sets the method's, "
                f"method=monocal.calibrator({method!r}) leaves it to {caller.__name__}",
            )
    return method, dict(arguments)


def _taken_apart(method: Calibrator, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name = method.name
    if CALIBRATORS.get(name) is not type(method):
        hint = (
            "offer its class as an entry point of the group monocal.calibrators, so that models with it can be loaded"
        )
        raise InvalidInput.of("method", repr(type(method)), "a method of monocal.methods()", hint)
    for argument, value in arguments.items():
        hint = f"write monocal.calibrator({name!r}, {argument}={value!r})"
        raise InvalidInput.of(argument, value, f"arguments of {name!r} in the object that was given", hint)
    return name, method.changed_params()


DEFAULT_METHOD = "umc"


def fit(
    table: TableLike,
    *,
    method: str | Calibrator = DEFAULT_METHOD,
    score: str | None = None,
    label: str | None = None,
    fields: Sequence[str] = (),
    numeric: Sequence[str] = (),
    tasks: Mapping[str, tuple[str, str]] | None = None,
    weight: str | None = None,
    time: str | None = None,
    sampling_rate: float | str | None = None,
    scores_are: ScoreSpace = "probability",
    soft_labels: bool = False,
    min_count: int = 1,
    max_size: int | None = None,
    frozen_embeddings: Sequence[NDArray[np.float32]] | None = None,
    event_time: str | None = None,
    label_time: str | None = None,
    window: str | None = None,
    **arguments: Any,
) -> Model:
    """Fits one calibrator per task on a table with raw values and returns a model that can be saved and served.

    Arguments:
        table: A Parquet or CSV path, a data frame with the Arrow C stream interface, or the folder of a ranked log,
            whose ranker's embeddings are handed over as well.
        method: Name of the calibrator, see `monocal.methods()`; or one with its arguments, made by
            `monocal.calibrator`: where a name of an argument below is one of the method, too, only that tells which is
            meant.
        score: Column of the ranker's score.
        label: Column of the 0/1 label.
        fields: Categorical columns.
        numeric: Columns of numbers, such as a price: each gets a smooth shift, and nulls are a value of their own.
        tasks: For several tasks: name to (label column, score column); null labels are rows without that task.
        weight: Column that says how often a row counts.
        time: Column that orders rows; without it they are taken to be in time order.
        sampling_rate: Share of negatives the ranker was trained on: a number or a column.
        scores_are: The space of the score columns.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        frozen_embeddings: A ranker's table per field, for methods that can use it.
        event_time: Column that says when a row happened, where its label may still come; it orders rows, too.
        label_time: Column that says when a positive label came; null where none has.
        window: How long after its event a label counts: "7d", or a number if the columns hold numbers.
        arguments: Constructor arguments of the calibrator, where `method` is a name.

    Example:
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50, "site": ["a", "b"] * 100}
        >>> model = fit(log, method="platt", score="pctr", label="click", fields=["site"])
        >>> round(float(model.predict(log).mean()), 3)
        0.25
    """
    chosen, arguments = method_and_arguments(fit, method, arguments, min_count=min_count)
    columns: dict[str, Any] = {"score": score, "label": label, "tasks": tasks, "fields": fields, "numeric": numeric}
    columns |= {"weight": weight, "time": time, "sampling_rate": sampling_rate, "scores_are": scores_are}
    columns |= {"soft_labels": soft_labels, "event_time": event_time, "label_time": label_time, "window": window}
    options = FitOptions(chosen, arguments, min_count, max_size, frozen_embeddings)
    rows = rows_of_fit(table, columns)
    if rows.features is None:
        rows = rows.encoded(**options.limits)  # columns of fields would stay during the fit beside their ids
    return fit_log(rows, options)


def fit_log(
    rows: Table,
    options: FitOptions,
    *,
    team: Reducer | None = None,
    n_shards: int | None = None,
    has_whole_log: bool = True,
) -> Model:
    """Fits one calibrator per task on encoded rows.

    Arguments:
        rows: Encoded rows with scores, in time order.
        options: How to fit.
        team: Who fits together; each member reads its own shards of the rows and ends with the same model.
        n_shards: Into how many shards the rows are dealt; by default one per member. The same number gives the same
            bits whatever the team.
        has_whole_log: Whether every member was given all rows; else each brings its own, one shard per member.
    """
    team = team or Local()
    n_shards = n_shards or team.size
    if rows.maturity is not None:
        check_late_method(options.method)
    if not rows.scores:
        raise InvalidInput.of("table", "an encoded log without scores", "a score column per task", "rank the log first")
    if isinstance(carry := options.arguments.get("carry"), Mapping):
        by_position = carry_by_position(carry, rows.field_names)
        options = replace(options, arguments={**options.arguments, "carry": by_position})
    features, vocabulary = rows.encoding
    if options.embeddings is None and rows.embeddings is not None:
        options = replace(options, embeddings=rows.embeddings)
    trim_heap()  # what reading and encoding left behind

    tasks = []
    for task in rows.scores:
        fitted = _fit_task(rows, task, options, team, n_shards, has_whole_log=has_whole_log)
        tasks.append(TaskModel(task, rows.roles.score_columns.get(task, task), rows.roles.labels[task], fitted))
    trim_heap()
    own, partition = rows.local(n_shards, team, has_whole_log=has_whole_log)
    lean = replace(own, fields={}, groups=None, features=None)  # rows of a task are taken without copies of all ids
    learned = rows_fact(lean, team)
    model = Model(
        tasks=tuple(tasks),
        vocabulary=vocabulary,
        scores_are=rows.roles.scores_are,
        sampling_rate=rows.roles.sampling_rate,
        info={
            "n_rows": learned["n_rows"],
            "tasks": fit_facts(lean, partition),
            "time_column": None if rows.times is None else rows.roles.time,
            "learned_from": [learned],
            "row_sample": row_sample(lean, own.encoding[0], shards=partition),
            **({"soft_labels": True} if rows.roles.soft_labels else {}),
            **({} if rows.late_labels is None else {"late_labels": rows.late_labels.as_dict()}),
        },
        value_counts=count_values(own.encoding[0], vocabulary.sizes, team=team),
    )
    return replace(model, canary=canary_of(model, features, rows))


def _fit_task(
    rows: Table, task: str, options: FitOptions, team: Reducer, n_shards: int, *, has_whole_log: bool
) -> Calibrator:
    unfitted, is_alone = options.calibrator(), n_shards == 1 and team.size == 1
    # times and places in the log cost eight bytes a row each
    seen = rows if unfitted.looks_at_time or is_alone else replace(rows, times=None)
    own, partition = seen.local(n_shards, team, task, has_whole_log=has_whole_log)
    if not unfitted.looks_at_time:
        partition = replace(partition, order=None)
    data = own.dataset(task, None if is_alone else partition)
    given: dict[str, Any] = {"scores_are": rows.roles.scores_are, "sampling_rate": own.rates}
    given |= {"numeric_knots": rows.encoding[1].numeric_knots, "embeddings": options.embeddings}
    if own.maturity is None:
        return unfitted.fit_data(data, **given)

    def fit_and_predict(weights: Floats) -> tuple[Calibrator, Floats]:
        fitted = options.calibrator().fit_data(replace(data, w=weights), **given)
        return fitted, fitted.predict_data(Dataset(data.z, ids=data.ids, partition=data.partition))

    return fit_late(fit_and_predict, own, task, data.partition)
