"""Asking for admission: the same answer as a report would get, nothing used up, nothing about the
token in any address."""

import json
import secrets
from datetime import UTC, datetime

import pytest
from collecting import NOW, TRIAL, Clock, report
from conversation import JSON, assert_problem, send, talk

from pdml.collector.intake.report_rules import hash_token
from pdml.collector.storage.records import CollectionState
from pdml.errors import StorageUnavailable

EARLY, LATE = (
    datetime(2025, 1, 1, tzinfo=UTC).timestamp(),
    datetime(2200, 1, 1, tzinfo=UTC).timestamp(),
)


async def ask(client, token="", **headers):
    body = json.dumps({"token": token})
    return await client.post("/v1/invitations", content=body, headers=JSON | headers)


def code(answer):
    return "" if answer.status_code in (200, 201) else answer.json()["code"]


@pytest.mark.parametrize("now", [NOW, EARLY, LATE])
@pytest.mark.parametrize("state", CollectionState)
def test_admission_is_what_a_report_would_meet(sqlite, state, now):
    """For every state, time, kind of token and kind of service; the report is sent after, so that
    nothing was used up."""
    used, *fresh = [secrets.token_hex(16) for _ in range(3)]
    sqlite.invite(map(hash_token, (used, *fresh)))
    talk(sqlite, lambda client: send(client, report(token=used)))
    if state is CollectionState.CLOSED:
        sqlite.set_open(False)
    if state is CollectionState.FROZEN:
        sqlite.freeze(1)
    clock = Clock()
    clock.time = now
    seen = set()
    for require in (True, False):
        tokens = ("", used, secrets.token_hex(16), fresh.pop(), "ab")

        async def conversation(client, tokens=tokens):
            lines = [(token, report(token=token)) for token in tokens]
            return [(await ask(client, token), await send(client, line)) for token, line in lines]

        for asked, sent in talk(sqlite, conversation, clock=clock, require_tokens=require):
            assert code(asked) == code(sent)
            seen.add(code(asked))
            if asked.status_code == 200:
                assert asked.json() == {"study": TRIAL.hash}
                assert asked.headers["cache-control"] == "no-store"
            else:
                assert_problem(asked, code(asked))
    if state is CollectionState.OPEN and now == NOW:
        assert seen == {"", "token_missing", "token_used", "token_unknown"}


def test_asking_changes_nothing_in_any_store(store):
    fresh, unknown = secrets.token_hex(16), secrets.token_hex(16)
    store.invite([hash_token(fresh)])
    before = store.totals()
    for _ in range(3):
        assert store.invitation(hash_token(fresh)) == (CollectionState.OPEN, False)
        assert store.invitation(hash_token(unknown)) == (CollectionState.OPEN, None)
        assert store.invitation(b"") == (CollectionState.OPEN, None)
    assert store.totals() == before
    answers = talk(store, lambda client: send(client, report(token=fresh)), require_tokens=True)
    assert answers.status_code == 201
    assert store.invitation(hash_token(fresh)) == (CollectionState.OPEN, True)


@pytest.mark.parametrize(
    ("body", "headers", "problem"),
    [
        (b"", JSON, "malformed"),
        (b"null", JSON, "malformed"),
        (b'{"token": 3}', JSON, "malformed"),
        (b'{"token": "", "more": 1}', JSON, "malformed"),
        (b'{"token": "' + b"A" * 32 + b'"}', JSON, "token_unknown"),
        (b"x" * 257, JSON, "too_large"),
        (b"{}", {"content-type": "text/plain"}, "unsupported_type"),
    ],
)
def test_bad_requests_are_problems(sqlite, body, headers, problem):
    async def conversation(client):
        return await client.post("/v1/invitations", content=body, headers=headers)

    assert_problem(talk(sqlite, conversation), problem)


def test_other_methods_are_refused_so_that_no_token_stands_in_an_address(sqlite):
    assert_problem(
        talk(sqlite, lambda client: client.get("/v1/invitations?token=" + "ab" * 16)),
        "method_not_allowed",
    )


def test_a_store_in_trouble_says_so(sqlite):
    def broken(token):
        raise StorageUnavailable("disk gone")

    sqlite.invitation = broken
    assert_problem(talk(sqlite, lambda client: ask(client)), "storage_unavailable")
