"""What several tests of results share."""

import pytest
from results import SHORT, Studied


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Four nodes after a job of three rounds; ``ended.folder / "result"`` is what came out."""
    consortium = Studied(tmp_path_factory.mktemp("ended"), plan=SHORT)
    consortium.run()
    consortium.write(consortium.folder / "result")
    yield consortium
    consortium.close()
