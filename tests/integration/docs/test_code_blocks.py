"""Every page of the documentation runs as it stands: its Python in one namespace, its shell lines between."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
TESTED_ELSEWHERE = {
    "cli.md": "examples of every verb, on files that are not there; each verb has tests of its own",
    "guides/onnx.md": "test_onnx_page.py",
    "guides/clusters.md": "tests/cluster/test_guide.py",
    "guides/runbook.md": "tests/unit/serving/test_alerts.py",
}
PAGES = sorted(
    str(page.relative_to(DOCS))
    for page in DOCS.rglob("*.md")
    if str(page.relative_to(DOCS)) not in TESTED_ELSEWHERE
    and re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
)

PRELUDES = {
    "guides/deployment.md": 'import warnings\nwarnings.simplefilter("ignore")  # MLflow\'s own',
    "serving.md": """
import monocal
monocal.fit(
    monocal.simulate_log(2_000).table(), method="wide_logistic", score="pctr", label="click",
    fields=["site_id", "ad_id", "country", "device"],
).save("model")
""",
}

DRIVER = r"""
import os, pathlib, re, subprocess, sys
page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
names = {"__name__": "__main__"}
exec(sys.argv[2], names)
blocks = list(re.finditer(r"^```(python|sh)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL))
for block in blocks:
    line = page[: block.start(2)].count("\n")
    if block[1] == "python":
        exec(compile("\n" * line + block[2], sys.argv[1], "exec"), names)
        continue
    if "monocal serve" in block[2]:
        continue  # it would never end; the service has tests of its own
    shell = 'monocal() { "$PYTHON" -m monocal "$@"; }\n' + block[2]
    subprocess.run(["bash", "-eu", "-c", shell], check=True, env=os.environ | {"PYTHON": sys.executable})
"""


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs(page, tmp_path):
    environment = os.environ | {
        "PYTHONPATH": str(DOCS.parent / "src"),
        "PYTHONWARNINGS": "error",
        "MPLBACKEND": "agg",
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(DOCS / page), PRELUDES.get(page, "")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.fail(done.stderr)


def test_every_guide_has_something_to_run():
    guides = {f"guides/{page.name}" for page in (DOCS / "guides").glob("*.md")}
    assert guides
    assert guides <= {*PAGES, *TESTED_ELSEWHERE}
