"""Bars on standard error."""

import sys
from types import SimpleNamespace

import pytest

from monocal.core import process
from monocal.core.process import progress


def test_a_silent_bar_accepts_everything(capsys):
    with progress("counting", 3) as bar:
        bar.advance(3)
        bar.note("done")
    assert capsys.readouterr() == ("", "")


def test_bars_nest_and_end(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    for _ in range(2):
        with progress("outer", 2, unit="steps", show=True) as outer:
            with progress("inner", None, show=True) as inner:
                inner.advance(5)
                inner.note("half way")
            outer.advance(2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "outer" in shown.err
    assert "100%" in shown.err


def test_an_error_inside_ends_the_display(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(KeyError), progress("outer", 2, show=True), progress("inner", 2, show=True):
        raise KeyError("x")
    capsys.readouterr()
    with progress("next", 1, show=True) as bar:
        bar.advance(1)
    shown = capsys.readouterr().err
    assert "next" in shown
    assert "outer" not in shown


@pytest.mark.parametrize("shell", ["ZMQInteractiveShell", "TerminalInteractiveShell"])
def test_a_bar_is_shown_in_a_notebook_that_can_draw_one(monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=type(shell, (), {})))
    for installed in (True, False):
        monkeypatch.setattr(process, "find_spec", lambda name, found=installed: found or None)
        assert process._is_watched() == (shell == "ZMQInteractiveShell" and installed)
