"""A result is what it says, to the byte: whatever is changed in its folder is noticed."""

import os
import random
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from consortium import NAMES
from results import SHORT, Studied, bent, sentences, verified

import pdml
from pdml.consortium.result_folder import files_of
from pdml.errors import InvalidInput
from pdml.model.model import load_model
from pdml.node.job.job_result import assemble


@pytest.fixture
def result(ended, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(ended.folder / "result", tmp_path / "result")


def test_an_honest_result_is_accepted(ended):
    verification = verified(ended.folder / "result", study=ended.study.hash)
    assert verification.ok and not verification.problems
    assert (verification.study, verification.job, verification.servers) == (
        ended.study.hash,
        "job-1",
        NAMES,
    )
    assert verification.to_dict()["ok"]


def test_the_model_is_the_average_of_the_last_releases(ended):
    model = load_model(ended.folder / "result" / "model.json")
    mean = np.mean([ended.party(name).released for name in NAMES], axis=0)
    verification = np.column_stack([model.coefficients, model.intercepts])
    np.testing.assert_allclose(verification, mean, rtol=1e-15)


def test_certainties_are_told_in_digits_that_machines_agree_on(ended):
    """Rounded up, so that nobody is promised more."""
    model = load_model(ended.folder / "result" / "model.json")
    exact = assemble(ended.study, ended.job_terms, ended.tell()).result.ledger.rows()
    for text, line in zip(model.privacy["rows"], exact, strict=True):
        assert line.certainty <= text["certainty"] <= min(1.0, line.certainty + 1e-9)
        assert text["certainty"] == round(text["certainty"], 9)


def test_every_member_makes_the_same_bytes(ended, tmp_path):
    """Statements in any order, another time, another version of pdml, another user's locale."""
    signed = ended.tell()
    backwards = {name: signed[name] for name in reversed(NAMES)}
    files = files_of(assemble(ended.study, ended.job_terms, backwards))
    folder = ended.folder / "result"
    verification = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")
    }
    assert verification == files
    text = files["report.html"].decode() + files["model.json"].decode()
    assert not re.search(r"\b20[0-9]{2}-", text)  # no date
    for word in (pdml.__version__, sys.version.split()[0], str(ended.folder)):
        assert f" {word}" not in text and f'"{word}' not in text


def test_another_process_finds_the_same_bytes(ended, tmp_path):
    """Nothing depends on the order of sets, the time zone, the locale or what was drawn before."""
    script = (
        "import sys; from pdml.consortium.result_folder import verify_result as verify;"
        "sys.exit(len(verify(sys.argv[1]).problems))"
    )
    elsewhere = {**os.environ, "PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", script, str(ended.folder / "result")]
    subprocess.run(command, env=elsewhere, cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_a_thousand_changes_and_a_thousand_refusals(result, seed):
    """Any byte of any file: they have one spelling, so that even a space more is a change."""
    rng = random.Random(seed)
    files = sorted(path for path in result.rglob("*") if path.is_file())
    refused = 0
    while refused < 250:
        path = rng.choice(files)
        honest = path.read_bytes()
        changed = bent(honest, rng)
        if changed == honest:
            continue
        path.write_bytes(changed)
        verification = verified(result)
        assert not verification.ok, f"{path.name} was changed and nobody noticed"
        path.write_bytes(honest)
        refused += 1
    assert verified(result).ok


def test_a_file_more_or_less_is_noticed(result):
    for path in sorted(path for path in result.rglob("*") if path.is_file()):
        honest = path.read_bytes()
        path.unlink()
        assert f"{path.relative_to(result)} cannot be read" in sentences(result)
        path.mkdir()
        assert "must be an ordinary file" in sentences(result)
        path.rmdir()
        path.symlink_to("/dev/zero")
        assert "must be an ordinary file" in sentences(result)
        path.unlink()
        path.write_bytes(honest)
    (result / "statements" / "eve.statement").write_bytes(b"")
    (result / "README").write_text("All was checked.")
    text = sentences(result)
    assert "'README' is no part" in text and "'statements/eve.statement' is no part" in text


def test_an_empty_folder_of_evidence_is_refused(result):
    (result / "evidence").mkdir()
    verification = verified(result)
    assert [problem.kind for problem in verification.problems] == ["evidence"]
    assert "evidence is empty" in verification.problems[0].sentence


def test_a_linked_folder_is_refused(result, tmp_path):
    """Its files were read, and what else lay in it was not listed."""
    elsewhere = tmp_path / "elsewhere"
    (result / "statements").rename(elsewhere)
    (result / "statements").symlink_to(elsewhere)
    assert "statements must be an ordinary folder, and is a link" in sentences(result)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("study.toml", "\n[label]", "\n\n[label]"),
        ("study.toml", "min_records = 40\n", "min_records = 40 # as agreed\n"),
        ("study.toml", "rounds = 3\n", "rounds = 0x3\n"),
        ("study.toml", "menu = [1, 2]", "menu = [1.0, 2]"),
        ("model.json", '"norm_bound": 1.0', '"norm_bound": 1'),
        ("model.json", '"label": null', '"label":  null'),
        ("report.html", "</html>\n", "</html>"),
    ],
)
def test_a_change_that_means_nothing_is_refused_too(result, name, old, new):
    """Else two folders could hold one result, and a reader could not compare them."""
    text = (result / name).read_text()
    assert old in text
    (result / name).write_text(text.replace(old, new, 1))
    assert name in sentences(result)


