"""Data of a study on disk: calibration rows, test rows, and the test labels in a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.fields import Ids
from monocal.core.folder import FolderFormat
from monocal.core.scores import Floats

STUDY_DATA = FolderFormat(
    "monocal study data", 1, "facts.json", called="prepared data of a study", remedy="delete the folder and run again"
)
"""How prepared data lie on disk."""


@final
@dataclass(frozen=True)
class CalibrationRows:
    """What a calibrator may see: scores, labels and features, in time order, and when the rows happened if known."""

    logits: Floats
    labels: NDArray[np.int8]
    features: Ids
    times: NDArray[np.int64] | None
    embeddings: list[NDArray[np.float32]] | None


@final
@dataclass(frozen=True)
class TestRows:
    """What a calibrator is asked to predict: scores and features, no labels."""

    __test__ = False

    logits: Floats
    features: Ids


@final
@dataclass(frozen=True)
class Truth:
    """What only the evaluator opens; groups and times are None for a log that has none."""

    labels: NDArray[np.int8]
    groups: NDArray[np.int64] | None
    times: NDArray[np.int64] | None
    true_probabilities: Floats | None


@final
class PreparedData:
    """One data set, prepared once and read by every cell.

    Arguments:
        folder: Where `write` put it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts = STUDY_DATA.read(folder)
        STUDY_DATA.verify(folder, self.facts, contents=False)

    @property
    def field_names(self) -> list[str]:
        return list(self.facts["field_names"])

    def calibration(self, with_embeddings: bool = False) -> CalibrationRows:
        tables = None
        if with_embeddings and self.facts["n_embeddings"]:
            tables = [self._map(f"embedding{k}") for k in range(self.facts["n_embeddings"])]
        return CalibrationRows(
            self._map("calibration_logits"),
            self._map("calibration_labels"),
            self._map("calibration_features"),
            self._map_or_none("calibration_times"),
            tables,
        )

    def test(self) -> TestRows:
        return TestRows(self._map("test_logits"), self._map("test_features"))

    def truth(self) -> Truth:
        """Opens the test labels. Called by the evaluator and by nobody else."""
        return Truth(
            self._map("test_labels"),
            self._map_or_none("test_groups"),
            self._map_or_none("test_times"),
            self._map_or_none("test_true_probabilities"),
        )

    def _map_or_none(self, name: str) -> Any:
        return self._map(name) if (self.folder / f"{name}.npy").is_file() else None

    def _map(self, name: str) -> Any:
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def write(folder: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> PreparedData:
    """Writes prepared data, whole or not at all."""
    with STUDY_DATA.writing(folder) as temporary:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        STUDY_DATA.seal(temporary, facts)
    return PreparedData(folder)
