"""Which tests reach which line: a run of a test file with a coverage context per test and per shared fixture.

A line that runs while a module's or session's fixture is built counts for every test that uses the fixture. The price
of a test is CPU seconds, its child processes included, so that it does not depend on what else the machine does.
"""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import coverage
import pytest

QUIET = ["-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "-o", "timeout=0"]
"""Other plugins are not loaded, and no clock on the wall ends a test: processes share the machine."""


class Recorder:
    """A pytest plugin: names the coverage context after the test or the fixture and keeps each test's price."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}
        self.users: dict[str, list[str]] = collections.defaultdict(list)
        self.failed: set[str] = set()
        self._test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._test = item.nodeid
        self.measured.switch_context(item.nodeid)
        info = getattr(item, "_fixtureinfo", None)
        for definitions in info.name2fixturedefs.values() if info else ():
            for fixture in definitions:
                if fixture.scope != "function":
                    self.users[_name(fixture)].append(item.nodeid)
        began = sum(os.times()[:4])
        result = yield
        self.seconds[item.nodeid] = sum(os.times()[:4]) - began
        self.measured.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope != "function":
            self.measured.switch_context(_name(fixturedef))
        try:
            return (yield)
        finally:
            self.measured.switch_context(self._test)

    def pytest_runtest_logreport(self, report):
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)


def _name(fixturedef) -> str:
    return f"fixture {fixturedef.baseid}::{fixturedef.argname}"


def record(path: str, left_out: str, out: Path) -> None:
    """Runs one test file and writes `{"seconds": {test: s}, "lines": {file: {line: [tests]}}, "failed": [tests]}`."""
    measured = coverage.Coverage(data_file=None, source=["src/monocal"], config_file=False, messages=False)
    measured.start()
    recorder = Recorder(measured)
    pytest.main([*QUIET, "-k", f"not ({left_out})", path], plugins=[recorder])
    measured.stop()
    data = measured.get_data()
    sound = set(recorder.seconds) - recorder.failed
    lines: dict[str, dict[str, list[str]]] = {}
    for file in data.measured_files():
        by_line = {
            str(line): sorted({test for context in contexts for test in recorder.users.get(context, [context])} & sound)
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        lines[str(Path(file).relative_to(Path("src/monocal").resolve()))] = {k: v for k, v in by_line.items() if v}
    found = {
        "seconds": {test: recorder.seconds[test] for test in sorted(sound)},
        "lines": lines,
        "failed": sorted(recorder.failed),
    }
    out.write_text(json.dumps(found), encoding="utf-8")


class Reach:
    """The maps of all test files together."""

    def __init__(self, files: list[Path]) -> None:
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[int, set[str]]] = collections.defaultdict(lambda: collections.defaultdict(set))
        for file in files:
            found = json.loads(file.read_text(encoding="utf-8"))
            self.seconds.update(found["seconds"])
            for source, by_line in found["lines"].items():
                for line, tests in by_line.items():
                    self.lines[source][int(line)].update(tests)

    def tests_of(self, source: str, line: int, budget_seconds: float) -> tuple[list[str], int]:
        """Returns the tests to run, grouped by file with the cheapest file first, and how many of them reach the line.

        Those that reach the statement come first, cheapest first, then their relatives: tests of the same file for the
        same parameter, which may use something an earlier test has fitted and kept. A line that runs at import counts
        as reached by all tests that reach the file. Both stop where the budget ends.
        """
        by_line = self.lines[source]
        # a statement over several lines is counted where it begins
        hits = next((by_line[k] for k in range(line, max(line - 12, 0), -1) if by_line.get(k)), set())
        hits = hits or {test for tests in by_line.values() for test in tests}
        families = {_family(test) for test in hits}
        relatives = {test for test in self.seconds if _family(test) in families} - hits
        chosen: list[str] = []
        left = budget_seconds
        for group in (hits, relatives):
            for test in sorted(group, key=self.seconds.__getitem__):
                left -= self.seconds[test] + 0.003
                if left < 0:
                    break
                chosen.append(test)
        price: dict[str, list[float]] = collections.defaultdict(list)
        for test in chosen:
            price[test.split("::")[0]].append(self.seconds[test])
        rank = {file: sum(each) / len(each) for file, each in price.items()}
        return sorted(chosen, key=lambda test: (rank[test.split("::")[0]], test)), len(hits & set(chosen))


def _family(test: str) -> tuple[str, str]:
    file, _, rest = test.partition("::")
    return file, rest.partition("[")[2].partition("-")[0].rstrip("]")
