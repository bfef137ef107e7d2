"""A model of several tasks with a network goes on with newer rows."""

import numpy as np
import pyarrow as pa

import monocal


def test_several_tasks_and_a_network():
    log = monocal.simulate_log(40_000, seed=4).table()
    two = log.append_column("second", pa.array((np.arange(40_000) * 7 % 11 == 0).astype(int)))
    tasks = {"click": ("click", "pctr"), "second": ("second", "pctr")}
    model = monocal.fit(
        two.slice(0, 12_000), method="umc", tasks=tasks, fields=["site_id"], time="timestamp", n_epochs=1, size="small"
    )
    following = model.refresh(two.slice(20_000, 8_000))
    entry = following.info["history"][-1]["tasks"]
    assert set(entry) == {"click", "second"}
    assert set(entry["second"]) & {"network", "slope"}
    answers = following.predict(two.slice(28_000))
    for task in tasks:
        assert np.all((answers[task] > 0.0) & (answers[task] < 1.0))
        assert not np.array_equal(answers[task], model.predict(two.slice(28_000), task))
