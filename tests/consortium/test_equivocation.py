"""A member that says different things to different neighbours is named, and proved."""

import random
from dataclasses import replace

import msgspec
import pytest
from consortium import NAMES
from results import SHORT, Studied, bent, sentences, verified

from pdml.consortium.result_folder import write_result
from pdml.errors import PeerError
from pdml.node.job.job_result import assemble
from pdml.node.protocol import equivocation, signed_statement, wire_messages
from pdml.node.storage.journal import Journal
from pdml.study.schema import template


class Equivocating(Studied):
    """Bob's release of round 2 is another one for carol."""

    def run(self, **options):
        honest = wire_messages.vector

        def two_faced(job_terms, identity, *, payload, **about):
            if about == {"sender": "bob", "recipient": "carol", "t": 2}:
                payload = wire_messages.encode_vector(
                    1.01 * wire_messages.decode_vector(payload, job_terms.shape)
                )
            return honest(job_terms, identity, payload=payload, **about)

        wire_messages.vector = two_faced
        try:
            return super().run(**options)
        finally:
            wire_messages.vector = honest


@pytest.fixture(scope="module")
def two_faced(tmp_path_factory):
    made = Equivocating(tmp_path_factory.mktemp("two faced"), plan=SHORT)
    made.run()
    for name in NAMES:
        made.party(name).finish()
        made.kill(name)
        made.journals[name] = Journal(made.folder / f"{name}.db")
    yield made
    for journal in made.journals.values():
        journal.close()


@pytest.fixture(scope="module")
def told_by(two_faced):
    return {name: two_faced.journals[name].statements("job-1")[name] for name in NAMES}


def shown(two_faced, *hearers):
    """What these hearers can show of bob's round 2, from their journals after the job."""
    vouchers = [
        equivocation.stored_digest(two_faced.journals[name], "job-1", 2, "bob") for name in hearers
    ]
    return equivocation.encode_evidence(vouchers)


@pytest.mark.parametrize("hearers", [("carol", "alice"), ("carol",)])
def test_who_says_two_things_is_named_and_proved(two_faced, told_by, tmp_path, hearers):
    """By what two neighbours heard, or by one of them and its own statement."""
    result = assemble(two_faced.study, two_faced.job_terms, told_by)
    (found,) = result.mismatches
    assert (found.servers, found.round) == (("carol", "bob"), 2)
    write_result(tmp_path / "result", replace(result, evidence={"bob": shown(two_faced, *hearers)}))
    verdict = verified(tmp_path / "result")
    assert [each.sender for each in verdict.equivocated] == ["bob"]
    (problem,) = [p for p in verdict.problems if p.kind == "equivocation"]
    assert problem.servers == ("bob",) and "carol" in problem.sentence
    assert problem.sentence.startswith("bob equivocated in round 2: it signed ")
    assert not any(p.kind == "mismatch" for p in verdict.problems)


def test_without_the_signature_it_is_one_word_against_another(two_faced, told_by, tmp_path):
    result = assemble(two_faced.study, two_faced.job_terms, told_by)
    write_result(tmp_path / "result", result)
    told = sentences(tmp_path / "result")
    assert "carol has not shown it" in told and "equivocated" not in told


def test_evidence_that_proves_nothing_accuses_nobody(two_faced, told_by, tmp_path):
    result = assemble(two_faced.study, two_faced.job_terms, told_by)
    honest = equivocation.stored_digest(two_faced.journals["alice"], "job-1", 2, "bob")
    forged = msgspec.structs.replace(honest, digest="0" * 64)
    other_round = equivocation.stored_digest(two_faced.journals["carol"], "job-1", 1, "bob")
    of_carol = equivocation.stored_digest(two_faced.journals["alice"], "job-1", 2, "carol")
    cases = {
        "one release of bob in round 2": equivocation.encode_evidence([honest, honest]),
        "not signed by it": equivocation.encode_evidence([honest, forged]),
        "several servers or rounds": equivocation.encode_evidence([honest, other_round]),
        "several servers": equivocation.encode_evidence([honest, of_carol]),
        "about several": equivocation.encode_evidence([]),
        "`array` of length <= 16": equivocation.encode_evidence([honest] * 17),
        "no evidence": b"pdml evidence 1\0\xc1",
        "no evidence that a node has made": b"x" + shown(two_faced, "carol"),
        "two different statements": equivocation.encode_evidence(statements=[told_by["bob"]] * 2),
        "not signed by one server": equivocation.encode_evidence(
            statements=[told_by["bob"], told_by["carol"]]
        ),
        "it is about bob": shown(two_faced, "carol", "alice"),
    }
    for number, (said, data) in enumerate(cases.items()):
        name = "carol" if "about bob" in said else "bob"
        write_result(tmp_path / str(number), replace(result, evidence={name: data}))
        told = sentences(tmp_path / str(number))
        assert said in told and "bob equivocated" not in told


