"""What every test may rely on."""

import os

os.environ["MPLBACKEND"] = "Agg"  # before anything imports matplotlib: tests have no screen

from pathlib import Path

import pytest
from hypothesis import settings

# In CI the examples are the same every time, so that a red run is about the change and can be
# repeated.
settings.register_profile("pdml", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.register_profile("fast", parent=settings.get_profile("pdml"), max_examples=10)
settings.load_profile("pdml")


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
