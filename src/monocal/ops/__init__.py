"""One set of operations, so that every map is written once: numpy predicts, torch trains, ONNX is exported."""
