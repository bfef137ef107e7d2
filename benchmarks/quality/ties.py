r"""Is a tie an equality, or a difference that one judgement is too noisy for? The same two fits, judged many times.

UMC's default minus UMC without carry-over, in log-loss: on many draws of a simulated world, or on windows of a
real log that a study has ranked. A window's calibration rows end where its judged rows begin, and no row is judged
twice, so the mean over windows has more evidence than the study's one judgement.

    python benchmarks/quality/ties.py world conditional --rows 200000 --draws 12
    python benchmarks/quality/ties.py log persistence runs "promotions, 4,000,000 rows" --rows 1000000 \
        --begins 35 39 43 47 --group store_id --seeds 0 1
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import t as student_t

from monocal.core.scores import log_losses, logit
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.cells import fit_and_predict
from monocal.lab.studies.prepared_logs import prepare
from monocal.lab.studies.rivals_table import half_width
from monocal.lab.studies.study import DataSpec, load_study
from monocal.lab.studies.study_data import CalibrationRows, PreparedData, TestRows

ARMS = {"without carry-over": {"carry": "none"}, "default": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    world = kinds.add_parser("world")
    world.add_argument("world")
    world.add_argument("--draws", type=int, default=12)
    world.add_argument("--first", type=int, default=101, help="seed of the first draw")
    world.set_defaults(work=_draws)
    log = kinds.add_parser("log")
    log.add_argument("study")
    log.add_argument("runs", type=Path)
    log.add_argument("data")
    log.add_argument("--data-dir", type=Path)
    log.add_argument("--group", help="a field whose values' rows depend on each other")
    log.add_argument("--begins", type=int, nargs="+", help="times at which judged rows begin", required=True)
    log.add_argument("--ends", type=int, help="the time at which the last window ends")
    log.set_defaults(work=_windows)
    for kind in (world, log):
        kind.add_argument("--rows", type=int, required=True, help="calibration rows of a fit")
        kind.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    print("| judged on | rows | without carry-over | default | default − without carry-over |\n|" + " --- |" * 5)
    gaps, places = [], []
    for name, rows, test, labels, groups in given.work(given):
        losses = {arm: np.zeros(len(labels)) for arm in ARMS}
        for arm, arguments in ARMS.items():
            for seed in given.seeds:
                answers, _ = fit_and_predict("umc", arguments, rows, test, seed)
                losses[arm] += log_losses(logit(answers), labels) / len(given.seeds)
        gap = losses["default"] - losses["without carry-over"]
        means = " | ".join(f"{losses[arm].mean():.6f}" for arm in ARMS)
        print(f"| {name} | {len(labels):,} | {means} | {gap.mean():+.6f} ± {half_width(gap, groups):.6f} |", flush=True)
        gaps.append(gap)
        places.append(groups)
    print(_together(gaps, places))


def _together(gaps: list, places: list) -> str:
    means = np.array([gap.mean() for gap in gaps])
    scatter = student_t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5
    counted = f"better in {int((means < 0).sum())} of {len(means)}"
    text = f"\nMean {means.mean():+.6f} ± {scatter:.6f} by the scatter between them, {counted}."
    if places[0] is not None:
        rows = np.concatenate(gaps)
        text += f" All judged rows together: {rows.mean():+.6f} ± {half_width(rows, np.concatenate(places)):.6f}."
    return text


def _draws(given: argparse.Namespace) -> Iterator[tuple]:
    for seed in range(given.first, given.first + given.draws):
        with tempfile.TemporaryDirectory() as cache:
            spec = DataSpec(f"draw {seed}", world=given.world, world_seed=seed, n_calibration=given.rows)
            data = prepare(spec, Path(cache), None)
            labels = np.asarray(data.truth().labels, dtype=np.float64)
            yield spec.name, data.calibration(), data.test(), labels, None


def _windows(given: argparse.Namespace) -> Iterator[tuple]:
    study = load_study(given.study).only([given.data], [])
    cells, _ = list_cells(study, given.runs, RunOptions(data_folder=given.data_dir))
    data = PreparedData(cells[0].data_folder)
    first, test, truth = data.calibration(), data.test(), data.truth()
    logits = np.concatenate([first.logits, test.logits])
    labels = np.concatenate([first.labels, truth.labels])
    features = np.concatenate([first.features, test.features])
    times = np.concatenate([first.times, truth.times])
    ends = [*given.begins[1:], given.ends if given.ends is not None else int(times.max()) + 1]
    for begin, end in zip(given.begins, ends, strict=True):
        cut, stop = np.searchsorted(times, [begin, end])
        old, new = slice(max(cut - given.rows, 0), cut), slice(cut, stop)
        groups = features[new, data.field_names.index(given.group)] if given.group else None
        yield (
            f"{begin} to {end - 1}",
            CalibrationRows(logits[old], labels[old], features[old], times[old], None),
            TestRows(logits[new], features[new]),
            labels[new].astype(np.float64),
            groups,
        )


if __name__ == "__main__":
    main()
