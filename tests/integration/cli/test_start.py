"""Help, version, start-up, completion, and errors of the command itself."""

import shlex
import subprocess
import warnings
from importlib import import_module

from monocal import __version__
from monocal.cli.exits import MEANINGS
from monocal.cli.main import HOMES, LABORATORY, options_of
from monocal.cli.options import examples_of
from monocal.core.errors import MonocalWarning

HEAVY = ("torch", "numba", "pandas", "sklearn", "pyarrow", "scipy", "numpy", "matplotlib", "rich.console")
LAB = import_module(HOMES[LABORATORY])
VERBS = [(name,) for name in HOMES if name != LABORATORY] + [(LABORATORY, name) for name in LAB.VERBS]


def test_help_loads_nothing_heavy_and_few_modules(python_process):
    # the number of modules, because seconds depend on the machine: 0.1 CPU s where this was written
    code = (
        "import sys\nbefore = len(sys.modules)\nfrom monocal.cli.main import main\nmain(['--help'])\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.stderr.write(f'{heavy} {len(sys.modules) - before}')"
    )
    ended = python_process(code)
    assert "simulate" in ended.out
    heavy, _, n_modules = ended.err.partition(" ")
    assert heavy == "[]"
    assert int(n_modules) < 250


def test_a_fit_of_umc_loads_what_it_needs_and_compiles_at_most_once_per_machine(python_process, tmp_path):
    # scikit-learn brings scipy.stats, torch's Adam the compiler of torch, skip_init its algebra: seconds before a fit
    unwanted = ("sklearn", "scipy.stats", "torch._dynamo", "sympy")
    code = (
        "import sys\nimport numpy as np\nfrom numba.core import event\nimport monocal\n"
        "rng = np.random.default_rng(0)\np = rng.random(4000)\n"
        "log = {'p': p, 'y': rng.binomial(1, p), 'site': rng.integers(0, 9, 4000).astype(str)}\n"
        "with event.install_recorder('numba:compile') as compiled:\n"
        "    method = monocal.Umc(n_epochs=1)\n"
        "    model = monocal.fit(log, method=method, score='p', label='y', fields=['site'])\n"
        f"    model.save({str(tmp_path / 'model')!r})\n"
        f"loaded = [name for name in {unwanted!r} if name in sys.modules]\n"
        "print('torch' in sys.modules, loaded, len(compiled.buffer))"
    )
    python_process(code)
    assert python_process(code).out == "True [] 0\n"


def test_help_names_every_verb_and_exit_code(monocal_command):
    ended = monocal_command("--help")
    assert ended.code == 0
    for name in HOMES:
        assert f"\n  {name} " in ended.out
    for code, meaning in MEANINGS.items():
        assert f"{code:>3}  {meaning}" in ended.out
    commands = ended.out.split("Commands:")[1].split("Exit codes:")[0]
    assert len(commands.split("\n\n")[0].strip().splitlines()) == len(HOMES), "a verb's first line is too long"
    assert "prepare" in monocal_command(LABORATORY, "--help").out


def test_every_verb_explains_itself_with_examples_whose_options_it_has(monocal_command):
    for words in VERBS:
        help_text = monocal_command(*words, "--help").out
        assert f"Usage: monocal {' '.join(words)}" in help_text
        offered = options_of(*words)
        assert {"--debug"} | ({"--json"} if words != ("serve",) else set()) <= offered
        examples = examples_of(getattr(import_module(HOMES[words[0]]), words[-1]))
        assert examples
        for line in examples:
            assert line.split()[0] in help_text
            given = shlex.split(line.split(" | ")[0])
            assert tuple(given[: len(words) + 1]) == ("monocal", *words)
            assert {word for word in given if word.startswith("--")} <= offered, line


def test_shell_completion_knows_verbs_and_methods(python_process):
    def complete(line):
        return python_process(
            "from monocal.cli.main import app; app(prog_name='monocal')",
            _MONOCAL_COMPLETE="complete_bash",
            COMP_WORDS=line,
            COMP_CWORD=str(len(line.split(" ")) - 1),
        ).out.split()

    assert complete("monocal sim") == ["simulate"]
    assert complete("monocal fit log.parquet --method isot") == ["isotonic"]


def test_version_of_the_command_and_of_the_module(monocal_command, monocal_process):
    assert monocal_command("--version").out == monocal_process("--version").out == f"monocal {__version__}\n"


def test_unknown_verbs_and_options_are_one_line_with_a_suggestion(monocal_command):
    ended = monocal_command("simulat")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: No such command 'simulat'. Did you mean 'simulate'? Hint: monocal --help.\n"
    ended = monocal_command("fit", "log.parquet", "--scores", "pctr", "--out", "m")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: No such option: --scores")
    assert "--score" in ended.err
    assert ended.err.count("\n") == 1


def test_a_fault_says_so_and_debug_shows_where(monocal_command, monkeypatch):
    def broken():
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("monocal.calibrators.methods", broken)
    ended = monocal_command("methods")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "error: ZeroDivisionError: division by zero. This is a fault in monocal; run again with --debug to see where.\n"
    )
    assert "Traceback" in monocal_command("methods", "--debug").err
    assert "Traceback" in monocal_command("--debug", "methods").err


def test_a_missing_extra_is_named(monocal_command, monkeypatch):
    def without_torch():
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("monocal.calibrators.methods", without_torch)
    ended = monocal_command("methods")
    assert ended.code == 1
    assert "pip install 'monocal[neural]'" in ended.err


def test_our_warnings_are_lines_on_standard_error(monocal_command, monkeypatch):
    def warns():
        warnings.warn("falling back", MonocalWarning, stacklevel=1)
        warnings.warn("a library's own business", DeprecationWarning, stacklevel=1)
        return []

    monkeypatch.setattr("monocal.calibrators.methods", warns)
    assert monocal_command("methods").err == "warning: falling back\n"


def test_output_into_a_closed_pipe_is_no_fault(start_monocal):
    process = start_monocal("metrics", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    with process.stderr:
        err = process.stderr.read()
    assert process.wait(timeout=300) == 1
    assert err == b""
