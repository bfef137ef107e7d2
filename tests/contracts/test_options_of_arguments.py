"""Every argument of a function behind a verb has the option that stands for it, and advice names nothing else."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import monocal
from monocal.calibrators import CALIBRATORS
from monocal.cli.main import options_of
from monocal.cli.spelling import METHOD_ARGUMENTS, OPTIONS, in_options
from monocal.evaluation.compare_methods import compare_methods
from monocal.evaluation.table import evaluate_table
from monocal.lab.prepare.encoder import encode_log
from monocal.models.apply import apply_model
from monocal.models.onnx import export_onnx
from monocal.models.refresh import refresh_model
from monocal.monitoring.gate import gate
from monocal.monitoring.watch import watch
from monocal.report import write_report

FUNCTIONS = {
    "fit": monocal.fit,
    "apply": apply_model,
    "evaluate": evaluate_table,
    "compare": compare_methods,
    "report": write_report,
    "refresh": refresh_model,
    "gate": gate,
    "watch": watch,
    "prepare": encode_log,
    "export": export_onnx,
    "simulate": monocal.simulate_log,
}

PLACES = {
    "self",
    "roles",
    "model",
    "table",
    "path",
    "out",
    "folder",
    "log",
    "schema",
    "source",
    "old",
    "new",
    "n",
}
"""Arguments that stand without an option: the files of a command."""

NOT_OFFERED = {
    "fit": {"embeddings", "frozen_embeddings", "options", "query_side_fields", "team"},
    "apply": {"batch_rows", "on_error", "show_progress"},
    "evaluate": {"n_bootstrap"},
    "compare": {"margin", "metrics", "n_bootstrap", "task"},
    "report": {"model_name", "options"},
    "gate": {"confidence", "n_bootstrap", "seed"},
    "prepare": {"batch_rows", "seed", "show_progress", "team"},
    "export": {"n_parity_rows", "seed"},
    "simulate": {"distortion"},
}
"""What the command line cannot say or says otherwise: no error about it may reach its user."""


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_every_argument_is_told_as_an_option_of_the_verb(verb):
    offered = options_of(*(["lab", verb] if verb == "prepare" else [verb]))
    named = [*inspect.signature(FUNCTIONS[verb]).parameters]
    expected = [name for name in named if name not in PLACES]
    unspelled = set()
    for name in expected:
        said = in_options(f"{name}: got 1; expected 2. Hint: leave {name}= out.", offered)
        option = said.partition(":")[0]
        if option not in offered or said != f"{option}: got 1; expected 2. Hint: leave {option} out.":
            unspelled.add(name)
    assert unspelled == NOT_OFFERED.get(verb, set()) & set(expected)


def messages():
    """Every text that an error or a warning of the library is made of, with its place."""
    for path in sorted(Path(monocal.__file__).parent.rglob("*.py")):
        inside = path.relative_to(Path(monocal.__file__).parent)
        if inside.parts[0] in ("cli", "serving", "testing") or str(inside) in ("lab/cli.py", "lab/first_steps.py"):
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("InvalidInput.of", "warnings.warn"):
                for text in ast.walk(call):
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield f"{path.name}:{text.lineno}", text.value


IN_PYTHON_ONLY = {
    "attributes",
    "context_width",
    "cv",
    "embeddings",
    "features",
    "folder",
    "groups",
    "labels",
    "score_from",
    "scores",
    "size",
}
"""Arguments of arrays and classes, which no verb hands on."""


def test_advice_names_arguments_that_have_an_option():
    methods = {name for method in CALIBRATORS.values() for name in inspect.signature(method).parameters}
    assert set(METHOD_ARGUMENTS) <= methods
    known = {*OPTIONS, *METHOD_ARGUMENTS, *IN_PYTHON_ONLY}
    unknown = [
        (place, name) for place, text in messages() for name in re.findall(r"\b([a-z_]+)=", text) if name not in known
    ]
    assert not unknown


def test_the_library_does_not_speak_of_options():
    spoken = [(place, text) for place, text in messages() if re.search(r"(^|[\s(])--[a-z]", text)]
    assert [place.partition(":")[0] for place, _ in spoken] == ["process_group.py"] * len(spoken)  # torchrun's own


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_a_verb_does_not_have_is_not_named(name):
    message = f'{name}: got 1; expected 2. Hint: leave {name}= out, or pass {name}="x".'
    assert in_options(message, frozenset()) == message


def test_columns_of_the_caller_keep_their_names():
    message = (
        "field column: got 'lable_time'; expected one of label_time, sampling_rate. Hint: did you mean 'label_time'?"
    )
    assert in_options(message) == message
