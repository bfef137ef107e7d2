"""The report as a file: whole, small, self-contained, accessible, reproducible."""

import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.core.errors import InvalidInput, UnknownName
from monocal.report import build_report, write_report
from monocal.report.page.document import render
from monocal.report.page.overview import sentences
from monocal.report.write import LARGEST_BYTES

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")

QUICK = {"n_bootstrap": 2, "n_floor": 2}


class Outline(HTMLParser):
    """Collects what the structural tests ask for."""

    VOID = ("meta", "input", "br", "img", "link", "path", "circle", "rect")

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.unbalanced = [], [], []
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

    def values(self, name):
        return [attrs[name] for _, attrs in self.elements if name in attrs]


@pytest.fixture(scope="module", params=["wide_logistic", "umc", "platt", "tasks"])
def html(request, reports):
    return reports[request.param].read_text(encoding="utf-8")


def test_every_element_is_closed(html):
    outline = Outline(html)
    assert outline.unbalanced == []
    assert outline.open == []


def test_identifiers_are_unique_and_references_lead_somewhere(html):
    outline = Outline(html)
    identifiers = outline.values("id")
    assert len(identifiers) == len(set(identifiers))
    for name in ("aria-labelledby", "aria-controls", "data-search", "data-tag"):
        assert set(outline.values(name)) <= set(identifiers)
    assert {reference.removeprefix("#") for reference in outline.values("href")} <= set(identifiers)


def test_nothing_is_loaded_from_elsewhere(html):
    outline = Outline(html)
    assert outline.values("src") == []
    assert all(reference.startswith("#") for reference in outline.values("href"))
    assert not re.search(r"@import|url\(", html)
    assert "default-src 'none'" in html


def test_every_drawing_is_described_or_hidden_from_readers(html):
    drawings = [attrs for tag, attrs in Outline(html).elements if tag == "svg"]
    assert drawings
    assert all(len(drawing.get("aria-label", "")) > 20 or drawing.get("aria-hidden") == "true" for drawing in drawings)


def test_every_control_has_a_name(html):
    assert not re.search(r"<button[^>]*></button>", html)
    assert len(re.findall(r"<(?:input|select)\b", html)) == len(re.findall(r"<label>", html))


def test_no_number_is_shown_as_nan(html):
    shown = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", html, flags=re.DOTALL)
    assert not re.search(r">[^<]*\b(nan|inf|None)\b[^<]*<", shown)


def test_every_section_is_there(reports):
    html = reports["wide_logistic"].read_text(encoding="utf-8")
    for title in (
        "Reliability",
        "Metrics with intervals and noise floors",
        "By field value",
        "Over time",
        "Learned curves",
        "Provenance",
    ):
        assert f">{title}</h2>" in html


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
    path = write_report(model, table, tmp_path / "many.html", **QUICK)
    assert 300_000 < path.stat().st_size < LARGEST_BYTES == 600_000


@pytest.fixture(scope="module")
def small():
    log = monocal.simulate_log(4_000, seed=3).table()
    old, new = log.slice(0, 2_000), log.slice(2_000)
    return monocal.fit(old, method="platt", score="pctr", label="click", fields=["device", "hour"]), new


def test_the_same_model_rows_and_seed_give_the_same_bytes(small):
    model, table = small
    assert render(build_report(model, table, **QUICK)) == render(build_report(model, table, **QUICK))
    assert render(build_report(model, table, **QUICK)) != render(build_report(model, table.slice(1), **QUICK))


def test_the_lines_that_reproduce_a_report_do(small, tmp_path, monkeypatch):
    model, table = small
    monkeypatch.chdir(tmp_path)
    model.save("model")
    import pyarrow.parquet as pq

    pq.write_table(table, "test.parquet")
    first = write_report("model", "test.parquet", "first.html", time="timestamp", fields=["device"], **QUICK)
    lines = build_report("model", "test.parquet", time="timestamp", fields=["device"], **QUICK).provenance.reproduce
    exec(lines, {})
    assert (tmp_path / "report.html").read_bytes() == first.read_bytes()


def test_a_command_is_shown_as_it_was_given(small):
    model, table = small
    data = build_report(model, table, command="monocal report model/ test.parquet --out r.html", **QUICK)
    assert "<code>monocal report model/ test.parquet --out r.html</code>" in render(data)


def test_a_model_without_fields_says_what_is_missing(small):
    _, table = small
    model = monocal.fit(table, method="isotonic", score="pctr", label="click")
    html = render(build_report(model, table, **QUICK))
    assert "No fields were given" in html


