"""The README's Python blocks run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_readme_examples_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks, "the README has no Python example"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        pytest.fail(done.stderr)
    assert (tmp_path / "model" / "manifest.json").is_file()


def test_readme_opens_with_the_two_commands():
    opening = (ROOT / "README.md").read_text(encoding="utf-8")[:400]
    assert "make run" in opening
    assert "make test" in opening
