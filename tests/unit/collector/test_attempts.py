"""Unknown invitations: counted, slowed down by address, in bounded memory; good ones never wait."""

import asyncio
import secrets

import pytest
from collecting import Slept, report
from conversation import JSON, NDJSON, send, talk
from hypothesis import given
from hypothesis import strategies as st

from pdml.collector.http import guard as module
from pdml.collector.http.guard import LONGEST, Attempts
from pdml.collector.intake.report_rules import hash_token
from pdml.errors import InvalidInput
from pdml.study.messages import Admission, problem

UNKNOWN = problem("token_unknown")


def slowing(per_minute=20):
    time = Slept(1000.0)
    return time, Attempts(per_minute, clock=time)


def tries(attempts, host, answers=(UNKNOWN,)):
    asyncio.run(attempts.delay_response({"client": (host, 1)}, answers))


def test_a_few_are_free_then_each_waits_its_turn():
    time, attempts = slowing(20)
    for _ in range(20):
        tries(attempts, "192.0.2.1")
    assert time.slept == [] and attempts.counted == 20
    tries(attempts, "192.0.2.1")
    assert time.slept == [pytest.approx(3.0)]  # 20 a minute: one every three seconds
    tries(attempts, "192.0.2.2")
    assert len(time.slept) == 1  # another address
    for _ in range(10):
        tries(attempts, "192.0.2.1")
    assert max(time.slept) == pytest.approx(LONGEST) and attempts.slowed == 11
    time.time += 65.1  # all of it has drained
    tries(attempts, "192.0.2.1")
    assert attempts.slowed == 11


VISITS = st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), max_size=30)


@given(VISITS, st.integers(1, 1000))
def test_the_wait_is_that_of_a_bucket(visits, per_minute):
    """Compared with a level kept in rational arithmetic's stead by its definition: it drains in
    between, and is capped."""
    time, attempts = slowing(per_minute)
    rate = per_minute / 60
    level = 0.0
    for pause, count in visits:
        time.time += pause
        level = min(max(level - pause * rate, 0.0) + count, per_minute + LONGEST * rate)
        before = len(time.slept)
        tries(attempts, "192.0.2.1", (UNKNOWN,) * count)
        waited = time.slept[before] if len(time.slept) > before else 0.0
        assert waited == pytest.approx(max(level - per_minute, 0.0) / rate, abs=1e-6)
        assert waited <= LONGEST + 1e-9


def test_what_is_no_unknown_token_costs_nothing():
    time, attempts = slowing(1)
    for answer in (
        Admission("ab"),
        problem("token_used"),
        problem("token_missing"),
        problem("closed"),
    ):
        for _ in range(5):
            tries(attempts, "192.0.2.1", (answer,))
    assert (attempts.counted, time.slept) == (0, [])


def test_addresses_that_one_party_holds_count_together():
    time, attempts = slowing(2)
    for host in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:1::"):
        tries(attempts, host)
    assert len(time.slept) == 1  # one /64
    tries(attempts, "2001:db8:0:1::1")
    for host in ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"):
        tries(attempts, host)
    assert len(time.slept) == 2  # the same IPv4 address in two spellings
    asyncio.run(attempts.delay_response({"client": None}, (UNKNOWN,)))


def test_memory_is_bounded_and_short(monkeypatch):
    monkeypatch.setattr(module, "MOST", 100)
    time, attempts = slowing(20)
    for i in range(1000):
        tries(attempts, f"198.51.{i // 256}.{i % 256}")
    assert len(attempts._levels) == 100 and attempts.counted == 1000
    time.time += 66
    tries(attempts, "192.0.2.1")
    assert list(attempts._levels) == ["192.0.2.1"]  # nobody else's bucket holds anything any more


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_a_rate_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="bad_tokens"):
        Attempts(wrong)


def test_the_service_slows_every_way_to_try_and_nobody_with_a_good_invitation(sqlite):
    good = [secrets.token_hex(16) for _ in range(3)]
    sqlite.invite(map(hash_token, good))
    time, attempts = slowing(1)

    async def conversation(client):
        def ask(token):
            body = b'{"token":"%s"}' % token.encode()
            return client.post("/v1/invitations", content=body, headers=JSON)

        waits = []

        async def waited(request):
            before = len(time.slept)
            answer = await request
            waits.append((answer.status_code, len(time.slept) > before))

        await waited(ask(secrets.token_hex(16)))
        await waited(ask(secrets.token_hex(16)))
        await waited(send(client, report(token=secrets.token_hex(16))))
        lines = report(token=secrets.token_hex(16)) + b"\n" + report(token=good[0])
        await waited(client.post("/v1/batches", content=lines, headers=NDJSON))
        await waited(ask(good[1]))
        await waited(send(client, report(token=good[1])))
        await waited(ask(""))
        return waits, (await client.get("/metrics")).text

    waits, metrics = talk(sqlite, conversation, require_tokens=True, attempts=attempts)
    assert waits == [
        (403, False),
        (403, True),
        (403, True),
        (200, True),
        (200, False),
        (201, False),
        (401, False),
    ]
    assert "pdml_collect_bad_tokens_total 4" in metrics
    assert "pdml_collect_bad_tokens_slowed_total 3" in metrics
