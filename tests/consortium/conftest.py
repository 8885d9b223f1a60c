"""What several tests of results share."""

import pytest
from results import SHORT, Studied


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Four nodes after a job of three rounds; ``ended.folder / "result"`` is what came out."""
    made = Studied(tmp_path_factory.mktemp("ended"), plan=SHORT)
    made.run()
    made.write(made.folder / "result")
    yield made
    made.close()
