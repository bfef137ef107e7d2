"""Machine instructions per row of the compiled loops, counted by callgrind: a number that no neighbour changes.

Run under valgrind by `instructions()`; alone it only compiles the loops. Valgrind knows no AVX-512, so the loops are
compiled for Haswell (AVX2) in a cache of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

N_ROWS, N_FIELDS, N_VALUES = 8_192, 21, 1_000


def instructions() -> list[str]:
    """Returns rows of a table, or one that says why there are none."""
    if shutil.which("valgrind") is None:
        return ["| not counted: valgrind is not installed here | |"]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CPU_NAME": "haswell", "NUMBA_CACHE_DIR": folder, "PYTHONHASHSEED": "0"}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")])
        alone = [sys.executable, "-m", "suite.instructions"]
        subprocess.run(alone, env=environment, check=True)
        out = Path(folder) / "callgrind"
        tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        ended = subprocess.run([*tool, *alone, "count"], env=environment, capture_output=True, text=True, check=False)
        if ended.returncode:
            return [f"| not counted: valgrind ended with {ended.returncode} | |"]
        # dumps are numbered; the first belongs to the empty call, whose instructions are those of the way there
        counts = [_total(Path(f"{out}.{number}")) for number in range(1, len(_loops()) + 2)]
    return [
        f"| {name} | {(count - counts[0]) / N_ROWS:,.0f} |" for name, count in zip(_loops(), counts[1:], strict=True)
    ]


def _total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def _loops() -> dict[str, Callable[[], object]]:
    """Returns the loops, each on the same rows: 21 fields of 1,000 values."""
    from monocal.compiled.predict import umc_predictor
    from monocal.compiled.wide import add_loss_and_gradient
    from monocal.lab.exact_concat.integral import integrate, pack_integrand

    rng = np.random.default_rng(0)
    logits, weights = rng.normal(-2.0, 1.5, N_ROWS), np.ones(N_ROWS)
    labels = (rng.random(N_ROWS) < 0.2).astype(np.float64)
    ids = np.minimum(rng.zipf(1.3, (N_ROWS, N_FIELDS)), N_VALUES - 1).astype(np.int32)
    offsets = np.arange(N_FIELDS + 1) * N_VALUES
    shifts = rng.normal(0.0, 0.1, int(offsets[-1]) + 2)
    widths, state = (16 * N_FIELDS, 128, 128, 14), {"beta": np.zeros(1), "knots": np.linspace(-6.0, 2.0, 12)}
    for place, (n_in, n_out) in enumerate(pairwise(widths)):
        state[f"trunk.layers.{place}.weight"] = rng.normal(0.0, n_in**-0.5, (n_out, n_in)).astype(np.float32)
        state[f"trunk.layers.{place}.bias"] = np.zeros(n_out, np.float32)
    vectors = rng.normal(0.0, 0.3, (int(offsets[-1]), 16)).astype(np.float32)
    umc = umc_predictor(state, field_sizes=[N_VALUES] * N_FIELDS, vectors=vectors)
    packed = pack_integrand(
        rng.normal(0, 0.1, 50), rng.normal(0, 0.2, (50, 50)), np.zeros(50), rng.normal(0, 0.3, 50), 0.0
    )
    turns = rng.normal(0.0, 0.6, (N_ROWS, 50))
    return {
        "wide logistic: loss and gradient": lambda: add_loss_and_gradient(
            logits, labels, weights, ids, np.arange(N_FIELDS), offsets, shifts, np.zeros_like(shifts)
        ),
        "umc, default network, from ids": lambda: umc.score(logits, ids),
        "exact integral of a 50×50 network": lambda: integrate(packed, logits, turns),
    }


def _control(wish: str) -> None:
    subprocess.run(["callgrind_control", wish, str(os.getpid())], check=True, capture_output=True)


def _count() -> None:
    loops = [lambda: None, *_loops().values()]
    for call in loops:
        call()
    for call in loops:
        _control("--instr=on")
        _control("--zero")
        call()
        _control("--dump")


if __name__ == "__main__":
    if sys.argv[1:] == ["count"]:
        _count()
    else:
        for loop in _loops().values():
            loop()
