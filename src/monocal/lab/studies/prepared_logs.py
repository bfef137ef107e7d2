"""From a study's data entry to prepared data: simulate a world, or encode and rank a real log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput, MonocalError, check_known
from monocal.core.folder import fingerprint
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.prepare.source import SourceStream
from monocal.lab.prepare.splits import RowRange
from monocal.lab.rankers import Ranker, ScoredLog, rank_log, ranker
from monocal.lab.simulator import find_world, simulate_log
from monocal.lab.sources import SOURCES
from monocal.lab.studies.study import DataSpec
from monocal.lab.studies.study_data import PreparedData, write


class DataMissing(MonocalError):
    """A study's data are not on this machine; its cells are skipped with this reason."""


def rank_real_log(spec: DataSpec, folder: Path, cache: Path, data_folder: Path | None) -> PreparedData:
    """Encodes a raw log, trains the ranker on its oldest part, and keeps scores of the calibration and test parts."""
    check_known(f"source of {spec.name!r}", spec.source, SOURCES)
    stream = _open(spec, data_folder)
    chosen = ranker(spec.ranker, **spec.ranker_arguments)
    if spec.cuts:
        return _keep(spec, _rank_by_cuts(spec, stream, chosen, cache), folder)
    where = [spec.source, spec.file, *([dict(spec.source_arguments)] if spec.source_arguments else [])]
    log = _cut(encode_log(stream, None, cache / "encoded" / fingerprint(*where)), spec)
    scored = rank_log(log, chosen, cache / "ranked" / fingerprint(spec.identity()))
    return _keep(spec, scored, folder)


def _open(spec: DataSpec, data_folder: Path | None) -> SourceStream:
    """Opens the raw log in the data folder, or in the installed package that brings it."""
    source = SOURCES[spec.source](**spec.source_arguments)
    packaged = bool(source.package) and not spec.file
    raw = None if data_folder is None else data_folder / spec.file
    if raw is not None and raw.exists():
        try:
            return source.open(raw)
        except InvalidInput:
            if not packaged:
                raise
    package = source.installed_folder() if packaged else None
    if package is not None:
        return source.open(package)
    remedy = f"; or install {source.package}" if packaged else ""
    if data_folder is None:
        raise DataMissing(f"{spec.source}: no data folder was given; pass --data-dir{remedy}")
    raise DataMissing(f"{spec.source}: {spec.file or 'its raw files'} not found in the data folder{remedy}")


def _rank_by_cuts(spec: DataSpec, stream: SourceStream, chosen: Ranker, cache: Path) -> ScoredLog:
    """Ranks whole parts, so that entries with more or fewer calibration rows share one ranker, then shortens them."""
    if list(spec.cuts) != ["calibration", "test"]:
        raise InvalidInput.of(
            f"cuts of {spec.name!r}", dict(spec.cuts), "where calibration and test begin", "name these two, in order"
        )
    where = [spec.source, spec.file, dict(spec.cuts), *([dict(spec.source_arguments)] if spec.source_arguments else [])]
    log = encode_log(stream, None, cache / "encoded" / fingerprint(*where), cuts=spec.cuts)
    train = log.parts["train"]
    start = max(train.start, train.stop - (spec.n_train or train.n_rows))
    log = replace(log, parts={**log.parts, "train": RowRange(start, train.stop)})
    ranked = cache / "ranked" / fingerprint(*where, spec.n_train, spec.ranker, dict(spec.ranker_arguments))
    scored = rank_log(log, chosen, ranked)
    return replace(scored, log=replace(scored.log, parts=_shortened(log, spec))) if spec.n_calibration else scored


def open_scored_log(spec: DataSpec, data_cache: Path, data_folder: Path | None) -> PreparedData:
    """Takes calibration and test parts from a folder of `monocal lab rank`; its contents are part of the key."""
    path = Path(spec.file) if data_folder is None else data_folder / spec.file
    if not path.is_dir():
        raise DataMissing(
            f"{spec.name}: no scored log at {spec.file!r}; write one with monocal lab rank, pass --data-dir"
        )
    scored = ScoredLog.open(path)
    folder = data_cache / fingerprint(spec.identity(), scored.fingerprint, 3)
    if folder.is_dir():
        return PreparedData(folder)
    if spec.n_calibration:
        scored = replace(scored, log=replace(scored.log, parts=_shortened(scored.log, spec)))
    return _keep(spec, scored, folder)


