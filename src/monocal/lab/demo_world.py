"""The log of the first run: a ranker that learned on one page, and the page that it scores now."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from monocal.lab.simulator import Compose, ConditionalMonotone, Field, World, simulate_log

TRAINING_SHARE = 0.6
"""The share of rows from before the page changed; those train the ranker."""

AFTER = World(
    "a page on which clicks rise around a score that depends on the device",
    fields=(
        Field("site_id", 300, effect=1.0),
        Field("ad_id", 200, effect=0.8),
        Field("country", 40, effect=0.2, source="attribute"),
        Field("hour", 24, effect=0.1, source="hour"),
        Field("position", 10, effect=0.6, shape="falling"),
        Field("device", 5, effect=0.2, source="attribute"),
    ),
    base_rate=0.15,
    distortion=ConditionalMonotone(
        fields=("device",),
        height=3.5,
        place=-1.5,
        width=1.0,
        slope=0.5,
        shift=-2.0,
        slope_spread=0.3,
        height_spread=0.3,
        place_spread=1.2,
    ),
    draws="score",
    seed=21,
)
BEFORE = replace(AFTER, summary="the page that the ranker learned on", base_rate=0.25, distortion=Compose())


def demo_log(n_rows: int, seed: int = 0) -> pa.Table:
    """Returns a click log in time order whose page changes after 60 % of its rows.

    The same users meet the same ads on the same sites throughout. Before the change a click's logit is a sum of the
    fields' effects, which a ranker can learn. After it the logit rises with that sum around a place that the
    device decides, and is flat elsewhere: a ranker trained before orders well within a device and is wrong about how
    often people click, in a way that depends on score and device together. The world was chosen to show this; how
    methods compare elsewhere is on the page of benchmarks.

    Arguments:
        n_rows: How many rows.
        seed: Draws them.

    Example:
        >>> log = demo_log(5_000)
        >>> import numpy as np
        >>> rates = [np.mean(part["click"].to_numpy()) for part in (log.slice(0, 3_000), log.slice(3_000))]
        >>> rates[0] > 1.4 * rates[1]
        np.True_
    """
    cut = round(TRAINING_SHARE * n_rows)
    before, after = (simulate_log(n_rows, seed, world).table() for world in (BEFORE, AFTER))
    return pa.concat_tables([before.slice(0, cut), after.slice(cut)])
