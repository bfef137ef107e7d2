"""The verbs of a model in use: refresh, gate, promote, rollback, watch, serve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monocal.cli.engines import Engine
from monocal.cli.exits import ALARM, REFUSED
from monocal.cli.options import ENGINE, LATE, PERIOD, Count, Names, Range, Settings, takes
from monocal.cli.output import folded, print_json, print_lines, remark

if TYPE_CHECKING:
    from monocal.monitoring.registry import Registry


@takes("label", "weight", "time", "scores_are", *LATE, "max_harm", *PERIOD, *ENGINE)
def refresh(
    model: Path,
    table: list[str],
    *,
    out: str,
    gate: bool = False,
    by: Names = None,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Goes on from a model with newer rows.

    Level, slope and shifts move as far as the rows and what was known before say; new field values get a shift, values
    unseen for long fade. The model itself stays as it is. Exit code 3: the gate failed.

    Arguments:
        gate: Write nothing unless a refresh on the older rows passes on the newest.
        by (COLUMNS): Guarded columns of the gate: every value of them is evaluated.
        scores_are: The space of the scores; another one than the model's is refused.

    Examples:
        monocal refresh model/ today.parquet --out next/
        monocal refresh model/ today.parquet --out next/ --gate --by store_id
        monocal refresh model/ log.parquet --time ts --since 2026-05-04 --out next/ --json
    """
    rows = Engine.out_of(given).table(table)
    from monocal.models.inspect import history_lines
    from monocal.monitoring.refresh import refresh as refresh_folder

    done = refresh_folder(model, rows, out=out, gate=gate, by=by or (), **given)
    remark(done.late_labels)
    if as_json:
        print_json(done.as_dict())
    else:
        print_lines(folded("\n".join(history_lines(done.model.info)[-1:])))
        remark(done.verdict)
    if not done.written:
        raise typer.Exit(REFUSED)
    remark(f"wrote generation {done.model.info['generation']} to {out}")


