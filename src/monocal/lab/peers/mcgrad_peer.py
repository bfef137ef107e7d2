"""MCGrad through its public interface, with its defaults unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from monocal.core.spaces import Floats, sigmoid
from monocal.lab.studies.study_data import CalibrationRows, TestRows


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
    answers = model.predict(
        frame(test.logits, np.asarray(test.features)), "score", categorical_feature_column_names=names
    )
    return np.asarray(answers, dtype=np.float64)
