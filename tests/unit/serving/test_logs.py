"""Logs that machines read and that give nothing away."""

import json
import logging

import pytest

from monocal.serving.telemetry import LOGGER, JsonLines, log_event, log_failure


@pytest.fixture
def lines():
    kept = []

    class Keep(logging.Handler):
        def emit(self, record):
            kept.append(JsonLines().format(record))

    handler = Keep()
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    yield kept
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)


def test_an_event_is_one_json_object_with_its_facts(lines):
    log_event("model switched", model="ads", version="abc")
    (line,) = lines
    assert "\n" not in line
    said = json.loads(line)
    assert (said["event"], said["model"], said["version"], said["level"]) == ("model switched", "ads", "abc", "info")


def test_of_an_unexpected_error_only_type_and_place_are_logged(lines):
    def inner():
        raise KeyError("a feature value")

    try:
        inner()
    except KeyError as error:
        log_failure("request failed", error, path="/v1/calibrate")
    said = json.loads(lines[0])
    assert said["exception"] == "KeyError"
    assert said["where"].startswith("inner:")
    assert "a feature value" not in lines[0]
