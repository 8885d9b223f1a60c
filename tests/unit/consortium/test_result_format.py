"""docs/reference/result-format.md: its tables name what the code has, and its blocks of Python, a
verifier that imports nothing of the package, judge stored results as `verify_result` does.
"""

import dataclasses
import inspect
import json
import random
import shutil
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import result_page
from bad_vectors import spoilt
from results import bent, sentences, verified
from test_bad_vectors import cases

from pdml.accounting import events
from pdml.accounting.budget import MOST_ROUNDS
from pdml.consortium import result_folder
from pdml.model.model import Model
from pdml.node.job.job_result import KINDS
from pdml.node.protocol import signed_statement
from pdml.node.protocol.equivocation import Evidence
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import EarlierJob, NeighbourReleases, Statement
from pdml.node.protocol.wire_messages import SignedDigest
from pdml.planning.server_spec import RowSpec
from pdml.planning.training_plan import OF_ROUNDS, TrainingPlan
from pdml.study import Study
from pdml.study.schema import study_file
from pdml.study.schema.toml_lines import MOST_BYTES
from pdml.training import sums_fit

RESULTS = Path(__file__).parents[2] / "vectors" / "results"
PAGE = result_page.NAMES


def names(kind):
    return [field.name for field in dataclasses.fields(kind)]


@pytest.mark.parametrize("record", [Statement, NeighbourReleases, EarlierJob, Evidence])
def test_the_fields_of_a_record_are_those_of_the_page(record):
    assert result_page.cells(f"`{record.__name__}`:") == list(record.__struct_fields__)
    if record is not Evidence:
        assert PAGE["FIELDS"][record.__name__].split() == list(record.__struct_fields__)


def test_a_signed_digest_is_told_apart_by_its_type():
    fields = ["type", *SignedDigest.__struct_fields__]
    assert result_page.cells("`SignedDigest`:") == fields == PAGE["DIGEST"]


@pytest.mark.parametrize("record", [Statement, NeighbourReleases, EarlierJob])
def test_the_longest_lists_are_those_of_the_page(record):
    limits = dict(
        zip(*(result_page.cells(f"`{record.__name__}`:", k) for k in (0, 2)), strict=True)
    )
    for field in msgspec.inspect.type_info(record).fields:
        longest = getattr(field.type, "max_length", None)
        assert limits[field.name] == ("" if longest is None else f"{longest:,}"), field.name


def test_kinds_of_problems_are_those_of_the_page():
    assert result_page.cells("A problem has a kind") == [f"{kind}" for kind in KINDS]
    assert result_page.cells("A problem has a kind", 1) == list(KINDS.values())


def test_the_keys_of_a_study_are_those_of_the_page():
    """In any order: that in which they are written is compared by the stored results."""
    known = {
        name: set(study_file.keys_of(name, Study)) - {"format", "kind"}
        for name in study_file.TABLES
    }
    known["encoder"] -= {"version"}  # which a file may have and a result never has
    page = {name: set(keys.split()) - {"kind"} for name, keys in PAGE["KEYS"].items()}
    assert page.pop("attributes.epsilon") == page["label.epsilon"]
    assert page == known


def test_the_settings_of_a_plan_are_those_of_the_page():
    fields = {field.name: field.default for field in dataclasses.fields(TrainingPlan)}
    assert PAGE["DEFAULTS"] == fields
    head = "| setting | of | type | domain | default |"
    assert result_page.cells(head) == list(fields)
    of = dict(zip(result_page.cells(head), result_page.cells(head, 1), strict=True))
    assert {name for name, method in of.items() if method == "rounds"} == {*OF_ROUNDS, "rounds"}
    assert f"1 to {MOST_ROUNDS:,}" in result_page.TEXT


def test_events_are_those_of_the_page():
    for name, fields in PAGE["EVENTS"].items():
        kind = getattr(events, name)
        assert list(fields) == names(kind)
        defaults = {
            field.name: ... if field.default is dataclasses.MISSING else field.default
            for field in dataclasses.fields(kind)
        }
        assert defaults == fields
    others = {kind.__name__ for kind in get_args(events.Event)} - set(PAGE["EVENTS"])
    assert others == {"LabelFlipped", "CountsReleased"}
    table = result_page.cells("| event | field | type | default |", 1)
    assert table == [field for fields in PAGE["EVENTS"].values() for field in fields]


def test_the_fields_of_a_model_are_those_of_the_page():
    assert result_page.cells("`model.json` is JSON") == ["format", *names(Model)]
    stored = json.loads((RESULTS / "rounds" / "model.json").read_bytes())["provenance"]
    sums = json.loads((RESULTS / "sums" / "model.json").read_bytes())["provenance"]
    table = result_page.cells("`provenance`:")
    assert [name for name in table if name != "sums"] == list(stored)
    assert [name for name in table if name != "links"] == list(sums)


