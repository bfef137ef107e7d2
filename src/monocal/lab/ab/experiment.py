"""Fits every arm on a logged period, then lets all arms answer the same requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators import Calibrator, calibrator
from monocal.core.process import progress
from monocal.core.scores import Floats
from monocal.lab.ab.experiment_plan import AbPlan, Arm
from monocal.lab.ab.search_traffic import SearchStage
from monocal.lab.ab.traffic import LoggedPeriod, SimulatedStage
from monocal.models import Fusion

OUTCOMES = ("watch_seconds", "effective_views", "long_views", "clicks")
_REQUESTS_AT_ONCE = 5_000


@final
@dataclass(frozen=True)
class AbOutcome:
    """What an experiment found.

    Attributes:
        plan: What was compared.
        per_request: Arm to outcome to its mean per request.
        changes: Arm to outcome to (relative change against the reference, low, high), by bootstrap over users.
        n_users: Users that took part.
        same_list_share: Arm to the share of requests on which it showed exactly the reference's list.
    """

    plan: AbPlan
    per_request: dict[str, dict[str, float]]
    changes: dict[str, dict[str, tuple[float, float, float]]]
    n_users: int
    same_list_share: dict[str, float]

    def markdown(self) -> str:
        """Returns the table of the paper's online experiment, with intervals."""
        head = "| arm | watch time | effective views | long views | clicks | same list |\n" + "|" + " --- |" * 6
        lines = [f"# Experiment `{self.plan.name}`", "", self.plan.question, "", head]
        for arm in self.plan.arms:
            if arm.name == self.plan.reference:
                base = self.per_request[arm.name]
                cells = [f"{base[name]:.4f} per request" for name in OUTCOMES] + ["1.000"]
            else:
                cells = [_change(*self.changes[arm.name][name]) for name in OUTCOMES]
                cells.append(f"{self.same_list_share[arm.name]:.3f}")
            lines.append(f"| {arm.name} | " + " | ".join(cells) + " |")
        p = self.plan
        lines += [
            "",
            f"Changes against {p.reference}, 95 % intervals by bootstrap over {self.n_users:,} users; **bold** where "
            f"the interval excludes 0. {p.n_requests:,} requests × {p.n_candidates} candidates, {p.n_shown} shown; "
            f"{_ranker_note(p)}calibrators fitted on {p.n_calibration:,} logged impressions; world `{p.world}` drawn "
            f"with seed {p.world_seed}; fused score {dict(p.fusion)}.",
            "",
        ]
        return "\n".join(lines)


def run_experiment(plan: AbPlan) -> AbOutcome:
    """Runs an experiment; the same plan gives the same numbers."""
    stage: Any = SearchStage(plan) if plan.ranker else SimulatedStage(plan)
    fitted = {arm.name: _fit(arm, plan, stage.logged) for arm in plan.arms}
    fusion = Fusion(plan.fusion)
    users: list[NDArray[np.integer[Any]]] = []
    found: dict[str, list[dict[str, Floats]]] = {arm.name: [] for arm in plan.arms}
    same: dict[str, float] = dict.fromkeys(found, 0.0)
    with progress("answering requests", plan.n_requests, "requests") as bar:
        for number, start in enumerate(range(0, plan.n_requests, _REQUESTS_AT_ONCE)):
            n = min(_REQUESTS_AT_ONCE, plan.n_requests - start)
            requests = stage.requests(number, n)
            users.append(requests.users)
            orders = {name: _order(arm, requests, fusion, plan.n_shown) for name, arm in fitted.items()}
            for name, order in orders.items():
                found[name].append(stage.react(requests, order))
                same[name] += float(np.all(order == orders[plan.reference], axis=1).sum())
            bar.advance(n)
    by_user, n_users = _sums_by_user(np.concatenate(users), found)
    n_requests = float(plan.n_requests)
    return AbOutcome(
        plan,
        {arm: {name: float(sums[name].sum()) / n_requests for name in OUTCOMES} for arm, sums in by_user.items()},
        {
            arm: {name: _relative(by_user[plan.reference][name], sums[name], plan) for name in OUTCOMES}
            for arm, sums in by_user.items()
            if arm != plan.reference
        },
        n_users,
        {name: count / n_requests for name, count in same.items()},
    )


def _fit(arm: Arm, plan: AbPlan, log: LoggedPeriod) -> dict[str, Calibrator]:
    fitted = {}
    for task in plan.fusion:
        fresh = calibrator(arm.method, **arm.arguments)
        fitted[task] = fresh.fit(log.scores[task], log.labels[task], features=log.features, times=log.times)
    return fitted


def _order(arm: dict[str, Calibrator], requests: Any, fusion: Fusion, n_shown: int) -> NDArray[np.intp]:
    features = requests.features
    fused = fusion.fuse(
        {task: fitted.predict(requests.scores[task], features=features) for task, fitted in arm.items()}
    )
    table = fused.reshape(-1, requests.n_candidates)
    best = np.argsort(-table, axis=1, kind="stable")[:, :n_shown]
    order: NDArray[np.intp] = best + np.arange(len(table))[:, None] * requests.n_candidates
    return order


def _sums_by_user(
    users: NDArray[np.integer[Any]], found: dict[str, list[dict[str, Floats]]]
) -> tuple[dict[str, dict[str, Any]], int]:
    known, index = np.unique(users, return_inverse=True)
    return {
        arm: {name: np.bincount(index, np.concatenate([p[name] for p in parts]), len(known)) for name in OUTCOMES}
        for arm, parts in found.items()
    }, len(known)


def _relative(reference: Floats, arm: Floats, plan: AbPlan) -> tuple[float, float, float]:
    if reference.sum() == 0.0:
        return float("nan"), float("nan"), float("nan")
    random = np.random.default_rng(plan.seed)
    change = float(arm.sum() / reference.sum() - 1.0)
    replicates = np.empty(plan.n_bootstrap)
    for k in range(plan.n_bootstrap):
        times = random.poisson(1.0, len(reference)).astype(np.float64)
        replicates[k] = float(times @ arm) / max(float(times @ reference), 1e-300) - 1.0
    low, high = np.quantile(replicates, [0.025, 0.975])
    return change, float(low), float(high)


def _ranker_note(plan: AbPlan) -> str:
    return f"ranker {plan.ranker} trained on {plan.n_training:,} impressions before; " if plan.ranker else ""


def _change(change: float, low: float, high: float) -> str:
    text = f"{change:+.2%} ({low:+.2%} … {high:+.2%})"
    return f"**{text}**" if low > 0.0 or high < 0.0 else text
