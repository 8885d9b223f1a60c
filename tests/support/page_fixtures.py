"""What tests of the contributor's side share: a study, its page and a recording server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from form_study import FORM
from recording import Recorder

from pdml.device.page import ContributorPage, render
from pdml.study import Study
from pdml.study.schema import template


@pytest.fixture(scope="session")
def study() -> Study:
    return FORM


@pytest.fixture
def study_file(tmp_path: Path, study: Study) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(template.render(study), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def page(study: Study) -> ContributorPage:
    return render(study)


@pytest.fixture
def recorder(page: ContributorPage, study: Study) -> Iterator[Recorder]:
    with Recorder(page, study.canonical()) as running:
        yield running
