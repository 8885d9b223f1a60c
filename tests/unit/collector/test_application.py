"""The service over HTTP, in this process: trouble, pages, the operator's login, and nothing about
people in any log.
"""

import hashlib
import json
import logging
import secrets

import pytest
from collecting import TRIAL, Clock, marked, report
from conversation import NDJSON, OPERATOR, assert_problem, send, talk

from pdml.collector.intake.report_rules import hash_token
from pdml.errors import StorageUnavailable


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
        assert [json.loads(line)["code"] for line in batch.content.splitlines()] == [
            "storage_unavailable",
            "malformed",
        ]
        assert after.status_code == 201

    def test_a_full_queue_says_later(self, sqlite):
        body = b"\n".join(report() for _ in range(11))

        async def conversation(client):
            batch = await client.post("/v1/batches", content=body, headers=NDJSON)
            return batch, await send(client, report())

        batch, single = talk(sqlite, conversation, capacity=10)
        assert {json.loads(line)["code"] for line in batch.content.splitlines()} == {
            "storage_unavailable"
        }
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
        assert (
            answer.content == b"<p>page</p>"
            and answer.headers["content-security-policy"] == "default-src 'none'"
        )

    def test_the_study_is_handed_out_with_its_hash(self, sqlite):
        answer = talk(sqlite, lambda client: client.get("/v1/study"))
        assert (
            answer.content == TRIAL.canonical() and answer.headers["pdml-study-hash"] == TRIAL.hash
        )
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
        assert (
            "pdml_collect_reports_stored_total 2" in text
            and "pdml_collect_reports_replayed_total 1" in text
        )
        assert "epsilon" not in text and "class" not in text and "label" not in text


OURS = {"authorization": f"Bearer {OPERATOR}"}


class TestMetrics:
    @pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1"])
    def test_this_machine_needs_no_token(self, sqlite, address):
        assert talk(sqlite, lambda client: client.get("/metrics"), address).status_code == 200

    @pytest.mark.parametrize(
        "address", ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "not an address"]
    )
    def test_others_do(self, sqlite, address):
        async def conversation(client):
            wrong = {"authorization": "Bearer wrong"}
            return [await client.get("/metrics", headers=headers) for headers in ({}, wrong, OURS)]

        without, wrong, ours = talk(sqlite, conversation, address)
        assert_problem(without, "unauthorized")
        assert_problem(wrong, "unauthorized")
        assert ours.status_code == 200

    @pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
    def test_behind_a_proxy_this_machine_may_be_anybody(self, sqlite, name):
        """One that the service was told of, and one that gives itself away."""
        assert_problem(
            talk(sqlite, lambda client: client.get("/metrics"), proxied=True), "unauthorized"
        )
        assert_problem(
            talk(sqlite, lambda client: client.get("/metrics", headers={name: "127.0.0.1"})),
            "unauthorized",
        )
        assert (
            talk(
                sqlite, lambda client: client.get("/metrics", headers=OURS), proxied=True
            ).status_code
            == 200
        )

    def test_without_an_operator_no_token_opens_them(self, sqlite):
        options = {"operator": None, "token": ""}
        answer = talk(
            sqlite,
            lambda client: client.get("/metrics", headers={"authorization": "Bearer "}),
            "192.0.2.1",
            **options,
        )
        assert_problem(answer, "unauthorized")


class TestOperator:
    def test_the_login_is_refused_without_the_token(self, sqlite):
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
            assert (
                answer.status_code == 401
                and "<form" in answer.text
                and "set-cookie" not in answer.headers
            )
        assert_problem(json_, "unauthorized")

    def test_a_header_opens_it(self, sqlite):
        async def conversation(client):
            await send(client, report(label=1, epsilon=1_000_000))
            await send(client, b"{}")
            headers = {"authorization": f"Bearer {OPERATOR}"}
            return await client.get("/operator", headers=headers), await client.get(
                "/operator.json", headers=headers
            )

        page, json_ = talk(sqlite, conversation)
        assert (
            page.text == "<p>1 reports"
            and "script-src" not in page.headers["content-security-policy"]
        )
        facts = json_.json()
        assert (
            facts["reports"] == 1
            and facts["per_class"] == [0, 1, 0]
            and facts["problems"] == {"malformed": 1}
        )
        assert facts["per_epsilon"] == {"400000": 0, "1000000": 1, "2000000": 0}
        assert facts["per_minute"][-1] == 1 and len(facts["per_minute"]) == 60

    def test_a_form_trades_the_token_for_a_cookie_that_ends(self, sqlite):
        clock = Clock()

        async def conversation(client):
            entered = await client.post("/operator", data={"token": OPERATOR})
            cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
            inside = await client.get("/operator", headers=cookie)
            clock.time += 13 * 3600
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

        answer = talk(
            sqlite,
            lambda client: client.get("/operator", headers={"authorization": f"Bearer {OPERATOR}"}),
            operator=render,
        )
        assert_problem(answer, "internal")
        assert "ValueError" in caplog.text and "somebody" not in caplog.text

    def test_without_a_page_there_is_no_login(self, sqlite):
        assert_problem(
            talk(sqlite, lambda client: client.get("/operator"), operator=None), "not_found"
        )


def test_nothing_of_a_report_reaches_any_log(sqlite, caplog):
    """Everything that everybody logs at the lowest level, over good, bad, repeated and failing
    reports.
    """
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
        sqlite.commit = sqlite.commit_at_once = lambda entries: (_ for _ in ()).throw(
            StorageUnavailable("disk full")
        )
        await send(client, lines[0])
        sqlite.commit = sqlite.commit_at_once = real

    talk(sqlite, conversation)
    # httpx, the test's client, logs addresses; it is not part of the service.
    said = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith("http")
    )
    assert "disk full" in said and "ValueError" in said
    for line in lines[:4]:
        sent = json.loads(line)
        for secret in (sent["id"], sent["features"], sent["token"]):
            assert not secret or secret not in said
        assert bytes.fromhex(sent["id"]).decode("latin-1") not in said
    assert "secret-answer" not in said and "label" not in said
