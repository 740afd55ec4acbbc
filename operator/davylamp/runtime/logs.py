"""One line for each event, on standard error."""

import contextlib
import logging
import sys
from typing import Any, TextIO

import structlog


class Lines:
    """Writes lines, and goes on where nobody takes them: a log that is gone must not stop a rollback.

    Parameters
    ----------
    file
        Where they go.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def msg(self, message: str) -> None:
        """Write one line."""
        with contextlib.suppress(OSError, ValueError):
            self._file.write(message + "\n")
            self._file.flush()

    debug = info = warning = error = critical = exception = msg


def configure_logs(log_format: str) -> None:
    """Write one line for each event to standard error, as JSON or for people."""
    renderer: Any = structlog.processors.JSONRenderer() if log_format == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: Lines(sys.stderr),
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
