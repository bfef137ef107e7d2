"""What fitted calibrators are written with when they become ONNX graphs."""
