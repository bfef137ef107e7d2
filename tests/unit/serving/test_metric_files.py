"""Files that workers map: nothing in them that a full disk could take away."""

import errno
import os

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, values
from prometheus_client.multiprocess import MultiProcessCollector

from monocal.serving.runtime import metric_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(metric_files.METRICS_FOLDER_VARIABLE, str(tmp_path / "metrics"))
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    return tmp_path / "metrics"


def told(folder):
    found = MultiProcessCollector(None, str(folder)).collect()
    return {(sample.name, *sample.labels.values()): sample.value for metric in found for sample in metric.samples}


def metrics():
    registry = CollectorRegistry()
    counter = Counter("answers", "Answers.", ["to"], registry=registry)
    return counter, Gauge("waiting", "Waiting.", multiprocess_mode="livesum", registry=registry)


def test_every_byte_is_allocated(folder):
    metric_files.allocate(folder, 2, 100_000)
    facts = [path.stat() for path in folder.iterdir()]
    assert len(facts) == 6
    assert all(fact.st_size == 100_000 <= fact.st_blocks * 512 for fact in facts)


def test_without_room_for_all_there_is_none(folder, monkeypatch):
    allocate, n_calls = os.posix_fallocate, []

    def full_after_three(*arguments):
        n_calls.append(arguments)
        if len(n_calls) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(*arguments)

    monkeypatch.setattr(os, "posix_fallocate", full_after_three)
    with pytest.raises(OSError, match="No space left"):
        metric_files.allocate(folder, 2, 1000)
    assert not folder.exists()


def test_a_successor_goes_on_with_counters_and_without_gauges(folder):
    metric_files.allocate(folder, 2, 10_000)
    for slot, count in ((0, 3), (1, 4)):
        metric_files.use_files_of(slot)
        counter, gauge = metrics()
        counter.labels("a").inc(count)
        gauge.set(count)
    assert told(folder) == {("answers_total", "a"): 7.0, ("waiting",): 7.0}
    metric_files.forget_gauges(folder, 0)
    assert told(folder) == {("answers_total", "a"): 7.0, ("waiting",): 4.0}
    metric_files.use_files_of(0)
    counter, gauge = metrics()
    counter.labels("a").inc(1)
    gauge.set(2)
    assert told(folder) == {("answers_total", "a"): 8.0, ("waiting",): 6.0}
    assert len(list(folder.iterdir())) == 6


def test_what_would_not_fit_is_left_out_and_logged_and_no_file_grows(folder, caplog):
    metric_files.allocate(folder, 1, 1000)
    metric_files.use_files_of(0)
    counter, _ = metrics()
    with caplog.at_level("ERROR", "monocal.serving"):
        for place in range(50):
            counter.labels(f"somebody {place}").inc()
    assert 2 <= len(told(folder)) < 20
    assert {path.stat().st_size for path in folder.iterdir()} == {1000}
    assert "metric left out" in caplog.text
