"""From a study's data entry to prepared data: simulate a world, or rank a real log."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.fingerprint import fingerprint
from monocal.lab.simulator import find_world, simulate_log
from monocal.lab.studies.ranked_logs import open_scored_log, rank_real_log
from monocal.lab.studies.study import DataSpec
from monocal.lab.studies.study_data import PreparedData, write


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
    n_fields = spec.max_fields or len(log.field_names)
    features = log.features[:, :n_fields]
    names = list(log.field_names[:n_fields])
    return write(
        folder,
        {
            "calibration_logits": log.logits[:cut],
            "calibration_labels": log.labels[:cut].astype(np.int8),
            "calibration_features": np.ascontiguousarray(features[:cut]),
            "calibration_times": log.times[:cut],
            "test_logits": log.logits[cut:],
            "test_features": np.ascontiguousarray(features[cut:]),
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
