"""What the service says about itself, on standard error: its own troubles, never people's reports."""

import logging


def to_stderr() -> None:
    """Warnings and errors, one line each; no access log, because addresses and times are people's."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("pdml.collect", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
