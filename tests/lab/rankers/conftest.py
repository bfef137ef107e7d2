"""Small encoded logs for rankers."""

import pytest

from monocal.lab.simulator import simulate_log


@pytest.fixture(scope="session")
def click_log():
    """Six thousand simulated impressions with one task."""
    return simulate_log(6000, seed=1).encoded()


@pytest.fixture(scope="session")
def video_log():
    """Six thousand simulated impressions with three nested tasks."""
    return simulate_log(6000, seed=1, world="multitask").encoded()
