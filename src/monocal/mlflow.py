"""Models in MLflow: logged as their own folder, loaded by name, scored as a `pyfunc`. Needs `monocal[mlflow]`.

MLflow keeps the artefact as it is (manifest, safetensors, Arrow) beside an `MLmodel` file that names this module as the
loader; nothing is pickled, and loading checks fingerprints and stored answers as `monocal.load` does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from monocal.core import __version__
from monocal.models.artefact import load_model as load_folder

if TYPE_CHECKING:
    import pandas as pd

    from monocal.models.model import Model

FLAVOUR = "monocal"
"""The name of the artefact's folder inside the MLflow model."""


def log_model(model: Model, name: str = "calibrator", **options: Any) -> Any:
    """Logs a fitted model into the current MLflow run and returns MLflow's `ModelInfo`.

    Its signature names the columns that a row must have and the probabilities that it returns. A categorical field may
    be text or a whole number, so its type is "any", and a value may be missing.

    Arguments:
        model: What `monocal.fit` or `monocal.load` returned.
        name: The name of the logged model.
        options: Passed on to `mlflow.pyfunc.log_model`, such as `registered_model_name` or `signature`.
    """
    mlflow = _mlflow()
    options.setdefault("pip_requirements", [f"monocal[mlflow]=={__version__}"])
    options.setdefault("signature", _signature(model))
    with tempfile.TemporaryDirectory() as place:
        folder = model.save(Path(place) / FLAVOUR)
        return mlflow.pyfunc.log_model(name=name, loader_module=__name__, data_path=str(folder), **options)


def _signature(model: Model) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType

    known = model.roles()
    columns: list[Any] = [ColSpec(DataType.double, name) for name in dict.fromkeys(known.scores.values())]
    any_kind: Any = AnyType
    columns += [ColSpec(any_kind(), name, required=False) for name in known.fields]
    columns += [ColSpec(DataType.double, name, required=False) for name in known.numeric]
    return ModelSignature(Schema(columns), Schema([ColSpec(DataType.double, name) for name in model.task_names]))


def load_model(uri: str) -> Model:
    """Returns the model behind an MLflow address (`models:/name/3`, `runs:/…`, a folder), checked as by `load`.

    Arguments:
        uri: Any address that MLflow can download from.
    """
    mlflow = _mlflow()
    return load_folder(Path(mlflow.artifacts.download_artifacts(artifact_uri=uri)) / "data" / FLAVOUR)


@final
class ScoredByMlflow:
    """What `mlflow.pyfunc.load_model` wraps: a data frame in, one column of probabilities per task out.

    Arguments:
        model: The model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, frame: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Calibrates the rows of a data frame; `params` is part of MLflow's protocol and not used."""
        import pandas as pd

        del params
        found = {task: self.model.predict(frame, task) for task in self.model.task_names}
        return pd.DataFrame(found, index=frame.index)


def _load_pyfunc(path: str) -> ScoredByMlflow:
    """Called by MLflow with the place of the artefact."""
    return ScoredByMlflow(load_folder(path))


def _mlflow() -> Any:
    try:
        import mlflow
        import mlflow.artifacts
        import mlflow.pyfunc
    except ImportError as error:
        missing = error.name or "mlflow"
        raise ImportError(
            f"models in MLflow need the package {missing}. Hint: pip install 'monocal[mlflow]'", name=missing
        ) from error
    return mlflow
