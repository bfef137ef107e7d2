"""How fast UMC trains and scores here, against the paper's formula taken literally.

python benchmarks/speed/umc_speed.py                # about five minutes, needs 6 GB of memory
python benchmarks/speed/umc_speed.py --rounds 1     # a quick look

336 inputs (21 fields × 16), batches of 16384, integrand 50×50, rescaling 200×200. Everything runs on one thread of
one process, the variants take turns, and the figure is the smallest CPU time of each: on a shared machine only ratios
count.
Peak memory and the vectorisation canary run in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import torch
from paper_formula import PaperUmc, bce

from monocal.compiled.predict import FoldedPredictor, umc_predictor
from monocal.lab.exact_concat.integral import integrate, pack_integrand
from monocal.lab.exact_concat.predictor import concat_predictor
from monocal.lab.exact_concat.torch_map import ConcatMap
from monocal.neural.context import ContextEncoder
from monocal.neural.maps import umc, umc_parts
from monocal.neural.network import MonotoneMap

SIZES = (7, 7, 4737, 7745, 26, 8552, 559, 36, 10_000, 10_000, 8251, 5, 4, 2626, 8, 9, 435, 4, 68, 172, 60)
BATCH = 16_384
KNOTS = np.linspace(-6.0, 2.0, 16)
CANARY_AT_LEAST = 1.5


class Bench:
    """One batch and the models that compete on it, all with the same weights."""

    def __init__(self, *, with_predictors: bool = True) -> None:
        rng = np.random.default_rng(0)
        self.ids = np.stack([np.minimum(rng.zipf(1.3, BATCH), size) - 1 for size in SIZES], axis=1).astype(np.int32)
        self.logits = rng.normal(-2.0, 1.5, BATCH)
        self.tensor_ids, self.tensor_logits = torch.as_tensor(self.ids), torch.as_tensor(self.logits).float()
        self.labels = torch.as_tensor(rng.random(BATCH) < 0.17).float()
        table = torch.as_tensor(rng.normal(0.0, 0.3, (sum(SIZES), 16))).float()
        self.encoder = ContextEncoder(SIZES, np.arange(sum(SIZES)), table, trained=False)
        self.umc = ConcatMap(self.encoder.width, identity_start=False)
        self.knots = MonotoneMap(
            umc_parts(self.encoder.width, KNOTS, (256, 128, 128), identity_start=False),
            umc,
            context_width=self.encoder.width,
        )
        self.factored = ConcatMap(self.encoder.width, integral="clenshaw_curtis", identity_start=False)
        self.papers = {
            name: paper_of(self.umc, self.encoder.width, published=name == "published")
            for name in ("published", "autograd")
        }
        self.optimisers: dict[int, torch.optim.Adam] = {}
        if not with_predictors:
            return
        self.predictors = {
            "concat": predictor_of(self.umc, self.encoder),
            "knots": predictor_of(self.knots, self.encoder),
        }

    def step(self, model: torch.nn.Module, *, fields: bool) -> None:
        """One training step: context, forward, loss, backward, Adam."""
        optimiser = self.optimisers.setdefault(id(model), torch.optim.Adam(model.parameters(), lr=0.0))
        optimiser.zero_grad()
        context = self.encoder(self.tensor_ids) if fields else self.joined(BATCH)
        bce(model(self.tensor_logits, context), self.labels).backward()
        optimiser.step()

    @torch.no_grad()
    def score_paper(self, n_rows: int, form: str = "published") -> torch.Tensor:
        return self.papers[form](self.tensor_logits[:n_rows], self.joined(n_rows))

    def joined(self, n_rows: int) -> torch.Tensor:
        """Returns the context of the first rows as joined vectors, as a plain network takes it."""
        context = self.encoder(self.tensor_ids[:n_rows])
        return context if isinstance(context, torch.Tensor) else context.joined()

    def check(self) -> float:
        """Returns the largest difference in logits between the formula at 51 nodes and the folded exact path."""
        difference = self.score_paper(2000).double().numpy() - self.predictors["concat"].score(
            self.logits[:2000], self.ids[:2000]
        )
        return float(np.abs(difference).max())


def predictor_of(network: MonotoneMap, encoder: ContextEncoder) -> FoldedPredictor:
    """Returns the compiled predictor with the weights of our map."""
    make = concat_predictor if isinstance(network, ConcatMap) else umc_predictor
    return make(network.arrays(), field_sizes=SIZES, vectors=encoder.table.numpy())


def paper_of(umc: ConcatMap, width: int, *, published: bool) -> PaperUmc:
    """Returns the yardstick with the weights of our map."""
    paper = PaperUmc(width, published=published)
    curve = umc.integrand
    with torch.no_grad():
        first, _, second, _, third, _ = paper.integrand
        first.weight.copy_(torch.cat([curve.slopes[:, None], umc.offsets.weight], dim=1))
        first.bias.copy_(umc.offsets.bias)
        for target, source in ((second, curve.second), (third, curve.third)):
            target.load_state_dict(source.state_dict())
        for target, source in zip(paper.rescaler[0::2], umc.rescaler.layers, strict=True):
            target.load_state_dict(source.state_dict())
    return paper


def best_of(variants: dict[str, tuple[Callable[[], object], int, int]], rounds: int) -> dict[str, float]:
    """Returns the smallest CPU seconds of every variant: (what to call, calls a measurement, measurements a round)."""
    for call, _, _ in variants.values():
        call()
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for name, (call, calls, measurements) in variants.items():
            for _ in range(measurements):
                started = time.process_time()
                for _ in range(calls):
                    call()
                best[name] = min(best[name], (time.process_time() - started) / calls)
    return best


def training(bench: Bench, rounds: int) -> dict[str, float]:
    return best_of(
        {
            "published": (lambda: bench.step(bench.papers["published"], fields=False), 1, 1),
            "autograd": (lambda: bench.step(bench.papers["autograd"], fields=False), 1, 1),
            "factored": (lambda: bench.step(bench.factored, fields=False), 1, 2),
            "joined": (lambda: bench.step(bench.umc, fields=False), 1, 5),
            "fields": (lambda: bench.step(bench.umc, fields=True), 1, 5),
            "knots": (lambda: bench.step(bench.knots, fields=True), 1, 5),
        },
        rounds,
    )


def scoring(bench: Bench, rounds: int) -> dict[int, dict[str, float]]:
    results = {}
    for n_rows, calls, more in ((BATCH, 1, 1), (100, 20, 10), (1, 500, 10)):
        logits, ids = bench.logits[:n_rows].copy(), bench.ids[:n_rows].copy()

        def of(name: str, rows: np.ndarray = ids, logits: np.ndarray = logits) -> Callable[[], object]:
            predictor = bench.predictors[name]
            return lambda: predictor.score(logits, rows)

        results[n_rows] = best_of(
            {
                "paper": (lambda n_rows=n_rows: bench.score_paper(n_rows), max(calls // 20, 1), 1),
                "once": (lambda n_rows=n_rows: bench.score_paper(n_rows, "autograd"), max(calls // 20, 1), 1),
                "concat": (of("concat"), calls, 3),
                "knots": (of("knots"), calls, 3),
            },
            more * rounds,
        )
    return results


def peak_bytes(name: str) -> int:
    """Returns how far two training steps raise the peak of resident memory above what was resident before."""
    bench = Bench(with_predictors=False)
    model = bench.umc if name == "fields" else bench.papers[name]
    if name == "fields":
        ConcatMap(4)(torch.zeros(2048), torch.zeros(2048, 4)).sum().backward()  # loads the compiled loops
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = status_bytes("VmRSS")
    for _ in range(2):
        bench.step(model, fields=name == "fields")
    return status_bytes("VmHWM") - before


def status_bytes(entry: str) -> int:
    """Reads an entry of the process's memory status (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(entry))


