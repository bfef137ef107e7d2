"""Results hand themselves on as tables, and show themselves in notebooks."""

import pytest

import monocal
from monocal.evaluation.compare import compare
from monocal.evaluation.fields import field_table


@pytest.fixture(scope="module")
def results():
    log = monocal.simulate_log(3_000, seed=1).table()
    columns = {"score": "pctr", "label": "click"}
    labels, scores = log["click"].to_numpy(), log["pctr"].to_numpy()
    model = monocal.fit(log, method="platt", **columns, fields=["device"])
    quick = {"metrics": ["ece", "gauc"], "n_bootstrap": 5, "n_floor": 5}
    before, after = (monocal.evaluate(labels, p, **quick) for p in (scores, model.predict(log)))
    methods = monocal.compare_methods(log, ["platt"], **columns, n_bootstrap=5)
    return {
        "model": (model, 1, "task"),
        "report": (after, 2, "metric"),
        "comparison": (compare(before, after), 1, "metric"),
        "methods": (methods, 2, "method"),
        "judged fit": (monocal.fit_and_evaluate(log, method="platt", **columns, n_bootstrap=5), 4, "metric"),
        "field": (field_table(labels, scores, log["device"], name="device"), 5, "device"),
    }


NAMES = ["model", "report", "comparison", "methods", "judged fit", "field"]


@pytest.mark.parametrize("name", NAMES)
def test_to_arrow_and_pandas(results, name):
    result, n_rows, first = results[name]
    table = result.to_arrow()
    assert table.num_rows == n_rows
    assert first in table.column_names
    assert list(result.to_pandas().columns) == table.column_names


@pytest.mark.parametrize("name", NAMES)
def test_shown_in_a_notebook_and_short_in_a_line(results, name):
    result, n_rows, first = results[name]
    html = result._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == n_rows + 1
    assert f"<th>{first}</th>" in html
    assert "\n" not in repr(result)
    assert len(repr(result)) < 200


def test_values_cannot_become_markup():
    table = field_table([0, 1], [0.5, 0.5], ["<script>", "b"], name="<b>")
    assert "<script>" not in table._repr_html_()
    assert "&lt;script&gt;" in table._repr_html_()


def test_functions_of_the_package_are_the_ones_of_its_rooms():
    from monocal.evaluation.compare_methods import compare_methods
    from monocal.evaluation.table import fit_and_evaluate
    from monocal.models.apply import apply_model
    from monocal.reports import write_report

    found = (monocal.compare_methods, monocal.fit_and_evaluate, monocal.apply, monocal.write_report)
    assert found == (compare_methods, fit_and_evaluate, apply_model, write_report)
