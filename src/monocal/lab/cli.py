"""The verbs of the laboratory, `monocal lab …`: prepare a raw log, rank it, run a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from monocal.cli import arguments
from monocal.cli.options import Json, MaxSize, Out, Set, with_columns
from monocal.cli.output import folded, print_json, print_lines, print_table, remark
from monocal.core.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from monocal.tables.roles import Roles

EXAMPLES = {
    "prepare": """
monocal lab prepare log.parquet --label click --fields site_id,app_id,hour --time timestamp --out prepared/
monocal lab prepare "logs/*.csv.gz" --schema schema.toml --out prepared/
monocal lab prepare avazu/ --source avazu --out prepared/
monocal lab prepare log.parquet --label click --fields site,ip --hashed-fields ip=1000000 --out prepared/
monocal lab prepare log.parquet --label click --fields site_id --time ts --cuts test=2024-05-08 --out prepared/
""",
    "rank": """
monocal lab rank prepared/ --out ranked/
monocal lab rank prepared/ --ranker deepfm --set hidden=[64,32] --out ranked/
monocal lab rank prepared/ --ranker deepfm --negative-rate 0.1 --out ranked/
monocal lab rank prepared/ --ranker precomputed --out ranked/
monocal lab rank prepared/ --loss jrc --group user_id --out ranked/
""",
    "bench": """
