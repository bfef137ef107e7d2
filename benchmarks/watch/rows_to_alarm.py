"""After how many rows a planted bias on one of ten thousand values is found, and how often nothing is called something.

`python benchmarks/watch/rows_to_alarm.py` prints the table. Only the planted
value's chart is simulated: the charts of the other 9,999 values and that of all rows matter through their share of
the false-alarm rate alone.
"""

from __future__ import annotations

import numpy as np

from monocal.monitoring.ledger import begun, log_growth, next_wealth, scope_share, total_log_wealth, value_shares

N_VALUES, RATE, N_RUNS, MOST_DAYS = 10_000, 0.05, 100, 400
N_NULL_RUNS = 4_000


def days_to_alarm(rate, factor, tolerance, rows_per_day, quiet_days, rng):
    """Days after the change until the alarm, run by run; NaN where there was none in time."""
    share = scope_share(1, 1, is_overall=False) * value_shares(N_VALUES, N_VALUES)[0]
    limit = -np.log(RATE * share)
    wealth, found = begun(N_RUNS, 8, 0), np.full(N_RUNS, np.nan)
    for day in range(1, quiet_days + MOST_DAYS + 1):
        after = day - quiet_days
        p = rng.uniform(0.5 * rate, 1.5 * rate, (N_RUNS, rows_per_day))
        labels = (rng.random(p.shape) < (factor if after > 0 else 1.0) * p).astype(float)
        growth = log_growth(p.ravel(), labels.ravel(), tolerance)["pcoc"].reshape(8, N_RUNS, -1).sum(axis=2).T
        wealth = next_wealth(wealth, growth, day, np.full(N_RUNS, np.inf))
        if after > 0:
            found[(total_log_wealth(wealth, day) >= limit) & np.isnan(found)] = after
        if not np.isnan(found).any():
            break
    return found


def null_share(rate, tolerance, factor, n_days, rows_per_day, rng):
    """Share of runs in which one chart ever reaches the limit of the whole rate."""
    wealth, ever = begun(N_NULL_RUNS, 8, 0), np.zeros(N_NULL_RUNS, dtype=bool)
    for day in range(1, n_days + 1):
        p = rng.uniform(0.5 * rate, 1.5 * rate, (N_NULL_RUNS, rows_per_day))
        labels = (rng.random(p.shape) < factor * p).astype(float)
        growth = log_growth(p.ravel(), labels.ravel(), tolerance)["pcoc"].reshape(8, N_NULL_RUNS, -1).sum(axis=2).T
        wealth = next_wealth(wealth, growth, day, np.full(N_NULL_RUNS, np.inf))
        ever |= total_log_wealth(wealth, day) >= -np.log(RATE)
    return float(ever.mean())


def main() -> None:
    rng = np.random.default_rng(0)
    print("# Watch: rows until a planted bias is found\n")
    print(
        f"One of {N_VALUES:,} values of one field has another rate than its forecast; the false-alarm rate over all "
        f"charts and all time is {RATE}. Median and 90 % point of {N_RUNS} runs (seed 0), counted in labelled rows of "
        "that value after the change. Forecasts are uniform between half and one and a half times the mean rate. "
        "Written by `python benchmarks/watch/rows_to_alarm.py`; it counts rows, not seconds.\n"
    )
    print("| mean rate | true / forecast | tolerance | rows a day | change after | median rows | 90 % of runs |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    cases = [(0.1, 1.2, 0.0, 500, 0), (0.1, 1.2, 0.05, 500, 0), (0.1, 1.2, 0.05, 500, 100), (0.1, 0.8, 0.05, 500, 0)]
    cases += [
        (0.1, 1.5, 0.05, 500, 0),
        (0.1, 1.2, 0.05, 5_000, 0),
        (0.02, 1.2, 0.05, 2_500, 0),
        (0.02, 1.2, 0.0, 2_500, 0),
    ]
    for rate, factor, tolerance, rows_per_day, quiet in cases:
        found = days_to_alarm(rate, factor, tolerance, rows_per_day, quiet, rng) * rows_per_day
        middle, late = (
            np.nanquantile(np.where(np.isnan(found), np.inf, found), at, method="higher") for at in (0.5, 0.9)
        )
        print(
            f"| {rate} | {factor} | {tolerance} | {rows_per_day:,} | {quiet} days | {middle:,.0f} | {late:,.0f} |",
            flush=True,
        )
    print("\n## False alarms\n")
    print(
        f"Share of {N_NULL_RUNS:,} runs of one chart of PCOC that ever reach the limit of the whole rate of {RATE}, in "
        "60 days of 50 rows at a mean rate of 0.1.\n"
    )
    print("| true / forecast | tolerance | share of runs with a false alarm |")
    print("| --- | --- | --- |")
    for factor, tolerance in ((1.0, 0.0), (1.05, 0.05), (1 / 1.05, 0.05), (1.0, 0.05)):
        print(f"| {factor:.3f} | {tolerance} | {null_share(0.1, tolerance, factor, 60, 50, rng):.4f} |", flush=True)


if __name__ == "__main__":
    main()
