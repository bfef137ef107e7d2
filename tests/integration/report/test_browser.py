"""The report as people open it: in a real browser."""

import io
import time

import numpy as np
import pytest
from matplotlib.image import imread

import monocal
from monocal.report import write_report

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:the model was fitted on about")]

VALUES = "table[id$='values']"


@pytest.fixture
def opened(page, reports):
    """The report of a feature-aware model in a window of a desktop."""
    page.media()
    page.size(1200, 900)
    page.open(reports["wide_logistic"].as_uri())
    return page


def shown_column(page, table, column):
    return page.run(
        f'[...document.querySelectorAll("{table} tbody tr")].filter((row) => !row.hidden)'
        f".map((row) => row.cells[{column}].textContent.trim())"
    )


def picture_of(page):
    return (imread(io.BytesIO(page.screenshot()))[..., :3] * 255).astype(np.int64)


def n_colours(picture):
    return len(np.unique(picture @ [1, 256, 65536]))


def numbers(texts):
    return [float(text.replace(",", "")) for text in texts]


@pytest.mark.parametrize("name", ["wide_logistic", "umc", "platt", "tasks"])
def test_loads_without_an_error_and_without_a_request(page, reports, name):
    page.size(1200, 900)
    page.open(reports[name].as_uri())
    assert page.run("document.documentElement.dataset.ready") == "yes"
    assert page.messages == []
    assert page.requests == [reports[name].as_uri()]


def test_a_request_would_have_been_noticed_and_is_forbidden(opened):
    opened.run("fetch('https://example.org/x').catch(() => 0)")
    assert any("Content Security Policy" in message for message in opened.messages)


def test_no_section_and_no_column_is_out_of_sight(opened):
    """At the width of a page that is shared on a screen; a table of long values may scroll."""
    opened.size(1100, 900)
    is_cut = "(part) => part.scrollWidth > part.clientWidth + 1"
    assert opened.run(f"[...document.querySelectorAll('nav.sections, .tile')].filter({is_cut}).length") == 0
    seen = "[...document.querySelectorAll('table[id$=\\'seen\\']')].map((table) => table.parentElement)"
    assert opened.run(f"{seen}.length") == 1
    assert opened.run(f"{seen}.filter({is_cut}).length") == 0


def test_charts_are_drawn(opened):
    sizes = opened.run(
        "[...document.querySelectorAll('svg.plot')].filter((plot) => plot.getClientRects().length)"
        ".map((plot) => [plot.getBoundingClientRect().width, plot.getBoundingClientRect().height,"
        " plot.querySelectorAll('[data-tip]').length])"
    )
    assert len(sizes) >= 5
    assert all(width > 200 and height > 100 and n_marks > 0 for width, height, n_marks in sizes)
    drawn = opened.run("getComputedStyle(document.querySelector('.line.after')).stroke")
    assert drawn not in ("none", "rgb(0, 0, 0)")


def test_a_click_on_a_head_sorts_and_a_second_one_turns_it_round(opened):
    opened.click(f"{VALUES} thead th:nth-child(3) button")
    falling = numbers(shown_column(opened, VALUES, 2))
    assert falling == sorted(falling, reverse=True)
    assert opened.run(f'document.querySelector("{VALUES} thead th:nth-child(3)").ariaSort') == "descending"
    opened.click(f"{VALUES} thead th:nth-child(3) button")
    rising = numbers(shown_column(opened, VALUES, 2))
    assert rising == sorted(rising)
    assert rising[0] < falling[0]


def test_the_keyboard_sorts_too(opened):
    opened.run(f'document.querySelector("{VALUES} thead th:nth-child(3) button").focus()')
    opened.press("Enter")
    assert opened.run(f'document.querySelector("{VALUES} thead th:nth-child(3)").ariaSort') == "descending"
    opened.press("Tab")
    assert opened.run("document.activeElement.textContent") == "Positives"