def _shortened(log: EncodedLog, spec: DataSpec) -> dict[str, RowRange]:
    calibration, test = log.parts["calibration"], log.parts["test"]
    return dict(log.parts) | {
        "calibration": RowRange(max(calibration.start, calibration.stop - spec.n_calibration), calibration.stop),
        "test": RowRange(test.start, min(test.stop, test.start + spec.n_test)),
    }


def _cut(log: EncodedLog, spec: DataSpec) -> EncodedLog:
    """Limits the parts to the rows a study asks for, around the border between training and calibration."""
    if not spec.n_calibration:
        return log
    border = log.parts["calibration"].start
    start = max(border - (spec.n_train or border), 0)
    n_calibration = min(spec.n_calibration, log.n_rows - border)
    stop = min(border + n_calibration + spec.n_test, log.n_rows)
    parts = {
        "train": RowRange(0, border - start),
        "calibration": RowRange(border - start, border - start + n_calibration),
        "test": RowRange(border - start + n_calibration, stop - start),
    }
    return replace(log.slice(start, stop), parts=parts)


def _keep(spec: DataSpec, scored: ScoredLog, folder: Path) -> PreparedData:
    task = scored.tasks[0]
    calibration, test = scored.part("calibration"), scored.part("test")
    names = list(scored.log.field_names)
    arrays: dict[str, Any] = {}
    for name, part in (("calibration", calibration), ("test", test)):
        arrays[f"{name}_logits"] = part.logits[task]
        arrays[f"{name}_labels"] = part.log.labels[task]
        arrays[f"{name}_features"] = part.log.features
        if part.log.times is not None:
            arrays[f"{name}_times"] = part.log.times
    if test.log.groups is not None:
        arrays["test_groups"] = test.log.groups.astype(np.int64)
    tables: Any = scored.embeddings or []
    arrays |= {f"embedding{index}": table for index, table in enumerate(tables)}
    return write(
        folder,
        arrays,
        {
            "name": spec.name,
            "n_calibration": calibration.n_rows,
            "n_test": test.n_rows,
            "field_names": names,
            "main_field": spec.main_field or names[0],
            "n_embeddings": len(tables),
            "label_rate_calibration": float(np.mean(calibration.log.labels[task])),
            "notes": list(scored.notes),
            "notice": SOURCES[spec.source].notice if spec.source in SOURCES else "",
        },
    )


def prepare(spec: DataSpec, cache: Path, data_folder: Path | None) -> PreparedData:
    """Prepares a data set once; a second call with the same entry returns at once."""
    folder = cache / "data" / fingerprint(spec.identity(), 3)
    if spec.kind == "scored":
        return open_scored_log(spec, cache / "data", data_folder)
    if folder.is_dir():
        return PreparedData(folder)
    if spec.kind == "simulated":
        return _simulate(spec, folder)
    if spec.kind == "log":
        return rank_real_log(spec, folder, cache, data_folder)
    raise InvalidInput.of("kind of data", repr(spec.kind), '"simulated", "log" or "scored"', "choose one of the three")


def _simulate(spec: DataSpec, folder: Path) -> PreparedData:
    world = find_world(spec.world).with_seed(spec.world_seed)
    n, cut = spec.n_calibration + spec.n_test, spec.n_calibration
    log = simulate_log(spec.n_log or n, seed=spec.seed, world=world)
    if spec.n_log:
        log = log.take(slice(spec.n_train, spec.n_train + n))
    names = list(log.field_names)
    return write(
        folder,
        {
            "calibration_logits": log.logits[:cut],
            "calibration_labels": log.labels[:cut].astype(np.int8),
            "calibration_features": np.ascontiguousarray(log.features[:cut]),
            "calibration_times": log.times[:cut],
            "test_logits": log.logits[cut:],
            "test_features": np.ascontiguousarray(log.features[cut:]),
            "test_labels": log.labels[cut:].astype(np.int8),
            "test_groups": log.users[cut:].astype(np.int64),
            "test_times": log.times[cut:],
            "test_true_probabilities": log.true_probabilities[cut:],
        },
        {
            "name": spec.name,
            "n_calibration": cut,
            "n_test": spec.n_test,
            "field_names": names,
            "main_field": spec.main_field or names[0],
            "n_embeddings": 0,
            "label_rate_calibration": float(log.labels[:cut].mean()),
        },
    )
