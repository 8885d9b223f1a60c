"""The service over HTTP, in this process: answers, statuses, headers, and nothing about people in any log."""

import asyncio
import hashlib
import json
import logging
import secrets

import pytest
from collecting import NOW, TRIAL, InProcess, marked, report

from pdml.collect import app as application
from pdml.collect.rules import hash_token, identity
from pdml.collect.sqlite import SqliteStore
from pdml.errors import StorageUnavailable
from pdml.messages import MAX_BATCH, PROBLEMS

OPERATOR = "a-token-of-the-operator"
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def sqlite(tmp_path):
    store = SqliteStore(tmp_path / "reports.db", identity(TRIAL, "alice"))
    yield store
    store.close()


def create(store, **options):
    defaults = {"page": b"<p>page</p>", "page_headers": {"content-security-policy": "default-src 'none'"}, "clock": Clock()}
    defaults |= {"operator": lambda summary: f"<p>{summary.reports} reports", "require_tokens": False}
    defaults |= {"operator_token_hash": hashlib.sha256(OPERATOR.encode()).hexdigest()}
    return application.create(TRIAL, "alice", store, **(defaults | options))


def talk(store, conversation, **options):
    """Run a conversation with a client of the application."""

    async def main():
        async with InProcess(create(store, **options)) as client:
            return await conversation(client)

    return asyncio.run(main())


async def send(client, line, **headers):
    return await client.post("/v1/reports", content=line, headers=JSON | headers)


def assert_problem(answer, code):
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["code"] == code and told["status"] == answer.status_code == PROBLEMS[code].status
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-content-type-options"] == "nosniff"


class TestReports:
    def test_the_first_time_again_and_otherwise(self, sqlite):
        line = report()
        clock = Clock()

        async def conversation(client):
            first = await send(client, line)
            clock.now += 7200
            return first, await send(client, line), await send(client, line.replace(b'"label":0', b'"label":1'))

        first, again, other = talk(sqlite, conversation, clock=clock)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        assert first.json() == {
            "id": json.loads(line)["id"],
            "study": TRIAL.hash,
            "server": "alice",
            "digest": hashlib.sha256(line).hexdigest(),
            "hour": "2026-05-28T20Z",
        }
        assert_problem(other, "id_conflict")

    @pytest.mark.parametrize(
        ("line", "code"),
        [(b"{}", "malformed"), (report(id="ab" * 16, label=9), "bad_label"), (b" " * 10_000, "too_large")],
    )
    def test_a_bad_one_is_a_problem_and_is_counted(self, sqlite, line, code):
        async def conversation(client):
            return await send(client, line), await client.get("/metrics")

        answer, metrics = talk(sqlite, conversation)
        assert_problem(answer, code)
        assert f'pdml_collect_problems_total{{code="{code}"}} 1' in metrics.text
        assert sqlite.totals().reports == 0

    def test_invitations(self, sqlite):
        token = secrets.token_hex(16)
        sqlite.invite([hash_token(token)])

        async def conversation(client):
            lines = [report(), report(token=secrets.token_hex(16)), report(token=token), report(token=token)]
            return [await send(client, line) for line in lines]

        missing, unknown, good, used = talk(sqlite, conversation, require_tokens=True)
        assert_problem(missing, "token_missing")
        assert_problem(unknown, "token_unknown")
        assert good.status_code == 201
        assert_problem(used, "token_used")

    def test_many_racing_for_one_token_have_one_winner(self, sqlite):
        token = secrets.token_hex(16)
        sqlite.invite([hash_token(token)])

        async def conversation(client):
            return await asyncio.gather(*(send(client, report(token=token)) for _ in range(40)))

        statuses = sorted(answer.status_code for answer in talk(sqlite, conversation))
        assert statuses == [201] + [409] * 39

    def test_many_racing_with_one_report_count_once(self, sqlite):
        line = report()

        async def conversation(client):
            return await asyncio.gather(*(send(client, line) for _ in range(40)))

        answers = talk(sqlite, conversation)
        assert sorted(answer.status_code for answer in answers) == [200] * 39 + [201]
        assert len({answer.text for answer in answers}) == 1 and sqlite.totals().reports == 1

    @pytest.mark.parametrize(("moment", "code"), [(TRIAL.opens.timestamp() - 1, "too_early"), (TRIAL.closes.timestamp(), "closed")])
    def test_outside_the_opening_times_only_repetitions_are_answered(self, sqlite, moment, code):
        clock, line = Clock(), report()

        async def conversation(client):
            await send(client, line)
            clock.now = moment
            return await send(client, line), await send(client, report())

        again, new = talk(sqlite, conversation, clock=clock)
        assert again.status_code == 200
        assert_problem(new, code)

    def test_after_freezing_only_repetitions_are_answered(self, sqlite):
        line = report()

        async def conversation(client):
            await send(client, line)
            sqlite.freeze(1)
            return await send(client, line), await send(client, report())

        again, new = talk(sqlite, conversation)
        assert again.status_code == 200
        assert_problem(new, "frozen")

    def test_a_withdrawn_report_does_not_come_back(self, sqlite):
        line = report()

        async def conversation(client):
            await send(client, line)
            sqlite.withdraw(bytes.fromhex(json.loads(line)["id"]))
            return await send(client, line)

        answer = talk(sqlite, conversation)
        assert_problem(answer, "id_conflict")
        assert "withdrawn" in answer.json()["detail"] and sqlite.totals().reports == 0

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
    def test_content_types_that_any_site_could_post_are_refused(self, sqlite, kind):
        answer = talk(sqlite, lambda client: client.post("/v1/reports", content=report(), headers={"content-type": kind}))
        assert_problem(answer, "unsupported_type")
        assert sqlite.totals().reports == 0

    def test_a_charset_is_no_other_type(self, sqlite):
        good = {"content-type": "Application/JSON; charset=utf-8"}
        assert talk(sqlite, lambda client: client.post("/v1/reports", content=report(), headers=good)).status_code == 201


