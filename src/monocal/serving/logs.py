"""Structured logs: one JSON object per line, never a feature value."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, final

LOGGER = logging.getLogger("monocal.serving")


@final
class JsonLines(logging.Formatter):
    """Writes time, level, process and event, then the facts handed over with `log_event`.

    Of an exception only its type and place are written: its message may quote what a client sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
            "event": record.getMessage(),
        }
        line.update(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["where"] = _place(record.exc_info[2])
        return json.dumps(line, default=str)


_TO_STANDARD_ERROR = {"handlers": ["stderr"], "level": "INFO", "propagate": False}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonLines}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"monocal.serving": _TO_STANDARD_ERROR, "uvicorn.error": _TO_STANDARD_ERROR},
}
"""What the server gives to `logging.config.dictConfig` in every process."""


def log_event(event: str, /, *, level: int = logging.INFO, **facts: Any) -> None:
    """Logs an event with facts about it."""
    LOGGER.log(level, event, extra={"facts": facts})


def log_failure(event: str, error: BaseException, /, **facts: Any) -> None:
    """Logs an unexpected error by type and place."""
    LOGGER.error(event, exc_info=error, extra={"facts": facts})


def _place(traceback: Any) -> str:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return "" if traceback is None else f"{traceback.tb_frame.f_code.co_name}:{traceback.tb_lineno}"