def test_sizes_are_those_of_the_page():
    assert f"| `study.toml` | {MOST_BYTES:,} |" in result_page.TEXT
    assert (result_folder._MOST_WORDS, result_folder._MOST_EVIDENCE) == (1024, 1_048_576)
    assert result_folder._MOST_PAGE == 2**24
    study = Study.load(RESULTS / "sums" / "study.toml")
    read = PAGE["read_study"]((RESULTS / "sums" / "study.toml").read_bytes())
    check = result_folder._FolderCheck(RESULTS, False, jobs=JobTerms.largest(study))
    for name in read.servers:
        assert PAGE["largest_statement"](read, name) == check._statement_limit(name)
    for terms in JobTerms.largest(study):
        for name in read.servers:
            peers = len(terms.neighbours(name))
            assert PAGE["most_bytes"](
                terms.shape, terms.plan.rounds, peers, 3
            ) == signed_statement.most_bytes(terms, name)


@pytest.mark.parametrize("folder", sorted(RESULTS.iterdir()), ids=lambda folder: folder.name)
def test_what_a_study_gives_is_what_the_page_says(folder):
    study = Study.load(folder / "study.toml")
    read = PAGE["read_study"]((folder / "study.toml").read_bytes())
    rows = study.terms.rows
    assert (read.hash, read.id, read.encoding) == (study.hash, study.id, rows.encoding)
    assert (read.width, read.K, read.C, read.menu) == (
        rows.width,
        rows.classes,
        rows.codes,
        list(rows.menu),
    )
    assert read.features == list(study.encoder.feature_names)
    assert read.encoder == study.encoder.to_dict()
    assert read.constant == pytest.approx(rows.constant, rel=1e-9)
    assert set(names(RowSpec)) == {
        *("width", "classes", "norm_bound", "blocks", "in_clear", "constant", "menu", "encoding")
    }


SLOW = ("answers", "masked", "rounds")  # the tables of the bound with randomised response


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(folder.name, marks=[pytest.mark.slow] if folder.name in SLOW else [])
        for folder in sorted(RESULTS.iterdir())
        if folder.is_dir()
    ],
)
def test_stored_results_are_accepted_by_the_product_and_by_the_page(name):
    """And the page finds the same model to the last bit, figures of privacy included."""
    assert sentences(RESULTS / name) == ""
    assert result_page.verify(RESULTS / name) == ([], [])


@pytest.mark.parametrize("row", cases("results"))
def test_bad_results_are_refused_by_the_page_for_the_same_reason(row, tmp_path):
    """All but a page that nobody else can draw."""
    problems, near = result_page.verify(spoilt(tmp_path, row))
    refused = [] if row["edits"][0].get("old") == "</html>\n" else row["kinds"]
    assert (sorted({kind for kind, _ in problems}), near) == (refused, [])


@pytest.mark.slow
@pytest.mark.parametrize("base", ["rounds-of-classes", "masked-of-classes"])
def test_the_page_and_the_product_agree_on_altered_results(base, tmp_path):
    """The product's kind is another only where an altered study is no valid one."""
    folder, rng = shutil.copytree(RESULTS / base, tmp_path / base), random.Random(1)
    files = [path for path in sorted(folder.rglob("*")) if path.suffix not in ("", ".html")]
    for _ in range(60):
        path = rng.choice(files)
        honest = path.read_bytes()
        path.write_bytes(changed := bent(honest, rng))
        kinds = {problem.kind for problem in verified(folder).problems}
        problems, near = result_page.verify(folder)
        named = {kind for kind, _ in problems} | ({"model"} if near else set())
        assert bool(kinds) is bool(named) is (changed != honest)
        assert named == kinds or (path.name, kinds) == ("study.toml", {"study"})
        path.write_bytes(honest)


def test_near_is_one_step_of_the_last_digit():
    stored = (RESULTS / "masked-of-classes" / "model.json").read_bytes()
    expected, check = json.loads(stored), PAGE["check_model"]

    def verdict(change):
        change(values := json.loads(stored))
        return check(PAGE["spelt"](values), expected)

    weights = [x for row in expected["coefficients"] for x in row] + expected["intercepts"]
    step, row = PAGE["step_of"](weights), 1

    def moved(units):
        def change(values):
            values["intercepts"][0] += units * step

        return verdict(change)

    def epsilon(by):
        def change(values):
            values["privacy"]["rows"][row]["epsilon"] *= 1 + by

        return verdict(change)

    assert check(stored, expected) == "equal" and check(stored + b" ", expected) == "wrong"
    assert [moved(k) for k in (1, -1, 0.5, 2)] == ["near", "near", "wrong", "wrong"]
    assert [epsilon(x) for x in (1e-10, -1e-10, 1e-7)] == ["near", "near", "wrong"]
    for units, verdict_of in ((1, True), (2, False)):
        change = json.loads(stored)
        change["intercepts"][0] += units * step
        data = sums_fit.canonical_json(change)
        assert sums_fit.equal_up_to_rounding(data, stored) is verdict_of


def test_no_block_imports_the_package():
    assert "pdml" not in {
        line.split()[1] for line in result_page.CODE.splitlines() if line.startswith("import ")
    }
    assert inspect.isgeneratorfunction(PAGE["draws"])
