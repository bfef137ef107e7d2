"""monocal prepare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from monocal.cli import arguments
from monocal.cli.options import Debug, Fields, Group, Json, Logits, MaxSize, Out, SamplingRate, Tasks, Time, Weight
from monocal.cli.output import print_json, remark
from monocal.core.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from monocal.tables.roles import Roles

EXAMPLES = """
monocal prepare log.parquet --label click --fields site_id,app_id,hour --time timestamp --out prepared/
monocal prepare "logs/*.csv.gz" --schema schema.toml --out prepared/
monocal prepare avazu/ --source avazu --out prepared/
monocal prepare log.parquet --label click --fields site_id,device_ip --hash device_ip=1000000 --out prepared/
monocal prepare log.parquet --label click --fields site_id --time ts --cut test=2024-05-08 --out prepared/
"""


def prepare(
    raw: Annotated[
        str,
        typer.Argument(metavar="RAW", help="A table (Parquet, CSV, a folder, a glob), or a source's raw files."),
    ],
    out: Out,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME", help="A public data set in its raw format: avazu, criteo, …"),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="A TOML file that says which column is what.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="COLUMNS", help="The 0/1 outcome; one per task, with commas.")
    ] = None,
    task: Tasks = None,
    fields: Fields = None,
    time: Time = None,
    group: Group = None,
    weight: Weight = None,
    rate: SamplingRate = None,
    logits: Logits = False,
    min_count: Annotated[int, typer.Option("--min-count", min=1, help="Rarer values count as unseen.")] = 2,
    max_size: MaxSize = None,
    hashed: Annotated[
        list[str] | None,
        typer.Option(
            "--hash", metavar="FIELD=BUCKETS", help="Hash the values of a huge field instead of listing them."
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            "--part", metavar="NAME=SHARE", help="Parts in time order; by default train 3, calibration 1, test 1."
        ),
    ] = None,
    cut: Annotated[
        list[str] | None, typer.Option("--cut", metavar="NAME=MOMENT", help="Where a part begins, instead of shares.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="COLUMN", help="Keep what each row's user did before, for the ranker qin."),
    ] = None,
    fit_on: Annotated[
        Literal["train", "all"], typer.Option("--fit-on", help="Which rows the vocabulary may see.")
    ] = "train",
    on_error: Annotated[
        Literal["raise", "skip"] | None, typer.Option("--on-error", help="What to do with malformed rows.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Encodes a raw log of any size as ids on disk.

    Interrupted work goes on with the same command; finished work is not repeated.
    """
    from monocal.lab.prepare.encoder import encode_log

    chosen: Any = raw
    if source is not None:
        chosen = _source_stream(source, raw, on_error or "raise")
    meaning = _schema(schema, label, task, fields, time, group, weight, rate, logits, needed=source is None)
    cuts = {name: _moment(text) for name, text in arguments.pairs_only("--cut", cut).items()}
    options: dict[str, Any] = {"cuts": cuts} if cuts else {}
    shares = {name: arguments.number("--part", text) for name, text in arguments.pairs_only("--part", share).items()}
    if shares:
        options["shares"] = shares
    buckets = arguments.pairs_only("--hash", hashed)
    log = encode_log(
        chosen,
        meaning,
        out,
        min_count=min_count,
        max_size=max_size,
        hashed_fields={name: int(arguments.number("--hash", text)) for name, text in buckets.items()},
        fit_on=fit_on,
        history=history,
        on_error=on_error,
        **options,
    )
    parts = {name: part.n_rows for name, part in log.parts.items()}
    sizes = dict(zip(log.field_names, log.field_sizes, strict=True))
    if as_json:
        facts = {"out": out, "n_rows": log.n_rows, "tasks": log.tasks, "parts": parts, "fields": sizes}
        print_json({**facts, "fingerprint": log.fingerprint})
        return
    remark(f"prepared {log.n_rows:,} rows in {out}: {', '.join(f'{name} {n:,}' for name, n in parts.items())}")
    remark(f"  fields: {', '.join(f'{name} ({size - 1:,})' for name, size in sizes.items()) or 'none'}")


def _source_stream(name: str, raw: str, on_error: Literal["raise", "skip"]) -> Any:
    from monocal.lab.sources import SOURCES

    if name not in SOURCES:
        raise UnknownName.among("source", name, SOURCES)
    source = SOURCES[name]()
    if source.notice:
        remark(source.notice)
    return source.open(raw, on_error=on_error)


def _schema(
    file: Path | None,
    label: list[str] | None,
    task: list[str] | None,
    fields: list[str] | None,
    time: str | None,
    group: str | None,
    weight: str | None,
    rate: str | None,
    logits: bool,
    *,
    needed: bool,
) -> Roles | None:
    from monocal.tables.roles import Roles

    named = [label, task, fields, time, group, weight, rate]
    if file is not None:
        if any(named):
            raise InvalidInput.of("--schema", "a file and columns", "one of the two", "put every column into the file")
        return Roles.from_toml(file)
    tasks = arguments.tasks(task) or {}
    labels = {name: name for name in arguments.names(label)} | {name: columns[0] for name, columns in tasks.items()}
    if not labels:
        if needed or any(named):
            raise InvalidInput.of("--label", None, "the label column", "write --label click, or --schema schema.toml")
        return None
    return Roles(
        labels,
        [name for name in arguments.names(fields) if name != "none"],
        time=time,
        group=group,
        weight=weight,
        sampling_rate=arguments.sampling_rate(rate),
        scores={name: columns[1] for name, columns in tasks.items()} or None,
        scores_are="logit" if logits else "probability",
    )


def _moment(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text
