"""The verbs of the laboratory, `monocal lab …`: prepare a raw log, rank it, run a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from monocal.cli import arguments
from monocal.cli.options import Count, Names, Range, Settings, takes
from monocal.cli.output import folded, print_json, print_lines, print_table, remark
from monocal.core.errors import InvalidInput, check_known

if TYPE_CHECKING:
    from monocal.tables.roles import Roles

VERBS = ("prepare", "rank", "bench")


@takes("tasks", "fields", "time", "group", "weight", "sampling_rate", "scores_are")
def prepare(
    raw: str,
    *,
    out: str,
    source: str | None = None,
    schema: Path | None = None,
    label: Names = None,
    min_count: Count = 2,
    max_size: Count | None = None,
    hashed_fields: list[str] | None = None,
    shares: list[str] | None = None,
    cuts: list[str] | None = None,
    history: str | None = None,
    fit_on: Literal["train", "all"] = "train",
    on_error: Literal["raise", "skip"] | None = None,
    as_json: bool = False,
    **columns: Any,
) -> None:
    """Encodes a raw log of any size as ids on disk.

    Finished work is not repeated: the same command with the same options returns at once.

    Arguments:
        raw (RAW): A table (Parquet, CSV, a folder, a glob), or a source's raw files.
        source (NAME): A public data set in its raw format: avazu, criteo, …
        schema (FILE): A TOML file that says which column is what.
        label (COLUMNS): The 0/1 outcome; one per task, with commas.
        hashed_fields (FIELD=BUCKETS): Hash the values of a huge field instead of listing them.
        shares (NAME=SHARE): Parts in time order; by default train 3, calibration 1, test 1.
        cuts (NAME=MOMENT): Where a part begins, instead of shares.
        history (COLUMN): Keep what each row's user did before, for the ranker qin.
        fit_on: Which rows the vocabulary may see.
        on_error: What to do with malformed rows.

    Examples:
        monocal lab prepare log.parquet --label click --fields site_id,app_id,hour --time timestamp --out prepared/
        monocal lab prepare "logs/*.csv.gz" --schema schema.toml --out prepared/
        monocal lab prepare avazu/ --source avazu --out prepared/
        monocal lab prepare log.parquet --label click --fields site,ip --hashed-fields ip=1000000 --out prepared/
        monocal lab prepare log.parquet --label click --fields site_id --time ts --cuts test=2024-05-08 --out prepared/
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

    check_known("source", name, SOURCES)
    source = SOURCES[name]()
    if source.notice:
        remark(source.notice)
    return source.open(raw, on_error=on_error)


def _schema(file: Path | None, label: list[str] | None, columns: dict[str, Any], *, needed: bool) -> Roles | None:
    from monocal.tables.roles import Roles

    is_named = any([label, *columns.values()])
    if file is not None:
        if is_named:
            raise InvalidInput.of("schema", "a file and columns", "one of the two", "put every column into the file")
        return Roles.from_toml(file)
    tasks = {name: (name, None) for name in label or ()} | (columns.pop("tasks") or {})
    if not tasks:
        if needed or is_named:
            raise InvalidInput.of("label", None, "the label column", "write --label click, or --schema schema.toml")
        return None
    fields = columns.pop("fields") or []
    return Roles(tasks=tasks, fields=fields, **{name: part for name, part in columns.items() if part is not None})


