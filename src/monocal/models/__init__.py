"""Models on tables with raw values: the model, its folder, fitting, applying, refreshing, exporting."""

from monocal.models.artefact import load_model, read_manifest, save_model
from monocal.models.model import Fusion, Model, TaskModel

__all__ = ["Fusion", "Model", "TaskModel", "load_model", "read_manifest", "save_model"]
