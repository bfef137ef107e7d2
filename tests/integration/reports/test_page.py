"""The report as a file: whole, small, self-contained, accessible, reproducible; its words are a golden file."""

import base64
import hashlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.reports import build_report, page, report
from monocal.reports.page import LARGEST_BYTES, render

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")

QUICK = {"n_bootstrap": 2, "n_floor": 2}
GOLDEN = Path(__file__).parents[2] / "goldens" / "report_page.txt"


class Outline(HTMLParser):
    """Collects the elements of a page, its words, and what is not closed."""

    VOID = ("meta", "input", "br", "img", "link", "path", "circle", "rect")

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.unbalanced, self.words = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if data.strip() and not {"script", "style", "svg"} & set(self.open):
            self.words.append(f"{self.open[-1]}: {' '.join(data.split())}")

    def values(self, name):
        return [attrs[name] for _, attrs in self.elements if name in attrs]


@pytest.fixture(scope="module")
def small():
    log = monocal.simulate_log(4_000, seed=3).table()
    old, new = log.slice(0, 2_000), log.slice(2_000)
    return monocal.fit(old, method="platt", score="pctr", label="click", fields=["device", "hour"]), new


def page_words(html):
    """The words of a page, with every number as # and of every table the first two rows."""
    html = re.sub(r"(<tbody>(?:\s*<tr.*?</tr>){0,2}).*?</tbody>", r"\1</tbody>", html, flags=re.DOTALL)
    facts = html.index('<dl class="plain">'), html.index("</dl>", html.index('<dl class="plain">'))
    words = "\n".join(Outline(html[: facts[0]] + html[facts[1] + 5 :]).words)
    return re.sub(r"[−+]?\d[\d.,:-]*", "#", words) + "\n"


def golden_page():
    """A report with every section, from which the words are taken."""
    table = monocal.simulate_log(6_000, seed=3).table()
    table = table.append_column("price", [np.exp(np.random.default_rng(1).normal(size=len(table)))])
    columns = {"fields": ["device", "country"], "numeric": ["price"], "time": "timestamp"}
    model = monocal.fit(
        table.slice(0, 3_000), method=monocal.WideLogistic(carry="auto"), score="pctr", label="click", **columns
    )
    return render(build_report(model, table.slice(3_000), time="timestamp", group="user_id", **QUICK))


def test_the_words_of_the_page_are_the_agreed_ones():
    """After a change that is meant: `python tests/integration/reports/test_page.py` writes the file again."""
    assert page_words(golden_page()) == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["one task", "tasks"])
def test_a_page_is_well_formed_accessible_and_loads_nothing(reports, name):
    html = reports[name].read_text(encoding="utf-8")
    outline = Outline(html)
    assert (outline.unbalanced, outline.open) == ([], [])
    identifiers = outline.values("id")
    assert len(identifiers) == len(set(identifiers))
    for reference in ("aria-labelledby", "aria-controls", "data-search", "data-tag"):
        assert set(outline.values(reference)) <= set(identifiers)
    assert {link.removeprefix("#") for link in outline.values("href")} <= set(identifiers)
    assert outline.values("src") == []
    assert not re.search(r"@import|url\(", html)
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in html
    drawings = [attrs for tag, attrs in outline.elements if tag == "svg"]
    assert all("aria-label" in attrs or attrs.get("aria-hidden") == "true" for attrs in drawings)
    assert len(re.findall(r"<(?:input|select)\b", html)) == len(re.findall(r"<label>", html))
    assert_no_nonsense(html)


def assert_no_nonsense(html):
    shown = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", html, flags=re.DOTALL)
    assert not re.search(r">[^<]*\b(nan|inf|None)\b[^<]*<", shown)


def test_a_report_is_small_even_with_many_fields_and_tasks(tmp_path):
    rng = np.random.default_rng(0)
    n = 4_000
    names = [f"categorical_field_number_{place}" for place in range(21)]
    table = {name: [f"{value:040d}" for value in rng.zipf(1.3, n) % 500] for name in names}
    tasks = {}
    for task in ("click", "effective_view", "long_view"):
        table[f"p_{task}"] = rng.uniform(0.05, 0.5, n)
        table[task] = (rng.random(n) < table[f"p_{task}"] ** 1.2).astype(int)
        tasks[task] = (task, f"p_{task}")
    model = monocal.fit(table, method="platt", tasks=tasks, fields=names)
    path = report(model, table, tmp_path / "many.html", **QUICK)
    assert 300_000 < path.stat().st_size <= LARGEST_BYTES == 600_000