def kernel_ns() -> float:
    """Returns the kernel's CPU nanoseconds per row on 50×50."""
    rng = np.random.default_rng(0)
    packed = pack_integrand(
        rng.normal(0, 0.1, 50), rng.normal(0, 0.2, (50, 50)), np.zeros(50), rng.normal(0, 0.3, 50), 0.0
    )
    limits, offsets = rng.normal(-2.0, 1.5, 4096), rng.normal(0.0, 0.6, (4096, 50))
    return best_of({"kernel": (lambda: integrate(packed, limits, offsets), 1, 1)}, 40)["kernel"] / 4096 * 1e9


def in_a_process(step: str, **environment: str) -> float:
    """Runs one measurement alone, so that neither memory nor compiled code of others is in it."""
    result = subprocess.run(
        [sys.executable, __file__, "--step", step],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(result.stdout))


def canary() -> tuple[float, float]:
    """Returns nanoseconds per row of the kernel as it is, and compiled without vectorisation."""
    with tempfile.TemporaryDirectory() as folder:
        plain = in_a_process("kernel", NUMBA_CACHE_DIR=folder, NUMBA_LOOP_VECTORIZE="0", NUMBA_SLP_VECTORIZE="0")
    return in_a_process("kernel"), plain


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def report(bench: Bench, rounds: int) -> tuple[list[str], bool]:
    difference = bench.check()
    train, scores = training(bench, rounds), scoring(bench, rounds)
    memory = {name: in_a_process(f"memory-{name}") for name in ("published", "autograd", "fields")}
    vectorised, scalar = canary()
    single, hundred, many = scores[1], scores[100], scores[BATCH]
    train_ratio = train["published"] / train["fields"]
    memory_ratio = memory["published"] / memory["fields"]
    targets = [
        ("training step", f"{train_ratio:.0f}×", "50×", train_ratio >= 50),
        ("scoring 16384 rows", f"{many['paper'] / many['concat']:.0f}×", "35×", many["paper"] >= 35 * many["concat"]),
        (
            "scoring 1 row",
            f"{single['paper'] / single['concat']:.0f}×, {single['concat'] * 1e6:.1f} µs",
            "75×, ≤ 20 µs",
            single["paper"] >= 75 * single["concat"] and single["concat"] <= 20e-6,
        ),
        (
            "scoring 100 rows",
            f"{hundred['paper'] / hundred['concat']:.0f}×",
            "20×",
            hundred["paper"] >= 20 * hundred["concat"],
        ),
        ("peak memory of a training step", f"1/{memory_ratio:.0f}", "1/10", memory_ratio >= 10),
        (
            "vectorisation canary",
            f"{scalar / vectorised:.1f}×",
            f"{CANARY_AT_LEAST}×",
            scalar >= CANARY_AT_LEAST * vectorised,
        ),
    ]

    def row(label: str, seconds: float, of: float, scale: float = 1e3) -> str:
        return f"| {label} | {seconds * scale:,.1f} | {of / seconds:,.1f}× |"

    def scored(label: str, name: str) -> str:
        cells = [
            f"{scores[n][name] * 1e6:,.1f} ({scores[n]['paper'] / scores[n][name]:,.0f}×)" for n in (1, 100, BATCH)
        ]
        return f"| {label} | " + " | ".join(cells) + " |"

    lines = [
        "# Speed of UMC",
        "",
        f"`python benchmarks/speed/umc_speed.py --rounds {rounds}`",
        "",
        f"{len(SIZES)} fields × 16 = {bench.encoder.width} inputs, {sum(SIZES):,} values, batches of {BATCH:,}, "
        "integrand 50×50, rescaling 200×200. One thread, smallest CPU time of interleaved runs in one process; only "
        f"ratios are worth anything. Machine: {os.cpu_count()} cores ({platform.machine()}, AVX2), shared with other "
        f"work (load average {os.getloadavg()[0]:.1f} at the end). torch {torch.__version__}, numba "
        f"{numba.__version__}, numpy {np.__version__}.",
        "",
        "The yardstick is the paper's formula taken literally (`benchmarks/speed/paper_formula.py`): 51 full "
        "evaluations of the integrand network on the joined input per row. With the same weights its logits and ours "
        f"differ by at most {difference:.1e}, which is the error of its 51 nodes. Targets are ratios to its published "
        "form; the tables also show it as lean as plain autograd makes it.",
        "",
        "## Targets",
        "",
        "| | measured | at least | |",
        "| --- | --- | --- | --- |",
        *(f"| {label} | **{found}** | {wanted} | {_verdict(met)} |" for label, found, wanted, met in targets),
        "",
        "## A training step",
        "",
        "| | CPU ms | ratio to the published form |",
        "| --- | --- | --- |",
        row("the formula, published form: backward evaluates the nodes again", train["published"], train["published"]),
        row("the formula, plain autograd: keeps the activations of all nodes", train["autograd"], train["published"]),
        row("51 nodes in torch, first layer factored", train["factored"], train["published"]),
        row("exact integral, joined vectors", train["joined"], train["published"]),
        row("**exact integral, fields**", train["fields"], train["published"]),
        row("integrand at 16 knots, trunk 256-128-128, fields", train["knots"], train["published"]),
        "",
        "Against plain autograd, the faster of the two yardsticks, the exact integral on fields is "
        f"{train['autograd'] / train['fields']:.0f}× faster. Peak memory above what was resident before: published "
        f"form {memory['published'] / 2**20:,.0f} MiB, plain autograd {memory['autograd'] / 2**20:,.0f} MiB, ours "
        f"{memory['fields'] / 2**20:,.0f} MiB.",
        "",
        "## Scoring",
        "",
        "CPU µs per call (ratio to the published form). Ours start from int32 ids and end at calibrated logits; the "
        "formula starts from the same ids and gathers its inputs.",
        "",
        "| | 1 row | 100 rows | 16384 rows |",
        "| --- | --- | --- | --- |",
        scored("the formula, published form: rescaling network once for its factor, once for its shift", "paper"),
        scored("the formula, rescaling network once", "once"),
        scored("**folded tables, exact integral**", "concat"),
        scored("folded tables, integrand at 16 knots, trunk 256-128-128", "knots"),
        "",
        f"The folded tables take {bench.predictors['concat'].net.n_bytes / 2**20:,.0f} MiB.",
        "",
        "## Vectorisation canary",
        "",
        f"The kernel relies on the compiler to vectorise its loops: {vectorised:,.0f} ns per row as it is, "
        f"{scalar:,.0f} ns compiled without vectorisation. If the two ever come close, a change has broken it.",
        "",
    ]
    return lines, all(met for *_, met in targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the slow variants")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.step:
        step = arguments.step
        print(json.dumps(kernel_ns() if step == "kernel" else peak_bytes(step.removeprefix("memory-"))))
        return
    lines, all_met = report(Bench(), arguments.rounds)
    print("\n".join(lines))
    sys.exit(0 if all_met else 1)


if __name__ == "__main__":
    main()
