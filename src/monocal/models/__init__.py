"""Models on tables with raw values: fitting, the artefact folder, fusion."""

from monocal.models.artefact import load_model, read_manifest, save_model
from monocal.models.fitting import fit
from monocal.models.fusion import Fusion
from monocal.models.model import Model, TaskModel

__all__ = ["Fusion", "Model", "TaskModel", "fit", "load_model", "read_manifest", "save_model"]