def test_the_same_model_rows_and_seed_give_the_same_bytes_by_the_lines_on_the_page(small, tmp_path, monkeypatch):
    model, table = small
    monkeypatch.chdir(tmp_path)
    model.save("model")
    pq.write_table(table, "test.parquet")
    first = report("model", "test.parquet", "first.html", time="timestamp", fields=["device"], **QUICK)
    data = build_report("model", "test.parquet", time="timestamp", fields=["device"], **QUICK)
    exec(data.provenance.reproduce, {})
    assert (tmp_path / "report.html").read_bytes() == first.read_bytes()
    other = build_report("model", table.slice(1), time="timestamp", fields=["device"], **QUICK)
    assert dict(other.provenance.facts)["Data fingerprint"] != dict(data.provenance.facts)["Data fingerprint"]
    given = build_report(model, table, command="monocal report model/ test.parquet --out r.html", **QUICK)
    assert "<code>monocal report model/ test.parquet --out r.html</code>" in render(given)


def test_before_is_the_score_brought_back_to_full_traffic():
    log = monocal.simulate_log(20_000, world="downsampled", seed=1).table()
    model = monocal.fit(log, method="none", score="pctr", label="click", sampling_rate=0.1)
    data = build_report(model, log, **QUICK)
    metrics = data.task().metrics
    assert metrics.before.value("pcoc") == metrics.value("pcoc") == pytest.approx(1.0, abs=0.15)
    assert "No fields were given" in render(data)


def test_rows_without_a_label_are_left_out_and_bad_arguments_named():
    log = monocal.simulate_log(4_000, world="multitask", seed=1).table()
    masked = pa.array([value if place % 2 else None for place, value in enumerate(log["long_view"].to_pylist())])
    table = log.set_column(log.column_names.index("long_view"), "long_view", masked)
    model = monocal.fit(table, method="platt", tasks={"click": ("click", "pctr"), "long": ("long_view", "plv")})
    assert [task.weight for task in build_report(model, table, **QUICK).tasks] == [4_000, 2_000]
    for arguments, message in (
        ({"label": "click"}, "label: got 'click'; expected one label column per task .click, long."),
        ({"value": "bidd"}, "value: got 'bidd'"),
        ({"fields": "device"}, r"fields: got 'device'; expected a list of columns. Hint: write \['device'\]"),
    ):
        with pytest.raises(InvalidInput, match=message):
            build_report(model, log, **arguments)


def test_a_calibrator_that_fell_back_is_announced():
    log = monocal.simulate_log(4_000, seed=3, distortion=None, world="calibrated").table()
    rng = np.random.default_rng(0)
    # the newest fifth behaves otherwise, so that any fit on the older rows does harm there
    labels = np.where(np.arange(4_000) < 3_200, rng.random(4_000) < 0.5, log["click"].to_numpy()).astype(int)
    table = {"pctr": log["pctr"].to_numpy(), "click": labels}
    with pytest.warns(UserWarning, match="falling back"):
        model = monocal.fit(table, method=monocal.Platt(guard=True), score="pctr", label="click")
    assert "fell back to the uncalibrated score" in render(build_report(model, table, **QUICK))


def test_without_jinja2_nothing_is_measured_and_the_extra_is_named(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    page._templates.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"Hint: pip install 'monocal\[report\]'"):
        report("no model", small[1], tmp_path / "report.html")


AWKWARD = {
    "one row": {},
    "two rows": {},
    "no positives": {"click": [0] * 500},
    "no negatives": {"click": [1] * 500},
    "one score": {"pctr": [0.1] * 500},
    "certain scores": {"pctr": [0.0, 1.0] * 250},
    "unseen values": {"device": ["never met"] * 500},
    "missing values": {"device": [None] * 500},
    "one moment": {"timestamp": [7] * 500},
    "one group": {"user_id": ["only"] * 500},
    "weights": {"weight": [0.0, 0.5] * 250},
}


@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_rows_give_a_page_without_nonsense(kind):
    log = monocal.simulate_log(2_000, seed=2).table()
    model = monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["device", "country"])
    rows = log.slice(0, {"one row": 1, "two rows": 2}.get(kind, 500))
    table = {name: rows[name].to_pylist() for name in ("pctr", "click", "device", "country", "timestamp", "user_id")}
    table |= AWKWARD[kind]
    options = {"weight": "weight"} if kind == "weights" else {}
    data = build_report(model, table, time="timestamp", group="user_id", **options, **QUICK)
    assert_no_nonsense(render(data))
    if kind in ("one row", "two rows"):
        assert not any(field.errors["after"].is_significant for field in data.task().fields)
    if kind == "no positives":
        assert data.task().metrics.reason("pcoc") == "no positive label to divide by"
        assert "PCOC: no positive label to divide by" in render(data)
    if kind == "one group":
        assert "too few rows for an interval" in render(data)


if __name__ == "__main__":
    GOLDEN.write_text(page_words(golden_page()), encoding="utf-8")