monocal lab bench --list
monocal lab bench main --out runs/main
monocal lab bench main --out runs/smoke --rows 2000
monocal lab bench promotions --data "promotions, 100,000 rows" --calibrator isotonic
monocal lab bench paper --out runs/paper --data promotions --epochs 2
monocal lab bench persistence --data-dir logs/
monocal lab bench ab --out runs/ab
monocal lab bench my_study.toml --out runs/mine --data-dir logs/ --workers 2
""",
}


@with_columns("tasks", "fields", "time", "group", "weight", "sampling_rate", "scores_are")
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
    min_count: Annotated[int, typer.Option("--min-count", min=1, help="Rarer values count as unseen.")] = 2,
    max_size: MaxSize = None,
    hashed_fields: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=BUCKETS", help="Hash the values of a huge field instead of listing them."),
    ] = None,
    shares: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SHARE", help="Parts in time order; by default train 3, calibration 1, test 1."),
    ] = None,
    cuts: Annotated[
        list[str] | None, typer.Option(metavar="NAME=MOMENT", help="Where a part begins, instead of shares.")
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
    **columns: Any,
) -> None:
    """Encodes a raw log of any size as ids on disk.

    Interrupted work goes on with the same command; finished work is not repeated.
    """
    from monocal.lab.prepare.encoder import encode_log

    chosen: Any = raw
    if source is not None:
        chosen = _source_stream(source, raw, on_error or "raise")
    begin = {name: _moment(text) for name, text in arguments.pairs_only("--cuts", cuts).items()}
    options: dict[str, Any] = {"cuts": begin} if begin else {}
    if shares:
        given = arguments.pairs_only("--shares", shares)
        options["shares"] = {name: arguments.number("--shares", text) for name, text in given.items()}
    buckets = arguments.pairs_only("--hashed-fields", hashed_fields)
    log = encode_log(
        chosen,
        _schema(schema, label, columns, needed=source is None),
        out,
        min_count=min_count,
        max_size=max_size,
        hashed_fields={name: int(arguments.number("--hashed-fields", text)) for name, text in buckets.items()},
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


def _schema(file: Path | None, label: list[str] | None, columns: dict[str, Any], *, needed: bool) -> Roles | None:
    from monocal.tables.roles import Roles

    space = columns.pop("scores_are")
    is_named = any([label, *columns.values()])
    if file is not None:
        if is_named:
            raise InvalidInput.of("schema", "a file and columns", "one of the two", "put every column into the file")
        return Roles.from_toml(file)
    tasks = columns.pop("tasks") or {}
    labels = {name: name for name in arguments.names(label) or ()} | {name: pair[0] for name, pair in tasks.items()}
    if not labels:
        if needed or is_named:
            raise InvalidInput.of("label", None, "the label column", "write --label click, or --schema schema.toml")
        return None
    fields = arguments.chosen_fields(columns.pop("fields"))
    scores = {name: pair[1] for name, pair in tasks.items()} or None
    return Roles(labels, fields, scores=scores, scores_are=space, **columns)


def _moment(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def rank(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A prepared log.", show_default=False)],
    out: Out,
    ranker: Annotated[
        str | None,
        typer.Option(
            "--ranker",
            metavar="NAME",
            help="precomputed, hashed_logistic, deepfm, multitask_deepfm or qin; by default hashed_logistic, "
            "with --loss deepfm.",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What a network minimises: log_loss, jrc, rcr, calsoftmax, clid, sbcr or bbp."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Fields whose values make a list, for losses that compare rows of a list; for bbp user and item.",
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="RANKED", help="Another ranker's scores of the same rows, for clid and sbcr."),
    ] = None,
    negative_rate: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Learn from this share of the negatives; scores are corrected for it."),
    ] = None,
    options: Set = None,
    as_json: Json = False,
) -> None:
    """Trains a ranker on a prepared log and scores all of it.

    It learns from the part called train. Killed work goes on from its last checkpoint; finished work is not repeated.
    """
    from monocal.lab.prepare.encoded_log import EncodedLog
    from monocal.lab.rankers import RANKERS, ScoredLog, rank_log
    from monocal.lab.rankers import ranker as make_ranker

    if ranker is None:
        ranker = "hashed_logistic" if loss is None else "deepfm"
    settings: dict[str, Any] = {**cast("dict[str, Any]", options or {})}
    given = {"loss": loss, "group": arguments.names(group), "negative_rate": negative_rate}
    for name, value in given.items():
        if value is not None:
            if ranker in RANKERS and name not in RANKERS[ranker]().get_params(deep=False):
                raise InvalidInput.of(name, value, f"no {name} with {ranker}", "add --ranker deepfm")
            settings[name] = value
    teacher = None if reference is None else ScoredLog.open(reference)
    scored = rank_log(EncodedLog.open(log), make_ranker(ranker, **settings), out, reference=teacher)
    if as_json:
        facts = {"out": out, "ranker": ranker, "n_rows": scored.n_rows, "tasks": scored.tasks, "notes": scored.notes}
        print_json({**facts, "fingerprint": scored.fingerprint})
        return
    remark(f"scored {scored.n_rows:,} rows with {ranker} for {', '.join(scored.tasks)} in {out}")
    for note in scored.notes:
        remark(folded(f"  {note}"))


def bench(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="A TOML file, or the name of a shipped study.", show_default=False),
    ] = None,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FOLDER", help="Keeps cells and results; the same folder resumes."),
    ] = "runs",
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="FOLDER", help="The folder of real logs.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Cells at once, one thread each.")] = 2,
    memory_gib: Annotated[
        float, typer.Option("--memory-gib", min=0.1, help="Memory of all running cells together.")
    ] = 16.0,
    rows: Annotated[
        int | None, typer.Option("--rows", min=100, help="At most so many rows per part and one seed: a smoke run.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="NAME", help="Only this data set of the study; may be repeated."),
    ] = None,
    calibrator: Annotated[
        list[str] | None,
        typer.Option("--calibrator", metavar="NAME", help="Only this calibrator of the study; may be repeated."),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, help="Passes of published recipes, instead of their own number; rows say so."),
    ] = None,
    finished_only: Annotated[
        bool, typer.Option("--finished-only", help="Run nothing; write the table of the cells that are finished.")
    ] = False,
    retry_skipped: Annotated[
        bool, typer.Option("--retry-skipped", help="Try cells again that were skipped before.")
    ] = False,
    list_studies: Annotated[bool, typer.Option("--list", help="List the shipped studies and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Runs a study and writes its leaderboard.

    A study is data × calibrators × seeds, or an online experiment with simulated users. Finished cells are never
    repeated: an interrupted study goes on with the same command.
    """
    from monocal.lab.studies.cell_runner import RunOptions
    from monocal.lab.studies.run_study import run_file
    from monocal.lab.studies.study import read_entries, shipped_studies

    if list_studies:
        questions = {name: str(read_entries(name)[0]["question"]) for name in shipped_studies()}
        if as_json:
            print_json(questions)
        else:
            print_table("Studies", ["study", "what it asks"], list(questions.items()), left=2)
        return
    if study is None:
        raise InvalidInput.of("STUDY", None, "a TOML file or a shipped study", "see monocal lab bench --list")
    options = RunOptions(workers, int(memory_gib * 2**30), data_dir, retry_skipped, finished_only)
    leaderboard = run_file(
        study, out, options, smoke_rows=rows, data=data or (), calibrators=calibrator or (), n_epochs=epochs
    )
    text = leaderboard.read_text(encoding="utf-8")
    if as_json:
        print_json({"leaderboard": leaderboard, "markdown": text})
    else:
        print_lines(text)
        remark(f"written to {leaderboard}")


VERBS = {"prepare": prepare, "rank": rank, "bench": bench}
