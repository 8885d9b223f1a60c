"""Members that run different pdmls: they train together, or end with a sentence that says who is
newer and what is needed; a member is updated in the middle of a job.

The other pdml is a copy of this package with a version raised, or an older commit of this
repository.
"""

import io
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nats")

from federation import PLAN, Ended, Federation, study_of

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "pdml"
ROUNDS = 60
WIRE = {
    "training message": "node/protocol/wire_messages.py",
    "sealed message": "node/crypto/hpke.py",
    "offer": "node/protocol/requests.py",
    "statement": "node/protocol/signed_statement.py",
}


def package(folder, file="_version.py", old='__version__ = "', new='__version__ = "1'):
    """A folder with a copy of this package in which one text is another."""
    shutil.copytree(PACKAGE, folder / "pdml", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "pdml" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return folder


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """Another release that speaks as this one does."""
    return package(tmp_path_factory.mktemp("later"))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    plan = replace(PLAN, rounds=ROUNDS)
    with Federation(tmp_path_factory.mktemp("nodes"), study_of(plan=plan)) as made:
        made.start()
        yield made


def switch(federation, name, source=None):
    """Stop a member, and start it again with another pdml, or with this one."""
    federation.kill(name)
    federation.packages.pop(name, None)
    if source:
        federation.packages[name] = source
    federation.start(name, timeout=60)


def outcome(federation, attempt, job, by=None):
    """The sentence with which the job ended; "" if every member has the local engine's numbers."""
    try:
        federation.finish(attempt, by=by, timeout=120)
    except Ended as error:
        return str(error)
    for name in federation.names:
        federation.wait(lambda name=name: federation.finished(job, name), 60)
        np.testing.assert_array_equal(federation.released(job, name), federation.expected())
    return ""


def test_a_later_release_with_the_same_wire_trains_with_this_one(federation, later):
    switch(federation, "carol", later)
    assert outcome(federation, federation.offer("together"), "together") == ""
    switch(federation, "carol")


def test_a_member_is_updated_in_the_middle_of_a_job(federation, later):
    """One after the other, the offerer too: the journal of one pdml goes on with the next."""
    attempt = federation.offer("updated", start_timeout=60, round_timeout=60)
    for name in ("carol", "alice"):
        federation.wait(lambda name=name: federation.round("updated", name) > 0)
        switch(federation, name, later)
    assert outcome(federation, attempt, "updated") == ""
    for name in ("carol", "alice"):
        switch(federation, name)


@pytest.mark.parametrize("format", WIRE)
def test_what_the_next_version_says_is_refused_by_a_sentence(federation, format, tmp_path):
    """It reads this one's words, and this one cannot read its. Then either all are updated, or
    carol goes back: the job ends well."""
    line = f'FORMAT = Format(name="{format}", version='
    following = package(tmp_path, WIRE[format], f"{line}1)", f"{line}2, oldest=1)")
    switch(federation, "carol", following)
    job, by = format.replace(" ", "-"), "carol" if format == "offer" else "alice"
    sentence = outcome(federation, federation.offer(job, by=by), job, by)
    if format == "sealed message":  # what cannot be opened may be from anybody: the log has it
        assert "carol: it does not answer" in sentence
        sentence = federation.log("alice").read_text()
    assert f"has version 2 of the format '{format}'" in sentence
    assert re.search(r"and pdml [0-9.]+ reads 1: a pdml newer than [0-9.]+ is needed", sentence)
    if format != "statement":
        switch(federation, "carol")
        assert outcome(federation, federation.offer(job, resume=True), job) == ""
        return
    for name in ("alice", "bob"):  # carol has signed, and does so only once
        switch(federation, name, following)
    federation.finish(federation.offer(job, resume=True), timeout=120)
    federation.all_finished(job)
    for name in federation.names:
        switch(federation, name)


def older_package(folder):
    """The pdml before the last change of what nodes say to each other, from the repository."""
    git = ["git", "-C", str(ROOT)]
    try:
        paths = [f"src/pdml/{Path(file).parent}" for file in WIRE.values()]
        log = [*git, "log", "-1", "--format=%H", "--", *sorted(set(paths))]
        last = subprocess.run(log, capture_output=True, text=True, check=True).stdout.strip()
        archive = [*git, "archive", f"{last}~1", "src/pdml"]
        data = subprocess.run(archive, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs this project's git history, with the commit before the last change")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def test_the_commit_before_trains_with_this_one_or_is_refused_by_a_sentence(federation, tmp_path):
    """Nothing before the first release is promised, but a sentence is."""
    switch(federation, "carol", older_package(tmp_path))
    sentence = outcome(federation, federation.offer("older"), "older")
    assert "Traceback" not in federation.log("carol").read_text()
    assert sentence == "" or re.search(r"pdml|plan|terms|study", sentence), sentence
    switch(federation, "carol")
