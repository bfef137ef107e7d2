"""Every number of a report on one fixed fit, so that its code can move and its numbers cannot.

After a change that is meant: `python tests/goldens/test_report_numbers.py` writes the file again.
"""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import monocal
from monocal.reports import build_report

SNAPSHOT = Path(__file__).parent / "report_numbers.json"
SECTIONS = ("weight", "observed", "reliability", "fields", "drift", "curves", "retained", "seen", "numeric")
DIGITS = 6


def report_numbers():
    """Returns the numbers of a report on a log with fields, a numeric field, groups, weights and times."""
    table = monocal.simulate_log(6_000, seed=3).table()
    weights = np.random.default_rng(0).integers(1, 4, len(table)).astype(float)
    price = np.exp(np.random.default_rng(1).normal(size=len(table)))
    table = table.append_column("times_seen", [weights]).append_column("price", [price])
    model = monocal.fit(
        table.slice(0, 3_000),
        method=monocal.WideLogistic(carry="auto"),
        score="pctr",
        label="click",
        fields=["device", "country"],
        numeric=["price"],
        time="timestamp",
    )
    columns = {"time": "timestamp", "group": "user_id", "weight": "times_seen", "fields": ["device", "country"]}
    data = build_report(model, table.slice(3_000), n_bootstrap=10, n_floor=10, seed=4, **columns)
    task = data.task()
    facts = dict(data.provenance.facts)
    found = {name: _plain(getattr(task, name)) for name in SECTIONS}
    found["metrics"] = _plain(_metrics(task.metrics))
    head = task.headline
    found["headline"] = {
        name: _plain(getattr(head, name))
        for name in ("mood", "significant_fields", "n_uneven", "significant_values", "n_values", "worst")
    }
    found["provenance"] = {name: facts[name] for name in ("Rows measured", "Seed")}
    return found


def _metrics(after):
    rows = []
    for name in after.names:
        sides = {
            side: {"value": found.value(name), "interval": found.interval(name), "reason": found.reason(name)}
            for side, found in after.stages.items()
        }
        change = {"difference": after.change.difference(name), "difference_interval": after.change.interval(name)}
        row = {"name": name, "sides": sides, "floor": after.floor(name)}
        rows.append(row | change | {"verdict": after.change.verdict(name)})
    return {"rows": rows, "missing": [], "confidence": after.confidence, "resampled": "groups"}


def _plain(value):
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(found) for name, found in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(float(value))
    return value


def _differences(agreed, found, path=""):
    if isinstance(agreed, dict) and isinstance(found, dict):
        for name in sorted({*agreed, *found}):
            yield from _differences(agreed.get(name), found.get(name), f"{path}.{name}")
    elif isinstance(agreed, list) and isinstance(found, list) and len(agreed) == len(found):
        for place, pair in enumerate(zip(agreed, found, strict=True)):
            yield from _differences(*pair, f"{path}[{place}]")
    elif isinstance(agreed, float) and isinstance(found, float):
        if agreed != pytest.approx(found, rel=2e-5, abs=1e-9):
            yield f"{path}: {agreed} is now {found}"
    elif agreed != found:
        yield f"{path}: {agreed} is now {found}"


def test_the_numbers_of_a_report_are_the_agreed_ones():
    agreed = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert list(_differences(agreed, json.loads(json.dumps(report_numbers())))) == []


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in sorted(report_numbers().items())]
    SNAPSHOT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
