"""The README and every page of the documentation run as they stand: Python in one namespace, shell lines between."""

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import monocal
from monocal.cli.main import main

DOCS = Path(__file__).parents[3] / "docs"
TESTED_ELSEWHERE = {
    "cli.md": "examples of every verb, on files that are not there; each verb has tests of its own",
    "guides/clusters.md": "tests/cluster/test_guide.py",
    "guides/runbook.md": "tests/unit/serving/test_alerts.py",
}
PAGES = sorted(
    str(page.relative_to(DOCS))
    for page in DOCS.rglob("*.md")
    if str(page.relative_to(DOCS)) not in TESTED_ELSEWHERE
    and re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
)
SHELL = 'monocal() { "$PYTHON" -m monocal "$@"; }\n'


def fit_the_model_of_the_page():
    table = monocal.simulate_log(2_000).table()
    fields = ["site_id", "ad_id", "country", "device"]
    monocal.fit(table, method="wide_logistic", score="pctr", label="click", fields=fields).save("model")


def run_shell(block):
    """Runs verbs in this process and everything else in a shell."""
    lines = [line for line in block.replace("\\\n", " ").splitlines() if line.strip() and line[0] != "#"]
    if all(re.fullmatch(r"monocal [^|&;<>$`*]*", line) for line in lines):
        for line in lines:
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
    else:
        environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(DOCS.parent / "src")}
        subprocess.run(["bash", "-eu", "-c", SHELL + block], check=True, env=environment)


@pytest.mark.parametrize("page", ["../README.md", *PAGES])
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    if page == "serving.md":
        fit_the_model_of_the_page()
    text, names = (DOCS / page).read_text(encoding="utf-8"), {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if page == "guides/deployment.md" else "error")  # the former's are MLflow's own
        for block in re.finditer(r"^```(python|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
            if block[1] == "python":
                above = "\n" * text[: block.start(2)].count("\n")  # so that errors name the line of the page
                exec(compile(above + block[2], str(DOCS / page), "exec"), names)
            elif not re.search("monocal serve|pip install", block[2]):  # no end, and no network
                run_shell(block[2])


def test_every_guide_has_something_to_run():
    guides = {f"guides/{page.name}" for page in (DOCS / "guides").glob("*.md")}
    assert guides
    assert guides <= {*PAGES, *TESTED_ELSEWHERE}


def test_the_readme_shows_the_two_commands():
    shown = (DOCS.parent / "README.md").read_text(encoding="utf-8").partition("## Development")[2]
    assert "make run" in shown
    assert "make test" in shown
