"""Draws the pictures of README and guides from simulated logs: `python docs/hooks/pictures.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import monocal

IMAGES = Path(__file__).parents[1] / "images"
FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]
BLUE, GREY = "#1f6fb2", "#9aa5ad"


def two_sites() -> None:
    """The same score on two sites, before and after calibration, with the band of a perfect forecaster."""
    train = monocal.simulate_log(200_000, seed=1).table()
    test = monocal.simulate_log(400_000, seed=2).table()
    model = monocal.fit(train, method="wide_logistic", score="pctr", label="click", fields=FIELDS)
    labels, sites = test["click"].to_numpy(), np.asarray(test["site_id"])
    forecasts = {"score": test["pctr"].to_numpy(), "calibrated": model.predict(test)}
    names, counts = np.unique(sites, return_counts=True)
    large = names[np.argsort(-counts)[:12]]
    ratio = {site: forecasts["score"][sites == site].sum() / labels[sites == site].sum() for site in large}
    chosen = [max(ratio, key=ratio.__getitem__), min(ratio, key=ratio.__getitem__)]
    figure, grid = plt.subplots(1, 2, figsize=(8.4, 3.9), sharex=True, sharey=True)
    for ax, site, title in zip(grid, chosen, ("a site with few clicks", "a site with many"), strict=True):
        rows = sites == site
        for name, colour in (("score", GREY), ("calibrated", BLUE)):
            p = forecasts[name][rows]
            label = f"{name}: predicted / observed {p.sum() / labels[rows].sum():.2f}"
            monocal.CalibrationDisplay.from_predictions(labels[rows], p, name=label, ax=ax, n_bins=10, color=colour)
        ax.set_title(f"{title} ({rows.sum():,} rows)", fontsize=10)
        ax.legend(fontsize=8, loc="upper left", frameon=False)
    grid[1].set_ylabel("")
    figure.tight_layout()
    figure.savefig(IMAGES / "two_sites.png", dpi=110)


if __name__ == "__main__":
    two_sites()
