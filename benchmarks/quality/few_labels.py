"""What 200, 1,000 and 5,000 labels buy for the scores of a reranker, and what a saturated sigmoid loses.

python benchmarks/quality/few_labels.py --seeds 20
"""

from __future__ import annotations

import argparse
import os
import platform

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.scores import Floats, log_loss, logit, sigmoid

LABELS = (200, 1_000, 5_000)
N_TEST = 50_000
LANGUAGES = ("en", "de", "fr", "ja", "hi", "sw")
TRAFFIC = np.array([0.45, 0.2, 0.15, 0.1, 0.06, 0.04])
SLOPE = np.array([0.45, 0.5, 0.45, 0.35, 0.3, 0.25])
SHIFT = np.array([-0.5, -0.8, -0.6, -1.4, -1.8, -2.2])
METHODS = {
    "platt": ("platt", {}, False),
    "isotonic": ("isotonic", {}, False),
    "wide_logistic, language": ("wide_logistic", {"l2": "auto"}, True),
    "per_segment platt, language": ("per_segment", {"field": 0, "method": "platt"}, True),
    "umc, language": ("umc", {"show_progress": False}, True),
}


def draw(n: int, rng: np.random.Generator) -> tuple[Floats, np.ndarray, Floats, Floats]:
    """Logits of a reranker that is too sure of itself, more so in rare languages; languages, truth, labels."""
    language = rng.choice(len(LANGUAGES), n, p=TRAFFIC)
    logits = rng.normal(1.0, 5.0, n)
    truth = sigmoid(SLOPE[language] * logits + SHIFT[language])
    return logits, language + 1, truth, (rng.random(n) < truth).astype(float)


def bf16(values: Floats) -> Floats:
    """Rounds to the nearest number with eight significant bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def measure(n_labels: int, seed: int) -> dict[str, tuple[float, float]]:
    """Method to (log-loss above the truth's, error of the level in the two rarest languages)."""
    rng = np.random.default_rng([seed, n_labels])
    z, language, _, y = draw(n_labels, rng)
    test_z, test_language, truth, test_y = draw(N_TEST, np.random.default_rng([seed, 1]))
    best = log_loss(logit(truth), test_y)
    rare = test_language >= 5

    def judged(p: Floats) -> tuple[float, float]:
        return log_loss(logit(p), test_y) - best, abs(float(np.log(p[rare].mean() / truth[rare].mean())))

    found = {"sigmoid of the logit": judged(sigmoid(test_z))}
    for name, (method, arguments, uses) in METHODS.items():
        features = language[:, None] if uses else None
        fitted = calibrator(method, **arguments).fit(z, y, features=features, scores_are="logit")
        found[name] = judged(fitted.predict(test_z, features=test_language[:, None] if uses else None))
    narrow, test_narrow = (np.clip(bf16(sigmoid(logits)), 1e-7, 1.0) for logits in (z, test_z))
    fitted = calibrator("wide_logistic", l2="auto").fit(narrow, y, features=language[:, None])
    found["wide_logistic, language, on a bf16 sigmoid"] = judged(
        fitted.predict(test_narrow, features=test_language[:, None])
    )
    return found


def interval(values: list[float], scale: float) -> str:
    mean = np.mean(values) * scale
    half = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values)) * scale
    return f"{mean:.2f} ± {half:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    rows: dict[str, list[str]] = {}
    rare: dict[str, list[str]] = {}
    for n in LABELS:
        runs = [measure(n, seed) for seed in range(seeds)]
        for name in runs[0]:
            rows.setdefault(name, []).append(interval([run[name][0] for run in runs], 1e3))
            rare.setdefault(name, []).append(interval([run[name][1] for run in runs], 100.0))
    z, _, _, _ = draw(N_TEST, np.random.default_rng(0))
    top = np.sort(z)[-N_TEST // 4 :]
    head = f"| calibrated by | {' | '.join(f'{n:,} labels' for n in LABELS)} |\n| --- | {'--- | ' * len(LABELS)}"

    def table(found: dict[str, list[str]]) -> str:
        return "\n".join([head.rstrip(), *(f"| {name} | {' | '.join(cells)} |" for name, cells in found.items())])

    lost = bf16(sigmoid(top))
    text = f"""# What labels buy for the scores of a reranker

Simulated logits of a reranker in six languages ({", ".join(LANGUAGES)}), whose slope and level depend on the language;
{N_TEST:,} rows judge, {seeds} seeds draw labels and judging rows anew. Mean ± 1.96 standard errors over seeds.
Command: `python benchmarks/quality/few_labels.py --seeds {seeds}`, {platform.machine()}, load
{os.getloadavg()[0]:.0f}; the numbers do not depend on the load.

## Log-loss above that of the true probabilities, in thousandths

{table(rows)}

## How far the mean is off in the two rarest languages (10 % of the rows), in percent

{table(rare)}

## What a saturated sigmoid loses

Of the quarter of the rows with the largest logits, {np.mean(lost == 1.0):.0%} have a bf16 sigmoid of exactly 1;
{len(np.unique(lost)):,} different values are left of {len(np.unique(top)):,}. Their order is gone, and no calibrator
brings it back.
"""
    print(text)


if __name__ == "__main__":
    main()