class TestSizes:
    def test_a_declared_length_is_refused_before_a_byte_is_read(self, sqlite):
        async def main():
            app, sent = create(sqlite), []

            async def receive():
                raise AssertionError("nothing must be read")

            async def sender(message):
                sent.append(message)

            async with InProcess(app):
                headers = [(b"content-type", b"application/json"), (b"content-length", b"99999999999999999999")]
                await app({"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers}, receive, sender)
            return sent

        start, body = asyncio.run(main())
        assert start["status"] == 413 and (b"connection", b"close") in start["headers"]
        assert json.loads(body["body"])["code"] == "too_large"

    def test_an_undeclared_length_is_counted_while_it_arrives(self, sqlite):
        read = 0

        async def endless():
            nonlocal read
            while True:
                read += 1000
                yield b" " * 1000

        answer = talk(sqlite, lambda client: client.post("/v1/reports", content=endless(), headers=JSON))
        assert_problem(answer, "too_large")
        assert read < 10_000

    def test_pieces_make_one_report(self, sqlite):
        async def pieces():
            for byte in report():
                yield bytes([byte])

        assert talk(sqlite, lambda client: client.post("/v1/reports", content=pieces(), headers=JSON)).status_code == 201

    def test_a_client_that_leaves_gets_nothing_and_breaks_nothing(self, sqlite):
        async def main():
            app, sent = create(sqlite), []
            messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

            async def receive():
                return next(messages)

            async with InProcess(app) as client:
                headers = [(b"content-type", b"application/json")]
                await app({"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers}, receive, sent.append)
                return sent, await send(client, report())

        sent, answer = asyncio.run(main())
        assert sent == [] and answer.status_code == 201


class TestBatches:
    def test_every_line_is_answered_in_order(self, sqlite):
        good, bad = report(), report(label=8)
        lines = [good, b"nonsense", bad, good, report(), b"", good.replace(b'"label":0', b'"label":1')]

        async def conversation(client):
            return await client.post("/v1/batches", content=b"\n".join(lines) + b"\n", headers=NDJSON)

        answer = talk(sqlite, conversation)
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
        told = [json.loads(line) for line in answer.content.splitlines()]
        assert [each.get("code", "receipt") for each in told] == [
            "receipt",
            "malformed",
            "bad_label",
            "receipt",
            "receipt",
            "malformed",
            "id_conflict",
        ]
        assert told[0] == told[3] and told[2]["id"] == json.loads(bad)["id"]
        assert sqlite.totals().reports == 2

    @pytest.mark.parametrize("ending", [b"", b"\n"])
    def test_the_last_newline_may_be_missing(self, sqlite, ending):
        body = b"\n".join([report(), report()]) + ending
        answer = talk(sqlite, lambda client: client.post("/v1/batches", content=body, headers=NDJSON))
        assert len(answer.content.splitlines()) == 2 == sqlite.totals().reports

    @pytest.mark.parametrize(
        ("body", "code"), [(b"", "malformed"), (b"x\n" * (MAX_BATCH + 1), "batch_too_long"), (b" " * 3_000_000, "too_large")]
    )
    def test_no_batch_at_all(self, sqlite, body, code):
        assert_problem(talk(sqlite, lambda client: client.post("/v1/batches", content=body, headers=NDJSON)), code)

    def test_the_longest_batch_is_stored(self, sqlite):
        body = b"".join(report() + b"\n" for _ in range(MAX_BATCH))
        talk(sqlite, lambda client: client.post("/v1/batches", content=body, headers=NDJSON))
        assert sqlite.totals().reports == MAX_BATCH


class TestTrouble:
    def test_a_store_that_cannot_commit_acknowledges_nothing_and_recovers(self, sqlite):
        real, broken = sqlite.commit, True

        def commit(entries):
            if broken:
                raise StorageUnavailable("disk full")
            return real(entries)

        sqlite.commit = sqlite.commit_at_once = commit

        async def conversation(client):
            nonlocal broken
            line = report()
            single = await send(client, line)
            batch = await client.post("/v1/batches", content=line + b"\nx", headers=NDJSON)
            broken = False
            return single, batch, await send(client, line)

        single, batch, after = talk(sqlite, conversation)
        assert_problem(single, "storage_unavailable")
        assert single.headers["retry-after"] == "1"
        assert [json.loads(line)["code"] for line in batch.content.splitlines()] == ["storage_unavailable", "malformed"]
        assert after.status_code == 201

    def test_a_full_queue_says_later(self, sqlite):
        body = b"\n".join(report() for _ in range(11))

        async def conversation(client):
            batch = await client.post("/v1/batches", content=body, headers=NDJSON)
            return batch, await send(client, report())

        batch, single = talk(sqlite, conversation, capacity=10)
        assert {json.loads(line)["code"] for line in batch.content.splitlines()} == {"storage_unavailable"}
        assert single.status_code == 201 and sqlite.totals().reports == 1

    def test_a_mistake_of_ours_is_a_problem_without_a_traceback(self, sqlite, caplog):
        def commit(entries):
            raise ValueError(f"quoting {entries[0].id.hex()}")

        sqlite.commit = sqlite.commit_at_once = commit
        line = report()
        answer = talk(sqlite, lambda client: send(client, line))
        assert_problem(answer, "internal")
        assert "ValueError" in caplog.text and json.loads(line)["id"] not in caplog.text

    def test_health_is_proved_by_a_commit(self, sqlite):
        async def healthy(client):
            return await client.get("/healthz")

        assert talk(sqlite, healthy).json() == {"status": "ok"}

    def test_and_so_is_illness(self, sqlite):
        def probe():
            raise StorageUnavailable("disk full")

        sqlite.probe = probe
        assert_problem(talk(sqlite, lambda client: client.get("/healthz")), "storage_unavailable")


class TestPages:
    def test_the_page_and_its_headers(self, sqlite):
        answer = talk(sqlite, lambda client: client.get("/"))
        assert answer.content == b"<p>page</p>" and answer.headers["content-security-policy"] == "default-src 'none'"

    def test_the_study_is_handed_out_with_its_hash(self, sqlite):
        answer = talk(sqlite, lambda client: client.get("/v1/study"))
        assert answer.content == TRIAL.canonical() and answer.headers["pdml-study-hash"] == TRIAL.hash
        assert hashlib.sha256(answer.content).hexdigest() == TRIAL.hash

    @pytest.mark.parametrize(
        ("method", "path", "code"),
        [
            ("GET", "/nowhere", "not_found"),
            ("POST", "/v1/reports/", "not_found"),
            ("GET", "/v1/reports", "method_not_allowed"),
            ("DELETE", "/v1/study", "method_not_allowed"),
        ],
    )
    def test_other_addresses_and_methods_are_problems(self, sqlite, method, path, code):
        assert_problem(talk(sqlite, lambda client: client.request(method, path)), code)

    def test_metrics_tell_no_answers(self, sqlite):
        async def conversation(client):
            for _ in range(2):
                line = report(label=2)
                await send(client, line)
            await send(client, line)
            return await client.get("/metrics")

        text = talk(sqlite, conversation).text
        assert "pdml_collect_reports_stored_total 2" in text and "pdml_collect_reports_replayed_total 1" in text
        assert "epsilon" not in text and "class" not in text and "label" not in text


class TestOperator:
    def test_the_door_is_closed_without_the_token(self, sqlite):
        async def conversation(client):
            wrong = {"authorization": "Bearer wrong"}
            page, json_, wrong_page = (
                await client.get("/operator"),
                await client.get("/operator.json"),
                await client.get("/operator", headers=wrong),
            )
            return page, json_, wrong_page, await client.post("/operator", data={"token": "wrong"})

        page, json_, wrong_page, posted = talk(sqlite, conversation)
        for answer in (page, wrong_page, posted):
            assert answer.status_code == 401 and "<form" in answer.text and "set-cookie" not in answer.headers
        assert_problem(json_, "unauthorized")

    def test_a_header_opens_it(self, sqlite):
        async def conversation(client):
            await send(client, report(label=1, epsilon=1_000_000))
            await send(client, b"{}")
            headers = {"authorization": f"Bearer {OPERATOR}"}
            return await client.get("/operator", headers=headers), await client.get("/operator.json", headers=headers)

        page, json_ = talk(sqlite, conversation)
        assert page.text == "<p>1 reports" and "script-src" not in page.headers["content-security-policy"]
        told = json_.json()
        assert told["reports"] == 1 and told["per_class"] == [0, 1, 0] and told["problems"] == {"malformed": 1}
        assert told["per_epsilon"] == {"500000": 0, "1000000": 1} and told["per_minute"][-1] == 1 and len(told["per_minute"]) == 60

    def test_a_form_trades_the_token_for_a_cookie_that_ends(self, sqlite):
        clock = Clock()

        async def conversation(client):
            entered = await client.post("/operator", data={"token": OPERATOR})
            cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
            inside = await client.get("/operator", headers=cookie)
            clock.now += 13 * 3600
            return entered, inside, await client.get("/operator", headers=cookie)

        entered, inside, late = talk(sqlite, conversation, clock=clock, secure=True)
        assert entered.status_code == 303 and entered.headers["location"] == "/operator"
        for part in ("HttpOnly", "SameSite=strict", "Secure"):
            assert part in entered.headers["set-cookie"]
        assert OPERATOR not in entered.headers["set-cookie"]
        assert inside.status_code == 200 and late.status_code == 401

    def test_a_page_that_cannot_be_made_is_a_problem_without_a_traceback(self, sqlite, caplog):
        def render(summary):
            raise ValueError("quoting somebody")

        answer = talk(sqlite, lambda client: client.get("/operator", headers={"authorization": f"Bearer {OPERATOR}"}), operator=render)
        assert_problem(answer, "internal")
        assert "ValueError" in caplog.text and "somebody" not in caplog.text

    def test_without_a_page_there_is_no_door(self, sqlite):
        assert_problem(talk(sqlite, lambda client: client.get("/operator"), operator=None), "not_found")


def test_nothing_of_a_report_reaches_any_log(sqlite, caplog):
    """Everything that everybody logs at the lowest level, over good, bad, repeated and failing reports."""
    caplog.set_level(logging.DEBUG)
    tokens = [secrets.token_hex(16) for _ in range(2)]
    sqlite.invite([hash_token(tokens[0])])
    lines = [
        report(token=tokens[0], features=marked(12345)),
        report(token=tokens[1]),
        report(label=9),
        report(features=marked(5)),
        b'{"secret-answer": "yes"}',
    ]
    real = sqlite.commit

    async def conversation(client):
        for line in (*lines, lines[0]):
            await send(client, line)
        await client.post("/v1/batches", content=b"\n".join(lines), headers=NDJSON)
        await client.get(f"/?t={tokens[0]}")

        def failing(entries):
            raise ValueError(repr(entries))

        sqlite.commit = sqlite.commit_at_once = failing
        await send(client, report())
        sqlite.commit = sqlite.commit_at_once = lambda entries: (_ for _ in ()).throw(StorageUnavailable("disk full"))
        await send(client, lines[0])
        sqlite.commit = sqlite.commit_at_once = real

    talk(sqlite, conversation)
    # httpx, the test's client, logs addresses; it is not part of the service.
    said = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert "disk full" in said and "ValueError" in said
    for line in lines[:4]:
        sent = json.loads(line)
        for secret in (sent["id"], sent["features"], sent["token"]):
            assert not secret or secret not in said
        assert bytes.fromhex(sent["id"]).decode("latin-1") not in said
    assert "secret-answer" not in said and "label" not in said
