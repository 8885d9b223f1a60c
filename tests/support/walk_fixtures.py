"""An empty folder for whoever walks through the documents."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from walking import Walk


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    somebody = Walk(tmp_path)
    try:
        yield somebody
    finally:
        somebody.close()
