"""Models as ONNX graphs, checked against `predict` on every export."""

from monocal.models.onnx.export import ExportResult, export_onnx

__all__ = ["ExportResult", "export_onnx"]
