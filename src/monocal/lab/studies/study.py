"""A study as one TOML file, read into frozen values; an unknown key stops with a suggestion."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, final

from monocal.core.errors import InvalidInput, UnknownName, check_known

Spec = TypeVar("Spec")

TABLES = ("leaderboard", "rivals", "levels")
_LATER_KEYS = ("cuts", "n_log", "source_arguments")

DEFAULT_METRICS = ("auc", "gauc", "log_loss", "pcoc", "ece", "frce", "mfrce")


@final
@dataclass(frozen=True)
class DataSpec:
    """One data set of a study.

    Arguments:
        name: What tables call it.
        kind: `simulated` (a world with known truth), `log` (a raw log that a ranker scores first) or `scored` (a folder
            that `monocal lab rank` wrote).
        world: Name of the simulated world.
        world_seed: Draws the world.
        seed: Draws the rows.
        n_log: Rows of the simulated log, spread over the world's days; the first `n_train` of them are left out, then
            calibration and test rows follow. 0 simulates these two alone.
        source: Name of the log's source.
        source_arguments: Its constructor arguments, such as the tasks to take.
        file: Where the log lies, relative to the data folder; empty takes the data folder itself or, where that does
            not hold the log, the installed package that does.
        ranker: Who scores a real log: `deepfm` or `hashed_logistic`.
        ranker_arguments: Its constructor arguments.
        n_train: Rows that train the ranker (simulated worlds bring their own scores and need none).
        n_calibration: Rows that calibrators are fitted on; 0 takes a real log's own parts, 3:1:1 in time order or by
            `cuts`.
        n_test: Rows that judge them.
        cuts: Values of a real log's time column at which the parts `calibration` and `test` begin, instead of 3:1:1.
            Then the newest `n_train` and `n_calibration` rows of their parts and the oldest `n_test` of theirs count,
            and entries that differ in the last two alone share one ranker.
        main_field: The field of FRCE; the first one if empty.
        period: What the time column counts, such as `week`: PCOC is listed for each of its values too. Empty lists
            none.
        n_seeds: Only the first so many of the study's seeds, for large data that are drawn more than once; 0 means all.
    """

    name: str
    kind: str = "simulated"
    world: str = "default"
    world_seed: int = 0
    seed: int = 0
    n_log: int = 0
    source: str = ""
    source_arguments: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    ranker: str = "deepfm"
    ranker_arguments: Mapping[str, Any] = field(default_factory=dict)
    n_train: int = 0
    n_calibration: int = 200_000
    n_test: int = 200_000
    main_field: str = ""
    cuts: Mapping[str, int | str] = field(default_factory=dict)
    period: str = ""
    n_seeds: int = 0

    def identity(self) -> dict[str, Any]:
        """Returns what prepared data depend on; without keys that came later it is what it was before them."""
        entries = {key: value for key, value in asdict(self).items() if key not in ("period", "n_seeds")}
        return {key: value for key, value in entries.items() if key not in _LATER_KEYS or value}


@final
@dataclass(frozen=True)
class CalibratorSpec:
    """One row of the leaderboard.

    Arguments:
        name: What tables call it.
        method: A calibrator's name, or a peer's: `lightgbm`, `mcgrad`.
        arguments: Constructor arguments.
        search: Argument name to candidate values, searched on the newest part of the calibration rows.
        n_trials: How many candidates the search may try.
        search_epochs: Candidates train at most so many epochs, and the number that was best on the newest part is
            chosen with them; 0 leaves the epochs alone.
        n_seeds: Only the first so many of the study's seeds, for slow methods; 0 means all.
        use_embeddings: Hand over the ranker's frozen embeddings, where there are any.
        time_limit_seconds: A cell that takes longer is skipped, with that reason.
    """

    name: str
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, list[Any]] = field(default_factory=dict)
    n_trials: int = 10
    search_epochs: int = 0
    n_seeds: int = 0
    use_embeddings: bool = False
    time_limit_seconds: float = 3600.0


@final
@dataclass(frozen=True)
class Study:
    """Data sets × calibrators × seeds.

    Arguments:
        name: Name of the study.
        question: What it asks, in a sentence.
        data: The data sets.
        calibrators: The calibrators.
        seeds: Seeds of the calibrators.
        metrics: What is measured.
        n_bootstrap: Replicates behind intervals.
        reference: The calibrator that the others are compared with, beside the best.
        table: What is made of the finished cells: `leaderboard` (every metric with intervals), `rivals` (one line per
            data set: the challenger beside the best of its rivals) or `levels` (one line per calibrator and seed:
            paired differences to the challenger, PCOC by period, and what right levels would give).
        challenger: The calibrator that the tables `rivals` and `levels` are about.
        rivals: The calibrators whose best the challenger is compared with.
    """

    name: str
    question: str
    data: tuple[DataSpec, ...]
    calibrators: tuple[CalibratorSpec, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    metrics: tuple[str, ...] = DEFAULT_METRICS
    n_bootstrap: int = 100
    reference: str = "none"
    table: str = "leaderboard"
    challenger: str = ""
    rivals: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Mapping[str, Any], origin: str = "the study") -> Study:
        """Builds a study from plain values and refuses what it does not know.

        Example:
            >>> Study.of({"name": "s", "question": "?", "data": [{"name": "d"}], "calibratrs": []})
            Traceback (most recent call last):
            ...
            monocal.core.errors.UnknownName: key of the study: got 'calibratrs'; ... did you mean 'calibrators'?
        """
        plain = dict(entries)
        check_keys(cls, [plain], origin)
        for key in ("name", "question", "data", "calibrators"):
            if not plain.get(key):
                raise InvalidInput.of(origin, f"no {key}", f"a value for {key}", "see a shipped study for an example")
        data = built(DataSpec, plain.pop("data"), f"data of {origin}")
        calibrators = built(CalibratorSpec, plain.pop("calibrators"), f"calibrators of {origin}")
        lists: dict[str, Any] = {key: tuple(plain.pop(key)) for key in ("seeds", "metrics", "rivals") if key in plain}
        study = cls(data=data, calibrators=calibrators, **lists, **plain)
        for kind, names in (("data", [d.name for d in data]), ("calibrator", [c.name for c in calibrators])):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise InvalidInput.of(f"{kind} name", f"{twice[0]!r} twice", "every name once", "rename one of them")
        check_known(f"table of {origin}", study.table, TABLES)
        for name in (study.challenger, *study.rivals) if study.table != "leaderboard" else ():
            check_known(f"challenger or rival of {origin}", name, [spec.name for spec in calibrators])
        return study

    def only(self, data: Sequence[str] = (), calibrators: Sequence[str] = ()) -> Study:
        """Returns the same study with these data sets and calibrators alone; none named means all."""
        check_named(self.name, data=(data, self.data), calibrator=(calibrators, self.calibrators))
        return replace(
            self,
            data=tuple(spec for spec in self.data if not data or spec.name in data),
            calibrators=tuple(spec for spec in self.calibrators if not calibrators or spec.name in calibrators),
        )

    def trained_for(self, n_epochs: int) -> Study:
        """Returns the same study in which published recipes learn for so many passes; their rows say so.

        Example:
            >>> names = [spec.name for spec in load_study("paper").trained_for(2).calibrators]
            >>> names[5], names[6]
            ('Gauss', 'FAC, 2 of its epochs')
        """
        names = {
            spec.name: f"{spec.name}, {n_epochs} of its epochs"
            for spec in self.calibrators
            if "preset" in spec.arguments
        }
        calibrators = tuple(
            replace(spec, name=names[spec.name], arguments={**spec.arguments, "n_epochs": n_epochs})
            if spec.name in names
            else spec
            for spec in self.calibrators
        )
        return replace(self, calibrators=calibrators)

    def scaled(self, rows: int, seeds: int = 1) -> Study:
        """Returns the same study with at most so many calibration and test rows and seeds: a smoke run."""
        data = tuple(
            replace(
                spec,
                n_train=min(spec.n_train or 2 * rows, 2 * rows),
                n_calibration=min(spec.n_calibration or rows, rows),
                n_test=min(spec.n_test, rows),
                n_log=0,
            )
            for spec in self.data
        )
        return replace(self, data=data, seeds=self.seeds[:seeds], n_bootstrap=min(self.n_bootstrap, 20))


def load_study(path_or_name: str | Path) -> Study:
    """Reads a study from a TOML file, or a shipped one by name.

    Example:
        >>> load_study("main").name
        'main'
    """
    entries, origin = read_entries(path_or_name)
    return Study.of(entries, origin)


def read_entries(path_or_name: str | Path) -> tuple[dict[str, Any], str]:
    """Reads a TOML file, or a shipped one by name; returns its values and what errors call it."""
    path = Path(path_or_name)
    shipped = shipped_studies()
    if path.is_file():
        text, origin = path.read_text(encoding="utf-8"), path.name
    elif path.name.removesuffix(".toml") in shipped:
        origin = path.name.removesuffix(".toml")
        text = shipped[origin]
    else:
        raise UnknownName.among("study", str(path_or_name), shipped)
    try:
        return tomllib.loads(text), origin
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput.of("study", f"{origin} ({error})", "a readable TOML file", "fix the file") from error


def shipped_studies() -> dict[str, str]:
    """Returns the text of every study that comes with the package, by name."""
    folder = files("monocal.lab.studies") / "shipped"
    return {
        path.name.removesuffix(".toml"): path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".toml")
    }


def built(kind: type[Spec], tables: Sequence[Any], origin: str) -> tuple[Spec, ...]:
    """Returns a specification for every table of a study's file; unknown keys and missing names are refused."""
    for table in tables:
        if not isinstance(table, Mapping):
            raise InvalidInput.of(origin, repr(table), "a table", "write [[data]] or [[calibrators]] tables")
        if "name" not in table:
            raise InvalidInput.of(origin, "an entry without name", "a name", 'add name = "…"')
    check_keys(kind, tables, origin)
    return tuple(kind(**table) for table in tables)


def check_keys(kind: Any, tables: Sequence[Mapping[str, Any]], origin: str) -> None:
    """Refuses a key that a dataclass does not know."""
    known = [entry.name for entry in fields(kind)]
    for key in (key for table in tables for key in table):
        check_known(f"key of {origin}", key, known)


def check_named(study: str, **chosen: tuple[Sequence[str], Sequence[Any]]) -> None:
    """Refuses names that are not in a study: by kind, those asked for and everything that there is."""
    for kind, (wanted, specs) in chosen.items():
        known = [spec.name for spec in specs]
        for name in wanted:
            check_known(f"{kind} of {study!r}", name, known)