def _moment(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def rank(
    log: Path,
    *,
    out: str,
    ranker: str | None = None,
    loss: str | None = None,
    group: Names = None,
    reference: Path | None = None,
    negative_rate: float | None = None,
    settings: Settings = None,
    as_json: bool = False,
) -> None:
    """Trains a ranker on a prepared log and scores all of it.

    It learns from the part called train. Finished work is not repeated.

    Arguments:
        log (LOG): A prepared log.
        ranker (NAME): precomputed, hashed_logistic, deepfm, multitask_deepfm or qin; by default hashed_logistic, with
            --loss deepfm.
        loss (NAME): What a network minimises: log_loss, jrc, rcr, calsoftmax, clid, sbcr or bbp.
        group (COLUMNS): Fields whose values make a list, for losses that compare rows of a list; for bbp user and item.
        reference (RANKED): Another ranker's scores of the same rows, for clid and sbcr.
        negative_rate (SHARE): Learn from this share of the negatives; scores are corrected for it.

    Examples:
        monocal lab rank prepared/ --out ranked/
        monocal lab rank prepared/ --ranker deepfm --set hidden=[64,32] --out ranked/
        monocal lab rank prepared/ --ranker deepfm --negative-rate 0.1 --out ranked/
        monocal lab rank prepared/ --ranker precomputed --out ranked/
        monocal lab rank prepared/ --loss jrc --group user_id --out ranked/
    """
    from monocal.lab.prepare.encoded_log import EncodedLog
    from monocal.lab.rankers import RANKERS, ScoredLog, rank_log
    from monocal.lab.rankers import ranker as make_ranker

    if ranker is None:
        ranker = "hashed_logistic" if loss is None else "deepfm"
    chosen = dict(settings or {})
    given = {"loss": loss, "group": group, "negative_rate": negative_rate}
    for name, value in given.items():
        if value is not None:
            if ranker in RANKERS and name not in RANKERS[ranker]().get_params(deep=False):
                raise InvalidInput.of(name, value, f"no {name} with {ranker}", "add --ranker deepfm")
            chosen[name] = value
    teacher = None if reference is None else ScoredLog.open(reference)
    scored = rank_log(EncodedLog.open(log), make_ranker(ranker, **chosen), out, reference=teacher)
    if as_json:
        facts = {"out": out, "ranker": ranker, "n_rows": scored.n_rows, "tasks": scored.tasks, "notes": scored.notes}
        print_json({**facts, "fingerprint": scored.fingerprint})
        return
    remark(f"scored {scored.n_rows:,} rows with {ranker} for {', '.join(scored.tasks)} in {out}")
    for note in scored.notes:
        remark(folded(f"  {note}"))


def bench(
    study: str | None = None,
    *,
    out: str = "runs",
    data_dir: Path | None = None,
    workers: Count = 2,
    memory_gib: Annotated[float, Range(0.1)] = 16.0,
    rows: Annotated[int, Range(100)] | None = None,
    data: list[str] | None = None,
    calibrator: list[str] | None = None,
    epochs: Count | None = None,
    finished_only: bool = False,
    retry_skipped: bool = False,
    list_studies: Annotated[bool, typer.Option("--list", help="List the shipped studies and stop.")] = False,
    as_json: bool = False,
) -> None:
    """Runs a study and writes its leaderboard.

    A study is data × calibrators × seeds, or an online experiment with simulated users. Finished cells are never
    repeated: an interrupted study goes on with the same command.

    Arguments:
        study (STUDY): A TOML file, or the name of a shipped study.
        out (FOLDER): Keeps cells and results; the same folder resumes.
        data_dir (FOLDER): The folder of real logs.
        workers: Cells at once, one thread each.
        memory_gib: Memory of all running cells together.
        rows: At most so many rows per part and one seed: a smoke run.
        data (NAME): Only this data set of the study; may be repeated.
        calibrator (NAME): Only this calibrator of the study; may be repeated.
        epochs: Passes of published recipes, instead of their own number; rows say so.
        finished_only: Run nothing; write the table of the cells that are finished.
        retry_skipped: Try cells again that were skipped before.

    Examples:
        monocal lab bench --list
        monocal lab bench main --out runs/main
        monocal lab bench main --out runs/smoke --rows 2000
        monocal lab bench promotions --data "promotions, 100,000 rows" --calibrator isotonic
        monocal lab bench paper --out runs/paper --data promotions --epochs 2
        monocal lab bench persistence --data-dir logs/
        monocal lab bench ab --out runs/ab
        monocal lab bench my_study.toml --out runs/mine --data-dir logs/ --workers 2
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
