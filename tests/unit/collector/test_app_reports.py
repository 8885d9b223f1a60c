"""Reports over HTTP, one by one and in batches: answers, statuses, sizes."""

import asyncio
import hashlib
import json
import secrets

import pytest
from collecting import TRIAL, Clock, InProcess, report
from conversation import JSON, NDJSON, assert_problem, create, send, talk

from pdml.collector.intake.report_rules import hash_id, hash_token
from pdml.study.messages import MAX_BATCH


class TestReports:
    def test_the_first_time_again_and_otherwise(self, sqlite):
        line = report()
        clock = Clock()

        async def conversation(client):
            first = await send(client, line)
            clock.time += 7200
            return (
                first,
                await send(client, line),
                await send(client, line.replace(b'"label":0', b'"label":1')),
            )

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
        [
            (b"{}", "malformed"),
            (report(id="ab" * 16, label=9), "bad_label"),
            (b" " * 10_000, "too_large"),
        ],
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
            lines = [
                report(),
                report(token=secrets.token_hex(16)),
                report(token=token),
                report(token=token),
            ]
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

    @pytest.mark.parametrize(
        ("moment", "code"),
        [(TRIAL.opens.timestamp() - 1, "too_early"), (TRIAL.closes.timestamp(), "closed")],
    )
    def test_outside_the_opening_times_only_repetitions_are_answered(self, sqlite, moment, code):
        clock, line = Clock(), report()

        async def conversation(client):
            await send(client, line)
            clock.time = moment
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
            sqlite.withdraw(hash_id(json.loads(line)["id"]))
            return await send(client, line)

        answer = talk(sqlite, conversation)
        assert_problem(answer, "id_conflict")
        assert "withdrawn" in answer.json()["detail"] and sqlite.totals().reports == 0

    @pytest.mark.parametrize(
        "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
    )
    def test_content_types_that_any_site_could_post_are_refused(self, sqlite, kind):
        answer = talk(
            sqlite,
            lambda client: client.post(
                "/v1/reports", content=report(), headers={"content-type": kind}
            ),
        )
        assert_problem(answer, "unsupported_type")
        assert sqlite.totals().reports == 0

    def test_a_charset_is_no_other_type(self, sqlite):
        good = {"content-type": "Application/JSON; charset=utf-8"}
        assert (
            talk(
                sqlite, lambda client: client.post("/v1/reports", content=report(), headers=good)
            ).status_code
            == 201
        )


class TestSizes:
    def test_a_declared_length_is_refused_before_a_byte_is_read(self, sqlite):
        async def main():
            app, sent = create(sqlite), []

            async def receive():
                raise AssertionError("nothing must be read")

            async def sender(message):
                sent.append(message)

            async with InProcess(app):
                headers = [
                    (b"content-type", b"application/json"),
                    (b"content-length", b"99999999999999999999"),
                ]
                await app(
                    {"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers},
                    receive,
                    sender,
                )
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

        answer = talk(
            sqlite, lambda client: client.post("/v1/reports", content=endless(), headers=JSON)
        )
        assert_problem(answer, "too_large")
        assert read < 10_000

    def test_pieces_make_one_report(self, sqlite):
        async def pieces():
            for byte in report():
                yield bytes([byte])

        assert (
            talk(
                sqlite, lambda client: client.post("/v1/reports", content=pieces(), headers=JSON)
            ).status_code
            == 201
        )

    def test_a_client_that_leaves_gets_nothing_and_breaks_nothing(self, sqlite):
        async def main():
            app, sent = create(sqlite), []
            messages = iter(
                [
                    {"type": "http.request", "body": b"{", "more_body": True},
                    {"type": "http.disconnect"},
                ]
            )

            async def receive():
                return next(messages)

            async with InProcess(app) as client:
                headers = [(b"content-type", b"application/json")]
                await app(
                    {"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers},
                    receive,
                    sent.append,
                )
                return sent, await send(client, report())

        sent, answer = asyncio.run(main())
        assert sent == [] and answer.status_code == 201


class TestBatches:
    def test_every_line_is_answered_in_order(self, sqlite):
        good, bad = report(), report(label=8)
        lines = [
            good,
            b"nonsense",
            bad,
            good,
            report(),
            b"",
            good.replace(b'"label":0', b'"label":1'),
        ]

        async def conversation(client):
            return await client.post(
                "/v1/batches", content=b"\n".join(lines) + b"\n", headers=NDJSON
            )

        answer = talk(sqlite, conversation)
        assert (
            answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
        )
        summary = [json.loads(line) for line in answer.content.splitlines()]
        assert [each.get("code", "receipt") for each in summary] == [
            "receipt",
            "malformed",
            "bad_label",
            "receipt",
            "receipt",
            "malformed",
            "id_conflict",
        ]
        assert summary[0] == summary[3] and summary[2]["id"] == json.loads(bad)["id"]
        assert sqlite.totals().reports == 2

    @pytest.mark.parametrize("ending", [b"", b"\n"])
    def test_the_last_newline_may_be_missing(self, sqlite, ending):
        body = b"\n".join([report(), report()]) + ending
        answer = talk(
            sqlite, lambda client: client.post("/v1/batches", content=body, headers=NDJSON)
        )
        assert len(answer.content.splitlines()) == 2 == sqlite.totals().reports

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"", "malformed"),
            (b"x\n" * (MAX_BATCH + 1), "batch_too_long"),
            (b" " * 3_000_000, "too_large"),
        ],
    )
    def test_no_batch_at_all(self, sqlite, body, code):
        assert_problem(
            talk(sqlite, lambda client: client.post("/v1/batches", content=body, headers=NDJSON)),
            code,
        )

    def test_the_longest_batch_is_stored(self, sqlite):
        body = b"".join(report() + b"\n" for _ in range(MAX_BATCH))
        talk(sqlite, lambda client: client.post("/v1/batches", content=body, headers=NDJSON))
        assert sqlite.totals().reports == MAX_BATCH