@pytest.mark.parametrize("version", [2, 3])
def test_a_model_of_another_form_says_so(result, version):
    path = result / "model.json"
    path.write_text(path.read_text().replace("pdml-result/1", f"pdml-result/{version}"))
    text = sentences(result)
    assert f"it has version {version} of the format 'result', and pdml" in text


def test_swapped_statements_are_noticed(result):
    one, other = (result / "statements" / f"{name}.statement" for name in ("alice", "carol"))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    text = sentences(result)
    assert "the statement of alice is not signed by it" in text
    assert "the statement of carol is not signed by it" in text


def test_a_statement_of_another_job_is_noticed(result, ended, tmp_path):
    """Signed by the right key, under the same study."""
    other = Studied(ended.folder, plan=SHORT, job="job-2")
    ended.close()
    other.run()
    (result / "statements" / "bob.statement").write_bytes(other.party("bob").statement())
    other.close()
    assert "bob made a statement on another job" in sentences(result)


def test_another_study_with_other_keys_is_noticed_by_its_hash(result, tmp_path):
    """Who makes everything up does not contradict himself; the hash is what people agreed on."""
    (tmp_path / "forger").mkdir()
    forger = Studied(tmp_path / "forger", plan=SHORT)
    forger.run()
    forger.write(tmp_path / "forged")
    forger.close()
    assert verified(tmp_path / "forged").ok
    agreed = verified(result).study
    assert f"not {agreed}" in sentences(tmp_path / "forged", study=agreed)
    shutil.copy(tmp_path / "forged" / "study.toml", result / "study.toml")
    assert "is not signed by it" in sentences(result)


def test_a_study_without_keys_cannot_be_checked(result):
    path = result / "study.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "_key" not in line))
    assert "pins no key of alice" in sentences(result)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must be the folder of a result"):
        verified(tmp_path / "nothing")
    assert "study.toml cannot be read" in sentences(tmp_path)


def test_nothing_large_is_read(result):
    """Sizes are known from the study; a file of 1 TB is refused by its size alone."""
    for name in ("study.toml", "statements/bob.statement", "model.json", "report.html"):
        honest = (result / name).read_bytes()
        with open(result / name, "r+b") as file:
            file.truncate(1 << 40)
        assert "1,099,511,627,776 bytes, more than the" in sentences(result)
        (result / name).write_bytes(honest)
