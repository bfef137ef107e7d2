"""What travels between the driver and the Python workers: models as bytes, places of rows, results, refusals."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.core.files import is_uri
from monocal.models.artefact import MODEL_FOLDER, ModelFiles, fetch_folder, load_model, model_files
from monocal.models.model import Model
from monocal.tables.columns import RawRows, with_places
from monocal.tables.source import collect

LARGEST_SHIPPED_BYTES = 64 << 20
"""A larger model is not carried by every task: the workers read it from a place that all of them see."""

_loaded: dict[str, Model] = {}


@final
@dataclass(frozen=True)
class Shipped:
    """What travels instead of a model.

    Attributes:
        fingerprint: By which a worker recognises a model that it has already.
        files: The model's files; None if they are too large to travel.
        place: Where the workers find them then: a URI, or a folder on a file system that they share.
    """

    fingerprint: str
    files: ModelFiles | None
    place: str = ""


def ship(model: Model | str | Path) -> tuple[Model, Shipped]:
    """Returns the loaded model and what travels in its stead.

    Arguments:
        model: A model, the folder of one, or its URI.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    files = model_files(loaded)
    size = sum(len(contents) for contents in files.values())
    if size <= LARGEST_SHIPPED_BYTES:
        return loaded, Shipped(loaded.fingerprint, files)
    if isinstance(model, Model):
        raise InvalidInput.of(
            "model",
            f"a model of {size >> 20} MiB",
            f"at most {LARGEST_SHIPPED_BYTES >> 20} MiB, or a place that all workers can read",
            "save it to a shared place and pass the URI",
        )
    return loaded, Shipped(loaded.fingerprint, None, str(model))


def receive(shipped: Shipped) -> Model:
    """Returns the model in a worker; a worker that serves several tasks loads it once."""
    if shipped.fingerprint not in _loaded:
        keep_compiled_loops()
        _loaded.clear()
        _loaded[shipped.fingerprint] = _load(shipped)
    return _loaded[shipped.fingerprint]


def _load(shipped: Shipped) -> Model:
    if shipped.files is not None:
        return load_model(shipped.files)
    if not is_uri(shipped.place):
        return load_model(shipped.place)
    # one copy for all workers of a host, which map its large files
    folder = _private_folder("models") / shipped.fingerprint
    if not MODEL_FOLDER.is_at(folder):
        with MODEL_FOLDER.writing(folder) as temporary:
            fetch_folder(shipped.place, temporary, MODEL_FOLDER)
    return load_model(folder)


def keep_compiled_loops() -> None:
    """Gives compiled loops a place where the installation is read-only: compiling takes 15 to 25 seconds a process.

    For workers, before their first loop is defined: numba asks for the place when it is imported.
    """
    if "NUMBA_CACHE_DIR" not in os.environ and not os.access(Path(__file__).parents[1], os.W_OK):
        os.environ["NUMBA_CACHE_DIR"] = str(_private_folder("loops"))


def _private_folder(name: str) -> Path:
    """Returns a folder of this user alone: what lies there is trusted."""
    folder = Path(tempfile.gettempdir()) / f"monocal-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        folder = Path(tempfile.mkdtemp(prefix="monocal-"))
    (folder / name).mkdir(mode=0o700, exist_ok=True)
    return folder / name


def placed(batches: Iterator[Any]) -> Iterator[RawRows]:
    """Says where in its partition each batch begins."""
    from pyspark import TaskContext

    context = TaskContext.get()
    name = "the partition" if context is None else f"partition {context.partitionId()}"
    yield from with_places(batches, name)


def collected(df: Any) -> pa.Table:
    """Brings a small Spark table to the driver."""
    with refusals_of_workers():
        return df.toArrow() if hasattr(df, "toArrow") else collect(df)


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
