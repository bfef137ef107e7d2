"""A model as a folder, as bytes or at a URI: JSON, safetensors, Arrow vocabulary. Nothing in it is ever executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import CALIBRATORS, Calibrator, calibrator
from monocal.calibrators.contract import CalibratorState, with_prefix, without_prefix
from monocal.calibrators.registry import GROUP
from monocal.core import __version__
from monocal.core.dataset import Dataset
from monocal.core.errors import ArtefactError, InvalidInput, MonocalError
from monocal.core.fields import Ids
from monocal.core.files import is_uri, local_path, read_unchanged
from monocal.core.folder import LARGEST_MANIFEST_BYTES, FolderFormat, fingerprint_bytes
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.core.numbers import plain_values
from monocal.core.scores import Floats
from monocal.models.facts import Counts
from monocal.models.model import Fusion, Model, TaskModel
from monocal.tables.files import open_place
from monocal.tables.vocabulary_file import INDEXED_VALUES, read_vocabulary, vocabulary_bytes

SCHEMA_VERSION = 2
"""Raised whenever a folder could be misread by another version; folders of other schema versions are refused."""

_STATE, _VOCABULARY = "state.safetensors", "vocabulary.arrow"

MODEL_FOLDER = FolderFormat(
    "monocal model",
    SCHEMA_VERSION,
    "manifest.json",
    called="a saved model",
    remedy="save the model again, or take a copy of the folder",
    anew="fit the model again with this version",
    known=(_STATE, _VOCABULARY),
)
"""How a model lies on disk."""


def save_model(model: Model, folder: str | Path) -> Path:
    """Writes `manifest.json`, `state.safetensors` and `vocabulary.arrow`; the folder appears whole or not at all.

    Fields with many values bring their index along in the vocabulary, so that no process has to build its own. A folder
    that is there is replaced if it holds a model and nothing else; any other is refused and left alone.
    """
    folder = local_path(folder, "output folder")
    with MODEL_FOLDER.writing(folder) as temporary:
        for name, content in model_files(model).items():
            (temporary / name).write_bytes(content)
    return folder


def fingerprint_of(model: Model) -> str:
    """Returns the fingerprint that the model's folder has, or would have if it were saved now."""
    return str(_entries_and_contents(model)[0]["fingerprint"])


def model_files(model: Model) -> dict[str, bytes]:
    """Returns the files that `save_model` writes, by name: a model for anything that carries bytes.

    Example:
        >>> from monocal.models.fit import fit
        >>> model = fit({"pctr": [0.1, 0.3] * 50, "click": [0, 1] * 50}, method="platt", score="pctr", label="click")
        >>> load_model(model_files(model)).fingerprint == model.fingerprint
        True
    """
    entries, contents = _entries_and_contents(model)
    return {MODEL_FOLDER.manifest: MODEL_FOLDER.manifest_text(entries).encode(), **contents}


def _entries_and_contents(model: Model) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the manifest's entries, and the files beside it."""
    from safetensors.numpy import save

    vocabulary = vocabulary_bytes(model.vocabulary, least=INDEXED_VALUES)
    contents = {_STATE: save(_arrays(model)), _VOCABULARY: vocabulary}
    facts = {
        name: {"n_bytes": len(content), "fingerprint": fingerprint_bytes(content)} for name, content in contents.items()
    }
    return MODEL_FOLDER.entries(_entries(model), dict(sorted(facts.items()))), contents


