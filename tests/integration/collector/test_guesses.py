"""The service confirms nobody's guess: not to whoever holds a copy of the database without its keys,
and not to whoever knows a report's id.
"""

import secrets

import pytest
from collecting import TRIAL, Slept, packed, report
from conversation import send, talk
from test_withdrawal import Raw

from pdml.collector.http.guard import Attempts
from pdml.collector.intake.report_rules import hash_id, hash_token
from pdml.device.client import prepare
from pdml.device.memo import Memory

PEOPLE = 20
LABELS, EPSILONS = range(len(TRIAL.classes)), TRIAL.epsilon_micro
ANSWERS = [{"age": age, "sex": sex} for age in (20, 40, 60) for sex in ("male", "female")]
GUESSES = [
    {"label": label, "epsilon": epsilon, "features": packed(TRIAL.encode(answers))}
    for label in LABELS
    for epsilon in EPSILONS
    for answers in ANSWERS
]


async def confirm(client, ids):
    """How many reports an attacker reads by asking the service about every possible content."""
    read, answers = 0, set()
    for id in ids:
        for guess in GUESSES:
            answer = await send(client, report(id=id, **guess))
            answers.add((answer.status_code, answer.text.replace(id, "ID")))
            if answer.status_code == 200:
                read += 1
                break
    return read, answers


@pytest.mark.parametrize("knows_ids", [False, True])
def test_a_copy_of_the_database_and_the_service_together_confirm_no_guess(
    open_store, tmp_path, knows_ids
):
    """20 of 20 people were read this way; now nobody is, also by whoever knows their ids."""
    store = open_store()
    tokens = [secrets.token_hex(16) for _ in range(PEOPLE)]
    store.invite(map(hash_token, tokens))
    contents = [secrets.choice(GUESSES) for _ in range(PEOPLE)]
    own = [secrets.token_hex(16) for _ in range(PEOPLE)]

    async def conversation(client):
        for id, token, content in zip(own, tokens, contents, strict=True):
            answer = await send(client, report(id=id, token=token, **content))
            assert answer.status_code == 201
        rows, _ = Raw(open_store, tmp_path).rows()  # without the keys
        return await confirm(client, own if knows_ids else [id.hex() for id in rows])

    # the service slows such a client down: not what is tested here
    attempts = Attempts(clock=Slept())
    read, answers = talk(store, conversation, require_tokens=True, attempts=attempts)
    assert read == 0
    assert len(answers) == 1  # whatever the guess, the same words
    assert store.totals().conflicts == PEOPLE * len(GUESSES) * knows_ids


def test_no_id_of_a_report_stands_in_the_database(open_store, tmp_path):
    store, id = open_store(), secrets.token_hex(16)

    async def conversation(client):
        return await send(client, report(id=id))

    assert talk(store, conversation).status_code == 201
    raw = Raw(open_store, tmp_path)
    assert list(raw.rows()[0]) == [hash_id(id)]
    files = b"".join(raw.files())
    assert bytes.fromhex(id) not in files and id.encode() not in files


def test_a_withdrawn_report_and_a_stored_one_answer_strangers_alike(open_store):
    store, ids = open_store(), [secrets.token_hex(16) for _ in range(2)]

    async def conversation(client):
        for id in ids:
            assert (await send(client, report(id=id))).status_code == 201
        assert store.withdraw(hash_id(ids[0]))
        answers = [await send(client, report(id=id)) for id in ids]
        return {
            (answer.status_code, answer.text.replace(id, "ID"))
            for id, answer in zip(ids, answers, strict=True)
        }

    assert len(talk(store, conversation)) == 1


def test_a_device_that_lost_the_answer_gets_its_receipt_after_both_start_again(
    open_store, tmp_path
):
    store, token = open_store(), secrets.token_hex(16)
    store.invite([hash_token(token)])

    def attempt(store):
        memory = Memory(tmp_path / "device")  # as a new process has it
        line = prepare(TRIAL, memory, ANSWERS[0], 1, EPSILONS[0], token=token)

        async def conversation(client):
            return await send(client, line)

        return line, talk(store, conversation, require_tokens=True)

    line, first = attempt(store)
    store.close()
    store = open_store()
    same, again = attempt(store)
    store.freeze(1)
    _, late = attempt(store)
    assert same == line
    assert [answer.status_code for answer in (first, again, late)] == [201, 200, 200]
    assert first.json() == again.json() == late.json()
    totals = store.totals()
    assert (totals.reports, totals.conflicts, totals.invitations_used) == (1, 0, 1)
