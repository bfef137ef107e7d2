"""MCGrad through its public interface, with its defaults unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from monocal.core.spaces import Floats, sigmoid
from monocal.lab.studies.study_data import CalibrationRows, TestRows

_ROWS_AT_ONCE = 1 << 18
"""A frame of text columns takes some hundred bytes for every value."""


def fit_and_predict(rows: CalibrationRows, test: TestRows, arguments: Mapping[str, Any], seed: int) -> Floats:
    """Fits `mcgrad.methods.MCGrad` on a data frame of scores, labels and categorical fields."""
    import pandas
    from mcgrad.methods import MCGrad

    names = [f"field{k}" for k in range(rows.features.shape[1])]

    def frame(logits: Floats, features: Any) -> Any:
        columns = {name: features[:, k].astype(str) for k, name in enumerate(names)}
        return pandas.DataFrame({**columns, "score": sigmoid(logits)})

    fitted = frame(rows.logits, np.asarray(rows.features))
    fitted["label"] = np.asarray(rows.labels)
    options = {"lightgbm_params": {"num_threads": 1}, "random_state": seed, **arguments}
    model = MCGrad(**options)
    model.fit(fitted, "score", "label", categorical_feature_column_names=names)
    parts = [slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(test.logits), _ROWS_AT_ONCE)]
    answers = [
        model.predict(
            frame(test.logits[part], np.asarray(test.features[part])), "score", categorical_feature_column_names=names
        )
        for part in parts
    ]
    return np.concatenate(answers).astype(np.float64)