def load_model(folder: str | Path | ModelFiles, *, verify: bool = True) -> Model:
    """Reads a model after checking it; anything damaged, altered or newer is refused and nothing is loaded.

    If another process replaces the folder meanwhile, the new model is read.

    Arguments:
        folder: What `Model.save` or `monocal fit` wrote: a folder, the URI of one at any place that `pyarrow.fs` opens
            (`s3://`, `gs://`, `hdfs://`, `file://`), or the files as `model_files` returned them.
        verify: Whether the model has to prove itself in milliseconds: its stored rows get the answers of the fit, and
            over a sweep of scores every answer is a probability and none falls (unless the method promises no order).
    """
    if isinstance(folder, Mapping) or is_uri(folder):
        with local_copy(folder, MODEL_FOLDER) as copy:
            return load_model(copy, verify=verify)
    folder = Path(folder)
    model = read_unchanged(folder, lambda: _read_model(folder))
    if verify:
        try:
            verify_model(model, quickly=True)
        except (MonocalError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise ArtefactError(f"{folder}: {error}; nothing was loaded") from error
    return model


def _read_model(folder: Path) -> Model:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    manifest = read_manifest(folder)
    state = MODEL_FOLDER.read_file(folder, manifest, _STATE)
    values = MODEL_FOLDER.view_file(folder, manifest, _VOCABULARY)
    try:
        arrays = load(state)
    except SafetensorError as error:
        raise ArtefactError(f"{folder / _STATE}: not a whole safetensors file ({error}); nothing was loaded") from error
    vocabulary = read_vocabulary(values, str(folder / _VOCABULARY))
    try:
        if list(vocabulary.names) != manifest["fields"]:
            raise ArtefactError(
                f"{folder}: the manifest names the fields {manifest['fields']}, the vocabulary "
                f"{list(vocabulary.names)}; nothing was loaded"
            )
        fusion = manifest["fusion"]
        model = Model(
            tasks=tuple(_load_task(folder, index, facts, arrays) for index, facts in enumerate(manifest["tasks"])),
            vocabulary=vocabulary,
            scores_are=manifest["scores_are"],
            sampling_rate=manifest["sampling_rate"],
            fusion=None if fusion is None else Fusion(**fusion),
            info=manifest["info"],
            canary=without_prefix("canary", arrays),
            value_counts=_counts(without_prefix("counts", arrays), vocabulary.sizes),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise MODEL_FOLDER.damaged(folder, error) from error
    object.__setattr__(model, "_fingerprint", manifest["fingerprint"])
    return model


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Reads and checks a model's manifest alone: format, version, and its own fingerprint."""
    return MODEL_FOLDER.read(folder)


def _load_task(folder: Path, index: int, facts: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> TaskModel:
    if facts["method"] not in CALIBRATORS:
        raise ArtefactError(
            f"{folder}: task {facts['name']!r} uses the method {facts['method']!r}, which neither monocal "
            f"{__version__} nor another installed distribution has (entry points {GROUP!r}); nothing was loaded. "
            "Hint: install the distribution that the method is from"
        )
    fitted = calibrator(facts["method"], **facts["parameters"])
    fitted.restore(CalibratorState(without_prefix(f"task{index}", arrays), dict(facts["values"])))
    return TaskModel(facts["name"], facts["score"], facts["label"], fitted)


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    arrays = with_prefix("canary", dict(model.canary))
    arrays |= with_prefix("counts", {str(place): counts for place, counts in enumerate(model.value_counts)})
    for index, task in enumerate(model.tasks):
        arrays |= with_prefix(f"task{index}", task.calibrator.state().arrays)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _counts(arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Counts:
    if arrays and [arrays[str(place)].shape for place in range(len(sizes))] != [(size,) for size in sizes]:
        raise ValueError("counts of values that the vocabulary does not have")
    return tuple(arrays[str(place)] for place in range(len(sizes))) if arrays else ()


def _entries(model: Model) -> dict[str, Any]:
    return {
        "tasks": [
            {
                "name": task.name,
                "score": task.score,
                "label": task.label,
                "method": task.calibrator.name,
                "parameters": task.calibrator.get_params(deep=False),
                "values": task.calibrator.state().values,
            }
            for task in model.tasks
        ],
        "fields": list(model.field_names),
        "scores_are": model.scores_are,
        "sampling_rate": model.sampling_rate,
        "fusion": None if model.fusion is None else model.fusion.as_dict(),
        "info": plain_values(model.info),
    }


ModelFiles = Mapping[str, bytes]
"""File name to contents, as `monocal.models.artefact.model_files` returns them."""

_BLOCK = 1 << 22


@contextmanager
def local_copy(place: str | ModelFiles, form: FolderFormat) -> Iterator[Path]:
    """Yields a temporary folder with the files of a model; errors raised inside name the place, not the folder.

    Nothing is checked but sizes: whoever reads the folder does the rest.

    Arguments:
        place: A URI, or the files themselves.
        form: The kind of folder.
    """
    with TemporaryDirectory(prefix="monocal-") as name:
        folder = Path(name)
        shown = place if isinstance(place, str) else "the given files"
        try:
            if isinstance(place, str):
                fetch_folder(place, folder, form)
            else:
                _write(place, folder, form)
            yield folder
        except ArtefactError as error:
            raise ArtefactError(str(error).replace(name, shown)) from error


def fetch_folder(uri: str, target: Path, form: FolderFormat) -> None:
    """Copies the manifest at a URI and the files it names into an empty folder, not a byte more than it states."""
    system, path = open_place(uri, "model")
    root = path.rstrip("/")
    _fetch(system, f"{root}/{form.manifest}", target / form.manifest, LARGEST_MANIFEST_BYTES)
    for name, facts in form.read(target)["files"].items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        _fetch(system, f"{root}/{name}", target / name, facts["n_bytes"])


def _fetch(system: Any, path: str, target: Path, n_bytes: int) -> None:
    left = n_bytes + 1  # of a file that is longer than stated one byte more, so that a reader notices
    try:
        with system.open_input_stream(path) as read, target.open("wb") as write:
            while left and (block := read.read(min(left, _BLOCK))):
                write.write(block)
                left -= len(block)
    except OSError as error:
        raise ArtefactError(f"{path}: cannot be read ({error}); nothing was loaded") from error


def _write(files: ModelFiles, folder: Path, form: FolderFormat) -> None:
    for name, contents in files.items():
        if Path(name).name != name:
            raise InvalidInput.of("model", f"a file {name!r}", "plain file names", "pass what model_files returned")
        (folder / name).write_bytes(contents)
    if form.manifest not in files:
        raise InvalidInput.of(
            "model",
            f"the files {', '.join(files) or 'none'}",
            f"{form.manifest} among them",
            "pass what model_files returned",
        )


CANARY_TOLERANCE = 1e-6
"""How far the stored answers may be from today's: another machine's logarithms differ in the last digits."""

_PROBES = probe_logits(n_points=321, n_chains=12, chain_length=8)
_FEW_PROBES = probe_logits(n_points=33, n_chains=2, chain_length=4)


def check_canary(model: Model, tolerance: float) -> float:
    """Scores the canary rows again and compares with the answers stored at fit time."""
    if not model.canary:
        return 0.0
    scores = {task.name: model.canary[f"score{index}"] for index, task in enumerate(model.tasks)}
    rates = model.canary.get("sampling_rate", model.sampling_rate)
    answers = model.predict_ids(model.canary["ids"], scores, rates)
    # numpy's maximum keeps a NaN of any task; python's would drop it behind a number
    worst = float(
        np.max([np.abs(answers[task.name] - model.canary[f"answer{i}"]).max() for i, task in enumerate(model.tasks)])
    )
    if not worst <= tolerance:
        raise ArtefactError(
            f"the stored canary rows differ by {worst:.2e} from their answers at fit time (allowed {tolerance:.0e})"
        )
    return worst


def verify_model(model: Model, *, quickly: bool = False) -> None:
    """Refuses a model that does not give the answers of its fit, or gives a higher score a lower probability.

    The stored canary rows are scored again. Then, for the features of every canary row and for a row of unseen
    values, the score sweeps the logit axis: answers must be probabilities and must never fall, unless the method
    says that it is not monotone. A method of several maps, such as one per segment, is swept map by map. Learned
    numbers must keep a promise of order in every segment and every stored curve.

    Arguments:
        model: The model.
        quickly: Sweeps a tenth of the scores, which every load can afford; else those of a service, by its own path.

    Example:
        >>> from dataclasses import replace
        >>> from monocal.models.fit import fit
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> model = fit(log, method="platt", score="pctr", label="click")
        >>> verify_model(model)
        >>> model.tasks[0].calibrator.slope_ = -1.0
        >>> verify_model(replace(model, canary={}), quickly=True)
        Traceback (most recent call last):
        ...
        monocal.core.errors.ArtefactError: task 'click': the prediction falls ...
    """
    model.verify_canary(CANARY_TOLERANCE)
    rows = _rows(model)
    for task in model.tasks:
        for part in _parts(task.calibrator):
            predict = partial(_predict, part) if quickly else part.row_scorer()
            _sweep(task.name, part, rows if part is task.calibrator else rows[:1], predict, quickly=quickly)
        broken = task.calibrator.broken_promise()
        if broken is not None:
            raise ArtefactError(f"task {task.name!r}: {broken}, though {task.calibrator.name} is monotone")


def _predict(calibrator: Calibrator, logits: Floats, ids: Ids) -> Floats:
    return calibrator.predict_data(Dataset(logits, ids=ids if ids.shape[1] else None))


def _parts(calibrator: Calibrator) -> Iterator[Calibrator]:
    """Yields a calibrator and those that it learned to hand rows to."""
    yield calibrator
    for learned in vars(calibrator).values():
        for part in learned if isinstance(learned, list) else [learned]:
            if isinstance(part, Calibrator):
                yield from _parts(part)


def _rows(model: Model) -> Ids:
    rows = np.zeros((1, len(model.field_names)), dtype=np.int32)
    if "ids" in model.canary:
        rows = np.unique(np.concatenate([rows, model.canary["ids"]]), axis=0)
    return rows


def _sweep(
    task: str, calibrator: Calibrator, rows: Ids, predict: Callable[[Floats, Ids], Floats], *, quickly: bool
) -> None:
    """Predicts all rows at all scores in one call, and looks at the curves one by one."""
    probes = _FEW_PROBES if quickly else _PROBES
    answers = predict(np.tile(probes, len(rows)), np.repeat(rows, probes.size, axis=0))
    if not (np.isfinite(answers).all() and answers.min() >= 0.0 and answers.max() <= 1.0):
        raise ArtefactError(f"task {task!r}: some answers are not probabilities")
    if calibrator.tags.monotone == "none":
        return
    curves = iter(answers.reshape(len(rows), probes.size))
    try:
        assert_monotone(lambda _logits, _ids: next(curves), rows, logits=probes)
    except NotMonotone as error:
        raise ArtefactError(f"task {task!r}: {error}, though {calibrator.name} is monotone") from error
