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
    consortium = Equivocating(tmp_path_factory.mktemp("two faced"), plan=SHORT)
    consortium.run()
    for name in NAMES:
        consortium.party(name).finish()
        consortium.kill(name)
        consortium.journals[name] = Journal(consortium.folder / f"{name}.db")
    yield consortium
    for journal in consortium.journals.values():
        journal.close()


@pytest.fixture(scope="module")
def signed(two_faced):
    return {name: two_faced.journals[name].statements("job-1")[name] for name in NAMES}


def evidence_of(two_faced, *hearers):
    """What these hearers can show of bob's round 2, from their journals after the job."""
    vouchers = [
        equivocation.stored_digest(two_faced.journals[name], "job-1", 2, "bob") for name in hearers
    ]
    return equivocation.encode_evidence(vouchers)


@pytest.mark.parametrize("hearers", [("carol", "alice"), ("carol",)])
def test_who_says_two_things_is_named_and_proved(two_faced, signed, tmp_path, hearers):
    """By what two neighbours heard, or by one of them and its own statement."""
    result = assemble(two_faced.study, two_faced.job_terms, signed)
    (flaw,) = result.mismatches
    assert (flaw.servers, flaw.round) == (("carol", "bob"), 2)
    write_result(
        tmp_path / "result", replace(result, evidence={"bob": evidence_of(two_faced, *hearers)})
    )
    verdict = verified(tmp_path / "result")
    assert [proof.sender for proof in verdict.equivocated] == ["bob"]
    (problem,) = [p for p in verdict.problems if p.kind == "equivocation"]
    assert problem.servers == ("bob",) and "carol" in problem.sentence
    assert problem.sentence.startswith("bob equivocated in round 2: it signed ")
    assert not any(p.kind == "mismatch" for p in verdict.problems)


def test_without_the_signature_it_is_one_word_against_another(two_faced, signed, tmp_path):
    result = assemble(two_faced.study, two_faced.job_terms, signed)
    write_result(tmp_path / "result", result)
    text = sentences(tmp_path / "result")
    assert "carol has not shown it" in text and "equivocated" not in text


def test_evidence_that_proves_nothing_accuses_nobody(two_faced, signed, tmp_path):
    result = assemble(two_faced.study, two_faced.job_terms, signed)
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
        "no evidence that a node has made": b"x" + evidence_of(two_faced, "carol"),
        "two different statements": equivocation.encode_evidence(statements=[signed["bob"]] * 2),
        "not signed by one server": equivocation.encode_evidence(
            statements=[signed["bob"], signed["carol"]]
        ),
        "it is about bob": evidence_of(two_faced, "carol", "alice"),
    }
    for number, (reason, data) in enumerate(cases.items()):
        name = "carol" if "about bob" in reason else "bob"
        write_result(tmp_path / str(number), replace(result, evidence={name: data}))
        text = sentences(tmp_path / str(number))
        assert reason in text and "bob equivocated" not in text


def test_what_a_liar_signs_is_shown_as_it_stands(two_faced, signed, tmp_path):
    """No word of it reaches a terminal as a command."""
    honest = equivocation.stored_digest(two_faced.journals["alice"], "job-1", 2, "bob")
    loud = msgspec.structs.replace(honest, recipient="\x1b[31mx\n", digest="\r" * 99)
    loud = wire_messages._signed(two_faced.identities["bob"], loud)
    proof = equivocation.encode_evidence(
        [honest, msgspec.msgpack.decode(loud, type=wire_messages.SignedDigest)]
    )
    result = assemble(two_faced.study, two_faced.job_terms, signed)
    write_result(tmp_path / "result", replace(result, evidence={"bob": proof}))
    text = sentences(tmp_path / "result")
    assert "bob equivocated in round 2" in text and text.isprintable()


def test_a_job_that_ended_early_leaves_a_proof_too(two_faced, tmp_path):
    """No statements, only the study and the two signatures."""
    (tmp_path / "evidence").mkdir()
    (tmp_path / "study.toml").write_text(template.plain(two_faced.study))
    (tmp_path / "evidence" / "bob.evidence").write_bytes(evidence_of(two_faced, "carol", "alice"))
    assert [proof.sender for proof in verified(tmp_path).equivocated] == ["bob"]


def test_a_voucher_and_its_statement_prove_it_by_themselves(two_faced, signed, tmp_path):
    """To who was no neighbour of it and has heard nothing."""
    lied = equivocation.stored_digest(two_faced.journals["carol"], "job-1", 2, "bob")
    honest = equivocation.stored_digest(two_faced.journals["alice"], "job-1", 2, "bob")
    statement = signed_statement.signed_by(signed["bob"], "bob", two_faced.keys)
    elsewhere = signed_statement.sign(
        msgspec.structs.replace(statement, terms="6" * 64), two_faced.identities["bob"]
    )
    for terms in (two_faced.job_terms.digest, ""):
        proof = equivocation.encode_evidence([lied], statements=[signed["bob"]])
        assert equivocation.verify_evidence(proof, terms, two_faced.keys).sender == "bob"
        for voucher, data, why in (
            (honest, signed["bob"], "it proves nothing"),
            (lied, signed["carol"], "not signed by it"),
            (lied, elsewhere, "about another job"),
        ):
            with pytest.raises(PeerError, match=why):
                equivocation.verify_evidence(
                    equivocation.encode_evidence([voucher], statements=[data]),
                    terms,
                    two_faced.keys,
                )


def test_two_statements_of_one_server_prove_it(two_faced, signed, tmp_path):
    statement = signed_statement.signed_by(signed["dave"], "dave", two_faced.keys)
    other = msgspec.structs.replace(statement, randomised_by="devices")
    other = signed_statement.sign(other, two_faced.identities["dave"])
    result = assemble(two_faced.study, two_faced.job_terms, signed)
    proof = equivocation.encode_evidence(statements=[signed["dave"], other])
    write_result(tmp_path / "result", replace(result, evidence={"dave": proof}))
    assert [proof.sender for proof in verified(tmp_path / "result").equivocated] == ["dave"]


@pytest.mark.parametrize("seed", range(2))
def test_no_change_of_evidence_accuses_another(two_faced, signed, tmp_path, seed):
    result = assemble(two_faced.study, two_faced.job_terms, signed)
    honest = evidence_of(two_faced, "carol", "alice")
    write_result(tmp_path / "result", replace(result, evidence={"bob": honest}))
    rng = random.Random(seed)
    for _ in range(50):
        (tmp_path / "result" / "evidence" / "bob.evidence").write_bytes(bent(honest, rng))
        verification = verified(tmp_path / "result")
        assert not verification.ok and {proof.sender for proof in verification.equivocated} <= {
            "bob"
        }
