"""The guide "On a cluster", executed."""

import re
from pathlib import Path

import pytest

import monocal

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "clusters.md"


def test_the_guide_runs(spark, folder, rows, tmp_path, monkeypatch):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "log").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    # Spark's working directory is that of the session's start
    named = re.sub(r'"(log|model|scored)"', lambda found: repr(str(tmp_path / found[1])), block)
    names = {"spark": spark}
    exec(compile(named, str(PAGE), "exec"), names)
    assert (tmp_path / "scored" / "_SUCCESS").exists()
    assert monocal.load(tmp_path / "model").predict(rows).mean() == pytest.approx(rows["click"].to_numpy().mean())
    assert names["found"].tasks["click"]["after"].value("pcoc") == pytest.approx(1.0)
