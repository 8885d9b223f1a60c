"""What every test may rely on."""

import os
import signal

os.environ["MPLBACKEND"] = "Agg"  # before anything imports matplotlib: tests have no screen
# Before anything imports NumPy: the matrices of tests are small, and threads that wait for one
# another take ten times the processor's time where cores are busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import pytest
from hypothesis import settings

# `make test` tries the same examples every time: a red run is about the change, never about luck.
# `make test-deep` explores: other examples, and more of them, on every run.
settings.register_profile("pdml", deadline=None, derandomize=True, database=None)
settings.register_profile("fast", parent=settings.get_profile("pdml"), max_examples=10)
settings.register_profile("deep", deadline=None, derandomize=False, max_examples=1_000)
settings.load_profile("pdml")

# Fixtures that tests of several tiers share, in tests/support.
pytest_plugins = ("page_fixtures", "result_fixtures", "store_fixtures", "walk_fixtures")

# Ctrl-C is ignored in whatever nohup or a script's & started, and children inherit that: tests send
# it, and expect what people in front of a terminal meet. Children get the system's default back.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of the real data sets, or skip."""
    name = os.environ.get("PDML_DATA_DIR")
    if not name:
        pytest.skip(
            "needs real data: set PDML_DATA_DIR to the directory that holds adult.data.gz "
            "and raetsch/"
        )
    path = Path(name)
    if not path.is_dir():
        pytest.fail(f"PDML_DATA_DIR must name a directory, got {name!r}")
    return path
