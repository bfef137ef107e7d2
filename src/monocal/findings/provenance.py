"""What exactly was measured: fingerprints of model and data, and how to do it again."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.fingerprint import fingerprint
from monocal.core.version import __version__
from monocal.models.model import Model


@final
@dataclass(frozen=True)
class Provenance:
    """Facts for those who want to check.

    Attributes:
        facts: Pairs of name and value, in reading order.
        reproduce: The command or the lines of Python that make this report again.
        language: "shell" or "python".
        n_rows: Rows that were measured.
        table_name: What the rows are called; empty for a table in memory.
    """

    facts: tuple[tuple[str, str], ...]
    reproduce: str
    language: str
    n_rows: int
    table_name: str


def model_fingerprint(model: Model) -> str:
    """Changes whenever anything the model learned, or its vocabulary, changes; wherever the model is stored."""
    parts: list[object] = [model.vocabulary.fingerprint, model.scores_are, model.sampling_rate]
    for one in model.tasks:
        state = one.calibrator.state()
        parts += [one.name, one.score, one.calibrator.name, one.calibrator.get_params(deep=False), state.values]
        for name in sorted(state.arrays):
            parts += [name, np.asarray(state.arrays[name])]
    return fingerprint(*parts)


def provenance(
    model: Model,
    *,
    model_name: str,
    table_name: str,
    data_fingerprint: str,
    n_rows: int,
    seed: int,
    reproduce: str,
    language: str,
) -> Provenance:
    """Collects the facts."""
    info = model.info
    facts = [
        ("Model", model_name or "in memory"),
        ("Model fingerprint", model_fingerprint(model)),
        ("Data", table_name or "in memory"),
        ("Data fingerprint", data_fingerprint),
        ("Rows measured", f"{n_rows:,}"),
    ]
    if "n_rows" in info:
        facts.append(("Rows the model was fitted on", f"{int(info['n_rows']):,}"))
    if "log_fingerprint" in info:
        facts.append(("Fingerprint of those rows", str(info["log_fingerprint"])))
    if model.sampling_rate is not None:
        facts.append(("Sampling rate", f"{model.sampling_rate}"))
    for one in model.tasks:
        facts.append((f"Method for {one.name}", repr(one.calibrator)))
    facts += [
        ("Seed", str(seed)),
        ("Versions", f"monocal {__version__}, Python {platform.python_version()}, numpy {np.__version__}"),
    ]
    return Provenance(tuple(facts), reproduce, language, n_rows, table_name)
