"""Import paths that version 0.1.0 documented, and exports of packages that moved, still work and say where to."""

import importlib
import re
import warnings
from pathlib import Path

import pytest

import monocal
from monocal.moved_imports import MOVED

STATEMENTS = (Path(__file__).parent / "v0_1" / "imports.txt").read_text(encoding="utf-8").splitlines()
PAIRS = sorted(
    {
        (module, name.strip())
        for module, names in (re.fullmatch(r"from (\S+) import (.+)", line).groups() for line in STATEMENTS)
        for name in names.split(",")
    }
)
GONE = {
    ("monocal.data", "split_by_time"): "nobody used it; `split_by_share` cuts by time",
    ("monocal.data", "split_by_group"): "nobody used it",
    ("monocal.nn", "fold_umc"): "the compiled predictor folds by itself",
}
"""Names that version 0.2 removed, with the reason."""


KEPT = [pair for pair in PAIRS if pair not in GONE]


@pytest.mark.parametrize(("module", "name"), sorted(GONE), ids=[f"{module}.{name}" for module, name in sorted(GONE)])
def test_removed_name_is_refused_with_the_new_homes(module, name):
    assert (module, name) in PAIRS
    with pytest.raises(AttributeError, match=f"'{module}' moved to .*, without '{name}'"):
        getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("module", "name"), KEPT, ids=[f"{module}.{name}" for module, name in KEPT])
def test_path_still_works(module, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = getattr(importlib.import_module(module), name)
    told = [
        str(warning.message)
        for warning in caught
        if warning.category is DeprecationWarning and "is now" in str(warning.message)
    ]
    if module not in MOVED:
        assert not told
        return
    home, new = re.fullmatch(rf"{module}\.{name} is now (\S+)\.(\w+); the old path goes in 1.0", told[-1]).groups()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(importlib.import_module(home), new) is found


def test_a_table_is_encoded_by_the_old_path():
    with pytest.deprecated_call(match="now monocal.logs.row_log.encode_table"):
        from monocal.models import encode_table
    with pytest.deprecated_call(match="now monocal.core.roles.Roles"):
        from monocal.data import LogSchema
    schema = LogSchema("click", ["site"], time="hour")
    log = encode_table({"click": [0, 1, 0], "site": ["a", "b", "a"], "hour": [2, 3, 1]}, schema)
    assert log.labels["click"].tolist() == [0, 0, 1]
    assert log.features[:, 0].tolist() == [1, 1, 2]


def test_no_old_path_hides_a_module_that_exists():
    source = Path(monocal.__file__).parent.parent
    for old in MOVED:
        place = source / Path(*old.split("."))
        assert not place.exists(), old
        assert not place.with_suffix(".py").exists(), old


def test_a_name_that_never_was_is_refused_with_the_new_homes():
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from monocal.evaluation import nothing  # noqa: F401
    with pytest.raises(AttributeError, match="'monocal.evaluation' moved to monocal.judging, .*, without 'nothing'"):
        importlib.import_module("monocal.evaluation").nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match="monocal.evaluation.nothing"):
        importlib.import_module("monocal.evaluation.nothing")
