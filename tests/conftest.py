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


# Whole ways of users, and whatever else takes ten seconds of a processor: `make test-rest` runs
# them, and CI. Measured with `pytest -p processor_time`; docs/evaluation/tests.md.
HEAVY = (
    "browser/test_planning_in_browser.py",
    "browser/test_study_to_model.py",
    "integration/collector/test_guard.py",
    "integration/collector/test_kills.py",
    "integration/collector/test_withdrawal.py",
    "integration/consortium/test_second_verifier.py",
    "integration/deploy/test_three_machines.py",
    "integration/node/test_accepting.py",
    "integration/node/test_daemon.py",
    "integration/node/test_journal_lock.py",
    "integration/node/test_two_versions.py",
    "integration/project/test_examples.py",
    "integration/project/test_extras.py",
    "integration/project/test_ownership.py",
    "integration/project/test_package.py",
    "integration/project/test_public_examples.py",
    "integration/simulation/test_privacy_session.py",
    "integration/training/test_ray_engine.py",
    "integration/ways/",
    "simulation/test_schedules.py::test_no_schedule_breaks_an_invariant[1",  # 11 groups of 20
    "unit/accounting/test_histories.py",
    "unit/node/test_budget_histories.py",
    "unit/planning/test_people_needed.py",
    "unit/research/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(here).as_posix()
        if f"{name}::{item.name}".startswith(HEAVY):
            item.add_marker("heavy")


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
