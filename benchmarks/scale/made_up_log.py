"""A made-up log of any length, written block by block: what is in memory at once does not grow with the rows.

The folder is as `monocal lab prepare` writes it, so `monocal fit` takes it, too.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.splits import split_by_share
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

VALUES = 20_000
BLOCK = 1_000_000


def make(folder: Path, n_rows: int, n_fields: int) -> None:
    """Writes ids, scores, labels and times; the first field shifts the logit, the others are noise."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as scratch:
        files = _written(Path(scratch), n_rows, n_fields)
        texts = pa.array([str(number) for number in range(VALUES)])
        fields = [f"f{number}" for number in range(n_fields)]
        EncodedLog(
            features=files["ids"],
            labels={"y": files["labels"]},
            vocabulary=Vocabulary(tuple(FieldVocabulary(name, texts) for name in fields)),
            roles=Roles(score="p", label="y", fields=fields, time="t"),
            fingerprint="made up",
            times=files["times"],
            scores={"y": files["scores"]},
            parts=split_by_share(n_rows),
        ).save(folder)


def _written(folder: Path, n_rows: int, n_fields: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = {
        "ids": ((n_rows, n_fields), np.int32),
        "scores": ((n_rows,), np.float64),
        "labels": ((n_rows,), np.int8),
        "times": ((n_rows,), np.int64),
    }
    files = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, shape)
        for name, (shape, kind) in kinds.items()
    }
    effects = 0.3 * rng.normal(size=(n_fields, VALUES))
    for start in range(0, n_rows, BLOCK):
        at = slice(start, min(start + BLOCK, n_rows))
        ids = (VALUES * rng.random((at.stop - start, n_fields), dtype=np.float32) ** 2).astype(np.int32)
        logits = rng.normal(-3.0, 1.0, at.stop - start)
        truth = 1.3 * logits + effects[0, ids[:, 0]]
        files["ids"][at] = ids + 1
        files["scores"][at] = 1.0 / (1.0 + np.exp(-logits))
        files["labels"][at] = rng.random(at.stop - start) < 1.0 / (1.0 + np.exp(-truth))
        files["times"][at] = np.arange(at.start, at.stop)
        for file in files.values():
            file.flush()
    return files
