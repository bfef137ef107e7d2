"""Every argument of a function behind a verb has the option that is spelled like it."""

import ast
import inspect
import re
from pathlib import Path

import monocal
from monocal.cli.exits import in_options
from monocal.cli.main import options_of
from monocal.evaluation.compare import compare
from monocal.evaluation.table import evaluate_table
from monocal.lab.prepare.encoder import encode_log
from monocal.models.apply import apply_model
from monocal.models.onnx import export_onnx
from monocal.models.refresh import refresh_model
from monocal.monitoring.gate import gate
from monocal.monitoring.watch import watch
from monocal.reports import report

FUNCTIONS = {
    ("calibrate",): monocal.calibrate,
    ("fit",): monocal.fit,
    ("apply",): apply_model,
    ("evaluate",): evaluate_table,
    ("compare",): compare,
    ("report",): report,
    ("refresh",): refresh_model,
    ("gate",): gate,
    ("watch",): watch,
    ("lab", "prepare"): encode_log,
    ("export",): export_onnx,
}

PLACES = {"folder", "log", "roles", "model", "table", "path", "out", "source", "old", "new", "columns"}
"""Arguments that stand without an option of that name: the files of a command; columns have options of their own."""

NOT_OFFERED = {
    "fit": {"frozen_embeddings"},
    "apply": {"batch_rows", "show_progress"},
    "evaluate": {"n_bootstrap"},
    "compare": {"arguments", "margin", "metrics", "n_bootstrap"},
    "report": {"options"},
    "gate": {"confidence"},
    "prepare": {"show_progress"},
    "export": {"n_parity_rows"},
}
"""What the command line cannot say, or says with --set."""


def test_every_argument_is_an_option_of_the_verb_and_named_so_in_its_errors():
    for words, function in FUNCTIONS.items():
        offered = options_of(*words)
        named = {name for name in inspect.signature(function).parameters if name not in PLACES}
        missing = {name for name in named if f"--{name.replace('_', '-')}" not in offered}
        assert missing == NOT_OFFERED.get(words[-1], set()), words
        for name in named - missing:
            option = f"--{name.replace('_', '-')}"
            message = in_options(f'{name}: got 1; expected 2. Hint: leave {name}= out, or pass {name}="x".', offered)
            assert message == f"{option}: got 1; expected 2. Hint: leave {option} out, or pass {option} x."


def test_the_library_does_not_speak_of_options():
    root = Path(monocal.__file__).parent
    spoken = []
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in ("cli", "serving", "testing", "lab"):
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("InvalidInput.of", "warnings.warn"):
                texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
                spoken += [path.name for text in texts if re.search(r"(^|[\s(])--[a-z]", str(text))]
    assert set(spoken) <= {"process_group.py"}  # torchrun's own


def test_names_that_are_no_option_of_the_verb_and_columns_of_the_caller_stay():
    for message in (
        'margin: got 1; expected 2. Hint: leave margin= out, or pass margin="x".',
        "field column: got 'lable_time'; expected one of label_time, sampling_rate. Hint: did you mean 'label_time'?",
    ):
        assert in_options(message, {"--label-time"}) == message
