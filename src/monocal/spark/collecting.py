"""Results of Spark at the driver, and what a worker refused, in one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.tables.cluster_table import brought


def collected(df: Any) -> pa.Table:
    """Brings a small Spark table to the driver."""
    with refusals_of_workers():
        return df.toArrow() if hasattr(df, "toArrow") else brought(df)


@contextmanager
def refusals_of_workers() -> Iterator[None]:
    """Raises what a worker refused as that error, instead of the traces of the failed job.

    Example:
        >>> with refusals_of_workers():
        ...     raise RuntimeError("Job aborted:\\nmonocal.core.errors.InvalidInput: weights: got -1.0.\\n  at …")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: weights: got -1.0.
        >>> with refusals_of_workers():
        ...     raise RuntimeError("Job aborted:\\nModuleNotFoundError: No module named 'monocal'\\n  at …")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: Python of the workers: got one without monocal; expected monocal, with ...
    """
    try:
        yield
    except Exception as error:
        said = re.search(r"monocal\.core\.errors\.(?:InvalidInput|UnknownName): (.+)", str(error))
        if said is not None:
            raise InvalidInput(said[1]) from error
        missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(error))
        if missing is None:
            raise
        raise InvalidInput.of(
            "Python of the workers",
            f"one without {missing[1]}",
            "monocal, with the extras of the method, where the workers run",
            "install it there, or name a Python that has it in PYSPARK_PYTHON",
        ) from error
