"""Results hand themselves on as tables, and show themselves in notebooks."""

import pytest

import monocal
from monocal.evaluation.fields import field_table
from monocal.evaluation.paired import compare_evaluations


@pytest.fixture(scope="module")
def results():
    log = monocal.simulate_log(3_000, seed=1).table()
    columns = {"score": "pctr", "label": "click"}
    labels, scores = log["click"].to_numpy(), log["pctr"].to_numpy()
    model = monocal.fit(log, method="platt", **columns, fields=["device"])
    quick = {"metrics": ["ece", "gauc"], "n_bootstrap": 5, "n_floor": 5}
    before, after = (monocal.evaluate(labels, p, **quick) for p in (scores, model.predict(log)))
    methods = monocal.compare(log, methods=["platt"], **columns, n_bootstrap=5)
    return {
        "model": (model, 1, "task"),
        "report": (after, 2, "metric"),
        "comparison": (compare_evaluations(before, after), 1, "metric"),
        "methods": (methods, 2, "method"),
        "field": (field_table(labels, scores, log["device"], name="device"), 5, "device"),
    }


def test_every_result_is_a_table_for_arrow_pandas_and_notebooks_and_one_line_in_a_shell(results):
    for result, n_rows, first in results.values():
        table = result.to_arrow()
        assert (table.num_rows, first in table.column_names) == (n_rows, True)
        assert list(result.to_pandas().columns) == table.column_names
        html = result._repr_html_()
        assert html.startswith("<table>")
        assert html.count("<tr>") == n_rows + 1
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200


def test_values_cannot_become_markup():
    html = field_table([0, 1], [0.5, 0.5], ["<script>", "b"], name="<b>")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