def test_a_filter_leaves_only_what_it_names(opened):
    def field_names():
        return {cell.split()[1] for cell in shown_column(opened, VALUES, 0)}

    assert len(field_names()) > 1
    opened.run(
        "(() => { const one = document.querySelector('select[data-tag$=values]'); one.value = 'device';"
        " one.dispatchEvent(new Event('change')); })()"
    )
    assert field_names() == {"device"}
    opened.click("input[data-search$='values']")
    opened.write("device_2")
    assert [cell.split()[0] for cell in shown_column(opened, VALUES, 0)] == ["device_2"]


def test_all_rows_on_demand(opened):
    few = len(shown_column(opened, VALUES, 0))
    opened.click(f".tablebox:has({VALUES}) .more")
    assert len(shown_column(opened, VALUES, 0)) > few == 15


def test_a_point_explains_itself_to_the_mouse_and_to_the_keyboard(opened):
    opened.hover("svg.plot .dot.after")
    assert opened.run("document.getElementById('tip').classList.contains('on')")
    said = opened.run("document.getElementById('tip').textContent")
    assert said.startswith("after: predicted")
    opened.run("document.querySelector('svg.plot').focus()")
    opened.press("ArrowRight")
    opened.press("ArrowRight")
    assert opened.run("document.getElementById('tip').textContent") != said
    opened.press("Escape")
    assert not opened.run("document.getElementById('tip').classList.contains('on')")


def test_a_side_can_be_hidden(opened):
    opened.click("figure .key.before")
    hidden = "document.querySelector('figure g.before').getClientRects().length === 0"
    assert opened.run(hidden)
    assert opened.run("document.querySelector('figure .key.before').ariaPressed") == "false"
    opened.click("figure .key.before")
    assert not opened.run(hidden)


def test_the_screenshot_is_not_blank_in_light_and_in_dark(opened):
    light = picture_of(opened)
    opened.media(dark=True)
    dark = picture_of(opened)
    assert n_colours(light) > 100
    assert n_colours(dark) > 100
    assert light.mean() > 200
    assert dark.mean() < 80


def test_the_button_changes_the_colours(opened):
    before = opened.run("getComputedStyle(document.body).backgroundColor")
    opened.click("#theme")
    assert opened.run("getComputedStyle(document.body).backgroundColor") != before
    opened.click("#theme")
    assert opened.run("getComputedStyle(document.body).backgroundColor") == before


@pytest.mark.parametrize("name", ["wide_logistic", "umc", "platt", "tasks"])
def test_a_phone_needs_no_sideways_scrolling(page, reports, name):
    page.size(360, 780, phone=True)
    page.open(reports[name].as_uri())
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert page.run("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)") >= 14


def test_it_can_be_read_without_javascript(page, reports):
    page.size(1200, 900)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(reports["wide_logistic"].as_uri())
        picture = picture_of(page)
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert n_colours(picture) > 100
    assert page.run("document.documentElement.classList.contains('scripted')") is False
    visible = "[...document.querySelectorAll('svg.plot')].filter((one) => one.getClientRects().length).length"
    assert page.run(visible) >= 5
    assert page.run(f'[...document.querySelectorAll("{VALUES} tbody tr")].every((one) => one.getClientRects().length)')
    assert page.run("document.querySelector('.filters').getClientRects().length") == 0


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


def test_a_table_is_saved_as_csv(opened, tmp_path):
    opened.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.click(f".tablebox:has({VALUES}) .csv")
    deadline = time.monotonic() + 120.0
    while not (found := list(tmp_path.glob("*.csv"))) and time.monotonic() < deadline:
        opened.run("new Promise((done) => setTimeout(done, 100))")
    lines = found[0].read_text().splitlines()
    assert lines[0].startswith('"Value","Verdict","Rows"')
    assert len(lines) - 1 == opened.run(f'document.querySelectorAll("{VALUES} tbody tr").length')


def test_it_prints(opened):
    assert opened.pdf().startswith(b"%PDF")


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
