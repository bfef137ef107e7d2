"""The Python block of the ONNX guide runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_onnx_example_runs(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    page = (ROOT / "docs" / "guides" / "onnx.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(done.stderr)
    assert (tmp_path / "model.onnx").is_file()