@takes("label", "group", "weight", "time", *LATE, "max_harm", *PERIOD, *ENGINE)
def gate(
    old: Path,
    new: Path,
    table: list[str],
    *,
    by: Names = None,
    html: str | None = None,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Says whether a new model may replace the old one.

    Both are compared row by row on rows that neither has seen. Exit code 0: it may. Exit code 3: it is worse, overall
    or in a guarded segment, or there are too few rows to exclude that; the message says how many it takes.

    Arguments:
        old (OLD): The folder of the active model.
        new (NEW): The folder of the candidate.
        by (COLUMNS): Guarded columns: every value of them is evaluated.
        html (FILE): Write the verdict as one page, too.

    Examples:
        monocal gate old/ new/ fresh.parquet
        monocal gate old/ new/ fresh.parquet --by store_id,placement --html gate.html
        monocal gate old/ new/ fresh.parquet --max-harm 0.001 --json | jq .reasons
    """
    from monocal.core.files import output_file
    from monocal.monitoring.gate import gate as gate_models

    page = None if html is None else output_file(html, "html")
    found = gate_models(old, new, Engine.out_of(given).table(table), by=by or [], **given)
    if page is not None:
        from monocal.reports.page import write_gate_page

        write_gate_page(found, page)
    if as_json:
        print_json(found.as_dict())
    else:
        print_lines(folded(str(found)))
    if not found.passed:
        raise typer.Exit(REFUSED)


def promote(model: Path, *, registry: str, as_json: bool = False) -> None:
    """Makes a model the active one of a registry.

    The model is checked and copied; then one file is replaced, which says what generation is active. Promoting the
    active model again changes nothing. Nothing is ever removed from the registry.

    Examples:
        monocal promote new/ --registry registry/
        monocal promote new/ --registry registry/ --json | jq -r .folder
    """
    from monocal.monitoring.registry import promote as promote_model

    _print_registry(promote_model(model, registry), as_json)


def rollback(*, registry: str, generation: Count | None = None, as_json: bool = False) -> None:
    """Returns to the model that was active before.

    That is the one that was active when the current generation was promoted; it is checked first. A generation that
    was rolled back is not returned to.

    Arguments:
        generation: Only if this generation is the active one, so that a repeated call goes back once.

    Examples:
        monocal rollback --registry registry/
        monocal rollback --registry registry/ --generation 7
    """
    from monocal.monitoring.registry import rollback as roll_back

    _print_registry(roll_back(registry, generation=generation), as_json)


def _print_registry(found: Registry, as_json: bool) -> None:
    if as_json:
        print_json(found.facts())
    else:
        remark(f"generation {found.current.generation} is active since {found.current.at}: {found.model_folder}")


@takes("time", "label", "sampling_rate", "label_time", "window", *PERIOD, *ENGINE)
def watch(
    model: Path,
    table: list[str],
    *,
    by: Names = None,
    state: str | None = None,
    every: str | None = None,
    false_alarm_rate: float = 0.05,
    tolerance: Annotated[float, Range(0.0)] = 0.05,
    max_unseen: float | None = None,
    max_drift: float | None = None,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Says every day whether a model in use is still calibrated.

    PCOC and log-loss are followed overall and by slice. The chance of any false alarm, in any chart on any day since
    the watch began, is at most the stated rate. Every day is read once. Exit code 4 is an alarm, 0 none. Days without
    labels show what the forecast expects of itself, and are read again when their labels are there.

    Arguments:
        by (COLUMNS): Every value of these columns gets charts of its own.
        state (FOLDER): Where the watch is kept from run to run; by default beside the model, with .watch added.
        every (LENGTH): The length of a period: 1d, 12h; a number for numbers.
        false_alarm_rate: The chance of any false alarm, ever, in any chart.
        tolerance: Relative error of a forecast that is tolerated.
        max_unseen (SHARE): Alarm, too, beyond this share of unseen values.
        max_drift (PSI): Alarm, too, beyond this drift of scores.

    Examples:
        monocal watch model/ day.parquet --time ts --by store_id,placement
        monocal watch model/ day.parquet --time ts --state watch/ --false-alarm-rate 0.01 --json
        monocal watch model/ log.parquet --time ts --since 2024-05-01 --until 2024-05-02 --max-unseen 0.1
    """
    rows = Engine.out_of(given).table(table)
    from monocal.models import load_model
    from monocal.monitoring.watch import watch as watch_table

    found = watch_table(
        load_model(model),
        rows,
        by=by or [],
        state=state or model.with_name(f"{model.resolve().name}.watch"),
        every=every,
        false_alarm_rate=false_alarm_rate,
        tolerance=tolerance,
        max_unseen=max_unseen,
        max_drift=max_drift,
        **given,
    )
    if as_json:
        print_json(found.as_dict())
    else:
        from monocal.cli.tables import print_watch

        print_watch(found)
    if found.is_alarmed:
        raise typer.Exit(ALARM)


def serve(
    model: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    admin_port: int | None = None,
    watch: bool = False,
    shadow: Path | None = None,
    token_file: Path | None = None,
    settings: Settings = None,
) -> None:
    """Answers calibration requests over HTTP until stopped.

    Of a registry the service serves the active generation, and follows every promotion and rollback.
    SIGTERM and Ctrl-C let requests in hand finish. Logs are JSON lines on standard error. Admin calls are off without a
    token, which is never taken from the command line, where other users could read it. What is not given is taken from
    a variable such as MONOCAL_MAX_ROWS.

    Arguments:
        host: Address to listen on; this machine alone by default.
        port: Port; 8080 by default, 0 takes a free one.
        workers: Processes that share the port; 1 by default.
        admin_port: A port of its own for admin calls and metrics.
        watch: Take over a new model when the folder changes.
        shadow (MODEL): A second model that scores the traffic without answering.
        token_file (FILE): Secret of admin calls and feedback; or set MONOCAL_TOKEN.
        settings (NAME=VALUE): Another setting of the service, such as max_rows=1000.

    Examples:
        monocal serve model/
        monocal serve model/ --port 8080 --workers 2 --watch
        monocal serve model/ --shadow candidate/ --set max_rows=1000
        monocal serve registry/ --workers 2
    """
    from monocal.serving import Settings as ServiceSettings
    from monocal.serving import run

    token = None if token_file is None else token_file.read_text(encoding="utf-8")
    given: dict[str, Any] = {"host": host, "port": port, "workers": workers, "admin_port": admin_port, "shadow": shadow}
    given |= {"watch": watch or None, "token": token, **(settings or {})}
    run(ServiceSettings.from_environment(model, **given))