def test_what_a_liar_signs_is_shown_as_it_stands(two_faced, told_by, tmp_path):
    """No word of it reaches a terminal as a command."""
    honest = equivocation.stored_digest(two_faced.journals["alice"], "job-1", 2, "bob")
    loud = msgspec.structs.replace(honest, recipient="\x1b[31mx\n", digest="\r" * 99)
    loud = wire_messages._signed(two_faced.identities["bob"], loud)
    proof = equivocation.encode_evidence(
        [honest, msgspec.msgpack.decode(loud, type=wire_messages.SignedDigest)]
    )
    result = assemble(two_faced.study, two_faced.job_terms, told_by)
    write_result(tmp_path / "result", replace(result, evidence={"bob": proof}))
    told = sentences(tmp_path / "result")
    assert "bob equivocated in round 2" in told and told.isprintable()


def test_a_job_that_ended_early_leaves_a_proof_too(two_faced, tmp_path):
    """No statements, only the study and the two signatures."""
    (tmp_path / "evidence").mkdir()
    (tmp_path / "study.toml").write_text(template.plain(two_faced.study))
    (tmp_path / "evidence" / "bob.evidence").write_bytes(shown(two_faced, "carol", "alice"))
    assert [each.sender for each in verified(tmp_path).equivocated] == ["bob"]


def test_a_voucher_and_its_statement_prove_it_by_themselves(two_faced, told_by, tmp_path):
    """To who was no neighbour of it and has heard nothing."""
    lied = equivocation.stored_digest(two_faced.journals["carol"], "job-1", 2, "bob")
    honest = equivocation.stored_digest(two_faced.journals["alice"], "job-1", 2, "bob")
    said = signed_statement.signed_by(told_by["bob"], "bob", two_faced.keys)
    elsewhere = signed_statement.sign(
        msgspec.structs.replace(said, terms="6" * 64), two_faced.identities["bob"]
    )
    for terms in (two_faced.job_terms.digest, ""):
        proof = equivocation.encode_evidence([lied], statements=[told_by["bob"]])
        assert equivocation.verify_evidence(proof, terms, two_faced.keys).sender == "bob"
        for voucher, data, why in (
            (honest, told_by["bob"], "it proves nothing"),
            (lied, told_by["carol"], "not signed by it"),
            (lied, elsewhere, "about another job"),
        ):
            with pytest.raises(PeerError, match=why):
                equivocation.verify_evidence(
                    equivocation.encode_evidence([voucher], statements=[data]),
                    terms,
                    two_faced.keys,
                )


def test_two_statements_of_one_server_prove_it(two_faced, told_by, tmp_path):
    said = signed_statement.signed_by(told_by["dave"], "dave", two_faced.keys)
    other = msgspec.structs.replace(said, randomised_by="devices")
    other = signed_statement.sign(other, two_faced.identities["dave"])
    result = assemble(two_faced.study, two_faced.job_terms, told_by)
    proof = equivocation.encode_evidence(statements=[told_by["dave"], other])
    write_result(tmp_path / "result", replace(result, evidence={"dave": proof}))
    assert [each.sender for each in verified(tmp_path / "result").equivocated] == ["dave"]


@pytest.mark.parametrize("seed", range(2))
def test_no_change_of_evidence_accuses_another(two_faced, told_by, tmp_path, seed):
    result = assemble(two_faced.study, two_faced.job_terms, told_by)
    honest = shown(two_faced, "carol", "alice")
    write_result(tmp_path / "result", replace(result, evidence={"bob": honest}))
    rng = random.Random(seed)
    for _ in range(50):
        (tmp_path / "result" / "evidence" / "bob.evidence").write_bytes(bent(honest, rng))
        found = verified(tmp_path / "result")
        assert not found.ok and {each.sender for each in found.equivocated} <= {"bob"}
