"""Models on tables with raw values: fitting, the artefact folder, fusion."""

from monocal.models.artefact import load_model, read_manifest, save_model
from monocal.models.fitting import encode_table, fit
from monocal.models.fusion import Fusion
from monocal.models.model import Model, TaskModel

__all__ = ["Fusion", "Model", "TaskModel", "encode_table", "fit", "load_model", "read_manifest", "save_model"]