def test_before_is_the_score_brought_back_to_full_traffic():
    log = monocal.simulate_log(20_000, world="downsampled", seed=1).table()
    model = monocal.fit(log, method="none", score="pctr", label="click", sampling_rate=0.1)
    pcoc = build_report(model, log, **QUICK).task().metrics.row("pcoc")
    assert pcoc.values.before == pcoc.values.after
    assert pcoc.values.before == pytest.approx(1.0, abs=0.15)


def test_rows_without_a_label_are_left_out_of_that_task():
    log = monocal.simulate_log(4_000, world="multitask", seed=1).table()
    masked = pa.array([value if place % 2 else None for place, value in enumerate(log["long_view"].to_pylist())])
    table = log.set_column(log.column_names.index("long_view"), "long_view", masked)
    model = monocal.fit(table, method="platt", tasks={"click": ("click", "pctr"), "long": ("long_view", "plv")})
    data = build_report(model, table, **QUICK)
    assert [task.weight for task in data.tasks] == [4_000, 2_000]


def test_a_window_of_time_can_be_chosen(small):
    model, table = small
    middle = table["timestamp"][1_000].as_py()
    data = build_report(model, table, time="timestamp", until=str(middle), **QUICK)
    assert data.provenance.n_rows == sum(value < middle for value in table["timestamp"].to_pylist())


def test_unknown_columns_and_tasks_are_named(small):
    model, table = small
    with pytest.raises(UnknownName, match="value: got 'bidd'"):
        build_report(model, table, value="bidd")
    with pytest.raises(UnknownName, match="task of label: got 'klick'; expected one of click.*did you mean 'click'"):
        build_report(model, table, label={"klick": "click"})
    with pytest.raises(
        InvalidInput, match=r"fields: got 'device'; expected a list of columns. Hint: write \['device'\]"
    ):
        build_report(model, table, fields="device")


def test_one_label_for_several_tasks_is_refused():
    log = monocal.simulate_log(2_000, world="multitask", seed=1).table()
    model = monocal.fit(log, method="platt", tasks={"click": ("click", "pctr"), "long": ("long_view", "plv")})
    with pytest.raises(InvalidInput, match="label: got 'click'; expected one label column per task .click, long."):
        build_report(model, log, label="click")


def test_a_calibrator_that_fell_back_is_announced():
    log = monocal.simulate_log(4_000, seed=3, distortion=None, world="calibrated").table()
    rng = np.random.default_rng(0)
    # the newest fifth behaves otherwise, so that any fit on the older rows does harm there
    labels = np.where(np.arange(4_000) < 3_200, rng.random(4_000) < 0.5, log["click"].to_numpy()).astype(int)
    table = {"pctr": log["pctr"].to_numpy(), "click": labels}
    with pytest.warns(UserWarning, match="falling back"):
        model = monocal.fit(table, method="platt", score="pctr", label="click", guard=True)
    assert "fell back to the uncalibrated score" in render(build_report(model, table, **QUICK))


def awkward(kind):
    """Five hundred rows with something wrong or missing, and the options they need."""
    log = monocal.simulate_log(500, seed=1).table()
    table = {name: log[name].to_pylist() for name in ("pctr", "click", "device", "country", "timestamp", "user_id")}
    rows = {"one row": 1, "two rows": 2}.get(kind, 500)
    table = {name: column[:rows] for name, column in table.items()}
    changes = {
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
    table |= changes.get(kind, {})
    return table, {"weight": "weight"} if kind == "weights" else {}


@pytest.mark.parametrize(
    "kind",
    [
        "one row",
        "two rows",
        "no positives",
        "no negatives",
        "one score",
        "certain scores",
        "unseen values",
        "missing values",
        "one moment",
        "one group",
        "weights",
    ],
)
def test_awkward_rows_give_a_page_without_nonsense(kind):
    log = monocal.simulate_log(2_000, seed=2).table()
    model = monocal.fit(log, method="wide_logistic", score="pctr", label="click", fields=["device", "country"])
    table, options = awkward(kind)
    data = build_report(model, table, time="timestamp", group="user_id", **options, **QUICK)
    test_no_number_is_shown_as_nan(render(data))
    if kind in ("one row", "two rows"):
        assert not any(field.errors.after.is_significant for field in data.task().fields)
    if kind == "no positives":
        assert data.task().metrics.row("pcoc") is None
        assert ("pcoc", "no positive label to divide by") in data.task().metrics.missing
    if kind == "one group":
        assert any("too few rows for an interval" in sentence for sentence in sentences(data.task()))
