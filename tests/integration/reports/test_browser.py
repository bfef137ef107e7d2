"""The report as people open it: in a real browser, on a desk and on a phone, in light and in dark."""

import time

import numpy as np
import pytest

import monocal
from monocal.reports import write_report

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:the model was fitted on about")]

VALUES = "table[id$='fields-values']"


@pytest.fixture
def opened(page, reports):
    """The report of one task in a window of a desktop."""
    page.media()
    page.size(1200, 900)
    page.open(reports["one task"].as_uri())
    return page


def shown_column(page, table, column):
    return page.run(
        f'[...document.querySelectorAll("{table} tbody tr")].filter((row) => !row.hidden)'
        f".map((row) => row.cells[{column}].textContent.trim())"
    )


def numbers(texts):
    return [float(text.replace(",", "")) for text in texts]


@pytest.mark.parametrize("name", ["one task", "tasks"])
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_desk_and_phone_without_an_error_or_a_request(page, reports, name, dark):
    page.media(dark=dark)
    for width in (1100, 400, 360):
        page.size(width, 800, phone=width < 500)
        page.open(reports[name].as_uri())
        assert page.run("document.documentElement.dataset.ready") == "yes"
        assert page.messages == []
        assert page.requests == [reports[name].as_uri()]
        assert page.run("document.documentElement.scrollWidth") <= width
        is_cut = "(part) => part.scrollWidth > part.clientWidth + 1"
        wide = "nav.sections, .tile" if width > 500 else ".tile, figure, p, li"
        assert page.run(f"[...document.querySelectorAll('{wide}')].filter({is_cut}).length") == 0
        assert page.run("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)") >= 14
        channels = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (max(channels) < 60) if dark else (min(channels) > 200)
    sizes = page.run(
        "[...document.querySelectorAll('svg.plot')].filter((plot) => plot.getClientRects().length)"
        ".map((plot) => [plot.getBoundingClientRect().width, plot.getBoundingClientRect().height,"
        " plot.querySelectorAll('[data-tip]').length])"
    )
    assert len(sizes) >= 5
    assert all(width > 200 and height > 100 and n_marks > 0 for width, height, n_marks in sizes)
    assert page.run("getComputedStyle(document.querySelector('.line.after')).stroke") not in ("none", "rgb(0, 0, 0)")


def test_a_request_would_have_been_noticed_and_is_forbidden(opened):
    opened.run("fetch('https://example.org/x').catch(() => 0)")
    assert any("Content Security Policy" in message for message in opened.messages)


def test_tables_sort_by_mouse_and_keyboard_filter_open_and_are_saved(opened, tmp_path):
    head = f"{VALUES} thead th:nth-child(3)"
    opened.click(f"{head} button")
    falling = numbers(shown_column(opened, VALUES, 2))
    assert falling == sorted(falling, reverse=True)
    assert len(falling) == 15
    opened.run(f'document.querySelector("{head} button").focus()')
    opened.press("Enter")
    rising = numbers(shown_column(opened, VALUES, 2))
    assert rising == sorted(rising)
    assert rising[0] < falling[0]
    assert opened.run(f'document.querySelector("{head}").ariaSort') == "ascending"
    opened.click(f".tablebox:has({VALUES}) .more")
    assert len(shown_column(opened, VALUES, 0)) > 15
    opened.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.click(f".tablebox:has({VALUES}) .csv")
    deadline = time.monotonic() + 120.0
    while not (found := list(tmp_path.glob("*.csv"))) and time.monotonic() < deadline:
        opened.run("new Promise((done) => setTimeout(done, 50))")
    lines = found[0].read_text().splitlines()
    assert lines[0].startswith('"Value","Verdict","Rows"')
    assert len(lines) - 1 == opened.run(f'document.querySelectorAll("{VALUES} tbody tr").length')
    opened.run(
        "(() => { const one = document.querySelector('select[data-tag$=values]'); one.value = 'device';"
        " one.dispatchEvent(new Event('change')); })()"
    )
    assert {cell.split()[1] for cell in shown_column(opened, VALUES, 0)} == {"device"}
    opened.click("input[data-search$='values']")
    opened.write("device_2")
    assert [cell.split()[0] for cell in shown_column(opened, VALUES, 0)] == ["device_2"]


def test_a_point_explains_itself_to_the_mouse_and_to_the_keyboard(opened):
    opened.hover("svg.plot .dot.after")
    said = opened.run("document.getElementById('tip').textContent")
    assert said.startswith("after: predicted")
    opened.run("document.querySelector('svg.plot').focus()")
    opened.press("ArrowRight")
    opened.press("ArrowRight")
    assert opened.run("document.getElementById('tip').textContent") != said
    opened.press("Escape")
    assert not opened.run("document.getElementById('tip').classList.contains('on')")


def test_a_side_can_be_hidden_and_colours_changed(opened):
    hidden = "document.querySelector('figure g.before').getClientRects().length === 0"
    opened.click("figure .key.before")
    assert opened.run(hidden)
    opened.click("figure .key.before")
    assert not opened.run(hidden)
    before = opened.run("getComputedStyle(document.body).backgroundColor")
    opened.click("#theme")
    assert opened.run("getComputedStyle(document.body).backgroundColor") != before
    opened.click("#theme")
    assert opened.run("getComputedStyle(document.body).backgroundColor") == before


def test_it_can_be_read_without_javascript_and_printed(page, reports):
    page.media()
    page.size(1200, 900)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(reports["one task"].as_uri())
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert page.run("document.documentElement.classList.contains('scripted')") is False
    visible = "[...document.querySelectorAll('svg.plot')].filter((one) => one.getClientRects().length).length"
    assert page.run(visible) >= 5
    assert page.run(f'[...document.querySelectorAll("{VALUES} tbody tr")].every((one) => one.getClientRects().length)')
    assert page.run("document.querySelector('.filters').getClientRects().length") == 0
    assert page.pdf().startswith(b"%PDF")


def test_tasks_are_tabs(page, reports):
    page.size(1200, 900)
    page.open(reports["tasks"].as_uri())
    shown = "[...document.querySelectorAll('.panel')].map((one) => one.getClientRects().length > 0)"
    assert page.run(shown) == [True, False, False]
    page.click("[role=tab]:nth-child(3)")
    assert page.run(shown) == [False, False, True]
    page.press("ArrowLeft")
    assert page.run(shown) == [False, True, False]
    assert page.run("document.activeElement.ariaSelected") == "true"


def test_a_hostile_value_is_only_text(page, tmp_path):
    hostile = "</script><script>window.harmed=1</script><img src=x onerror='window.harmed=2'>\"'"
    log = monocal.simulate_log(4_000, seed=2).table()
    site = np.where(np.arange(4_000) % 3 == 0, hostile, "plain")
    table = {"pctr": log["pctr"].to_numpy(), "click": log["click"].to_numpy(), hostile: site}
    model = monocal.fit(table, method="wide_logistic", score="pctr", label="click", fields=[hostile])
    path = write_report(model, table, tmp_path / "hostile.html", title=hostile, n_bootstrap=2, n_floor=2)
    page.open(path.as_uri())
    assert page.run("window.harmed") is None
    assert page.messages == []
    assert page.run("document.querySelector('h1').textContent") == hostile
    assert hostile[:40] in page.run(f'document.querySelector("{VALUES}").textContent')
