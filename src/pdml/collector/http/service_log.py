"""What the service says about itself, on standard error: its own troubles, never people's
reports.
"""

import logging


class _Lines(logging.Formatter):
    """One line each: what raised an error, and where, may quote what somebody sent."""

    def formatException(self, ei: object) -> str:
        return ""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).rstrip().replace("\n", " ")


def to_stderr() -> None:
    """Warnings and errors; no access log, because addresses and times are people's.

    Of uvicorn errors alone: it warns of every request that is none, and anybody can send as many as
    they like.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (
        ("pdml.collector", logging.WARNING),
        ("uvicorn", logging.ERROR),
        ("asyncio", logging.CRITICAL),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level)
