"""What a practitioner would use instead, each behind the same arguments; a missing package becomes a skip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from monocal.core.scores import Floats, sigmoid
from monocal.lab.studies.study_data import CalibrationRows, TestRows

HOLDOUT_SHARE = 0.2


def lightgbm_answers(rows: CalibrationRows, test: TestRows, arguments: Mapping[str, Any], seed: int) -> Floats:
    """Boosts trees on field ids (as categories) and the logit, from `init_score` = logit.

    The newest fifth of the calibration rows chooses the number of trees, which are then boosted on all rows.
    """
    import lightgbm

    options = {
        "objective": "binary",
        "learning_rate": 0.05,
        "num_leaves": 31,
        "min_data_in_leaf": 200,
        "cat_smooth": 10.0,
        "num_threads": 1,
        "verbosity": -1,
        "seed": seed,
        **arguments,
    }
    n_rounds = options.pop("n_rounds", 500)
    columns = np.column_stack([rows.features, rows.logits])
    n_fields = rows.features.shape[1]
    cut = int(len(columns) * (1.0 - HOLDOUT_SHARE))
    parts = [
        lightgbm.Dataset(
            columns[part],
            label=rows.labels[part],
            init_score=rows.logits[part],
            categorical_feature=list(range(n_fields)),
            params={"verbosity": -1, "max_bin": 255},
            free_raw_data=False,
        )
        for part in (slice(0, cut), slice(cut, None), slice(None))
    ]
    watched = lightgbm.train(
        options,
        parts[0],
        num_boost_round=n_rounds,
        valid_sets=[parts[1]],
        callbacks=[lightgbm.early_stopping(20, verbose=False)],
    )
    model = lightgbm.train(options, parts[2], num_boost_round=max(watched.best_iteration, 1))
    raw = model.predict(np.column_stack([test.features, test.logits]), raw_score=True)
    return sigmoid(np.asarray(raw) + test.logits)


_ROWS_AT_ONCE = 1 << 18
"""A frame of text columns takes some hundred bytes for every value."""


def mcgrad_answers(rows: CalibrationRows, test: TestRows, arguments: Mapping[str, Any], seed: int) -> Floats:
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


PEERS = {"lightgbm": lightgbm_answers, "mcgrad": mcgrad_answers}
