"""The report as people open it: in a real browser, on a desk and on a phone, in light and in dark."""

import numpy as np
import pytest

import monocal
from monocal.reports import report

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:the model was fitted on about")]

VALUES = "table[id$='fields-values']"
TOOLS = """
    const all = (selector) => [...document.querySelectorAll(selector)];
    const one = (selector) => document.querySelector(selector);
    const seen = (part) => part.getClientRects().length > 0;
    const shown = () => all("VALUES tbody tr").filter((row) => !row.hidden);
    const column = (k) => shown().map((row) => row.cells[k].textContent.trim());
    const set = (part, value, kind) => { one(part).value = value; one(part).dispatchEvent(new Event(kind)); };
    const press = (selector, key) => one(selector).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
""".replace("VALUES", VALUES)


def run(page, lines):
    """Runs lines of JavaScript with the tools above and returns what they return."""
    return page.run(f"(() => {{ {TOOLS} {lines} }})()")


@pytest.fixture
def opened(page, reports):
    """The report of one task in a window of a desktop."""
    page.media()
    page.size(1200, 900)
    page.open(reports["one task"].as_uri())
    return page


@pytest.mark.parametrize("name", ["one task", "tasks"])
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_desk_and_phone_without_an_error_or_a_request(page, reports, name, dark):
    page.media(dark=dark)
    for width in (1100, 400, 360):
        page.size(width, 800, phone=width < 500)
        page.open(reports[name].as_uri())
        assert run(page, "return document.documentElement.dataset.ready") == "yes"
        assert (page.messages, page.requests) == ([], [reports[name].as_uri()])
        assert run(page, "return document.documentElement.scrollWidth") <= width
        parts = "nav.sections, .tile" if width > 500 else ".tile, figure, p, li"
        assert run(page, f"return all('{parts}').filter((one) => one.scrollWidth > one.clientWidth + 1).length") == 0
        assert run(page, "return parseFloat(getComputedStyle(one('p')).fontSize)") >= 14
        channels = run(page, r"return getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)")
        assert (max(channels) < 60) if dark else (min(channels) > 200)
    sizes = run(page, "return all('svg.plot').filter(seen).map((plot) => plot.getBoundingClientRect().height)")
    assert len(sizes) >= 5
    assert min(sizes) > 100
    assert run(page, "return getComputedStyle(one('.line.after')).stroke") not in ("none", "rgb(0, 0, 0)")


def test_a_request_would_have_been_noticed_and_is_forbidden(opened):
    opened.run("fetch('https://example.org/x').catch(() => 0)")
    assert any("Content Security Policy" in message for message in opened.messages)


def test_tables_sort_filter_and_open(opened):
    def numbers():
        return [float(text.replace(",", "")) for text in run(opened, "return column(2)")]

    sort = f'one("{VALUES} thead th:nth-child(3) button").click()'
    run(opened, sort)
    falling = numbers()
    assert falling == sorted(falling, reverse=True)
    run(opened, sort)
    rising = numbers()
    assert rising == sorted(rising)
    assert len(rising) == len(falling) == 15
    assert rising[0] < falling[0]
    run(opened, f'one(".tablebox:has({VALUES}) .more").click()')
    assert len(run(opened, "return column(0)")) > 15
    run(opened, "set('select[data-tag$=values]', 'device', 'change')")
    assert {cell.split()[1] for cell in run(opened, "return column(0)")} == {"device"}
    run(opened, "set('input[data-search$=values]', 'device_2', 'input')")
    assert [cell.split()[0] for cell in run(opened, "return column(0)")] == ["device_2"]


def test_points_explain_themselves_sides_hide_and_colours_change(opened):
    tip = "return [one('#tip').textContent, one('#tip').classList.contains('on')]"
    run(opened, "press('svg.plot', 'ArrowRight')")
    assert run(opened, tip)[0].startswith("before: predicted")
    run(opened, "press('svg.plot', 'Escape')")
    assert not run(opened, tip)[1]
    assert not run(opened, "one('figure .key.before').click(); return seen(one('figure g.before'))")
    before = run(opened, "return getComputedStyle(document.body).backgroundColor")
    after = run(opened, "one('#theme').click(); return getComputedStyle(document.body).backgroundColor")
    run(opened, "one('#theme').click()")
    assert before != after


def test_it_can_be_read_without_javascript(page, reports):
    page.media()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(reports["one task"].as_uri())
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert run(page, "return all('svg.plot').filter(seen).length") >= 5
    assert run(page, f'return all("{VALUES} tbody tr").every(seen)')
    assert not run(page, "return seen(one('.filters'))")


def test_tasks_are_tabs(page, reports):
    page.open(reports["tasks"].as_uri())
    assert run(page, "return all('.panel').map(seen)") == [True, False, False]
    assert run(page, "one('[role=tab]:nth-child(3)').click(); return all('.panel').map(seen)") == [False, False, True]
    run(page, "press('[role=tab]:nth-child(3)', 'ArrowLeft')")
    assert run(page, "return all('.panel').map(seen)") == [False, True, False]


def test_a_hostile_value_is_only_text(page, tmp_path):
    hostile = "</script><script>window.harmed=1</script><img src=x onerror='window.harmed=2'>\"'"
    log = monocal.simulate_log(4_000, seed=2).table()
    site = np.where(np.arange(4_000) % 3 == 0, hostile, "plain")
    table = {"pctr": log["pctr"].to_numpy(), "click": log["click"].to_numpy(), hostile: site}
    model = monocal.fit(table, method="wide_logistic", score="pctr", label="click", fields=[hostile])
    path = report(model, table, tmp_path / "hostile.html", title=hostile, n_bootstrap=2, n_floor=2)
    page.open(path.as_uri())
    assert run(page, "return window.harmed") is None
    assert page.messages == []
    assert run(page, "return one('h1').textContent") == hostile
    assert hostile[:40] in run(page, f'return one("{VALUES}").textContent')
