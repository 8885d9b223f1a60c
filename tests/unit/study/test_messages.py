"""The wire types: exact inverses, one spelling, and nothing but MessageError for any bytes."""

import base64
import json
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.errors import InvalidInput, MessageError
from pdml.study import messages
from pdml.study.messages import PROBLEMS, Problem, Receipt, Report, is_loopback, max_report_bytes

hexes = st.integers(0, 2**128 - 1).map(lambda bits: f"{bits:032x}")
entries = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    agreed = draw(st.booleans())
    return Report(
        version=1,
        study=draw(hexes) + draw(hexes),
        id=draw(hexes),
        nonce=draw(hexes),
        epsilon=draw(st.integers(1, 2**53 - 1)),
        label=draw(st.integers(0, 2**31 - 1)),
        features=messages.pack_features(np.array(draw(entries), dtype=np.float32)),
        token=draw(st.just("") | hexes),
        consent=draw(hexes) + draw(hexes) if agreed else "",
        consent_version=draw(st.from_regex(r"\A[a-z0-9][a-z.-]{0,15}\Z")) if agreed else "",
    )


GOOD: dict[str, Any] = {
    "version": 1,
    "study": "ab" * 32,
    "id": "0f" * 16,
    "nonce": "1e" * 16,
    "epsilon": 1_000_000,
    "label": 1,
    "features": messages.pack_features(np.array([0.5, 0.5], dtype=np.float32)),
    "token": "",
    "consent": "",
    "consent_version": "",
}


@given(reports())
def test_reports_survive_the_way(report: Report) -> None:
    data = messages.encode_report(report)
    assert messages.decode_report(data) == report
    assert messages.encode_report(messages.decode_report(data)) == data
    assert list(json.loads(data)) == [
        "version",
        "study",
        "id",
        "nonce",
        "epsilon",
        "label",
        "features",
        "token",
        "consent",
        "consent_version",
    ]
    assert b" " not in data and len(data) <= max_report_bytes(len(messages.features_of(report)))


@pytest.mark.parametrize("missing", ["token", "consent", "consent_version"])
def test_a_report_says_everything(missing: str) -> None:
    data = json.dumps({key: value for key, value in GOOD.items() if key != missing}).encode()
    with pytest.raises(MessageError, match="each field must be there once"):
        messages.decode_report(data)


def test_whoever_knows_the_number_of_a_report_does_not_know_its_code() -> None:
    """The id is a hash of the code, the same in a browser; never the code itself."""
    code = "0f" * 16
    assert messages.report_id(code) == "6718a052e0c7108b0995fbfb6c0f5209"
    assert messages.report_id("0e" * 16) != messages.report_id(code) != code


def test_the_number_and_the_code_and_what_repeats_a_report_tell_nothing_of_each_other() -> None:
    code = "0f" * 16
    nonce = messages.report_nonce(code)
    assert len(nonce) == 32 and nonce not in (code, messages.report_id(code))
    assert nonce != messages.report_nonce("0e" * 16)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"code":"%s"}' % (b"0F" * 16), "withdrawal_unknown"),
        (b'{"code":"%s"}' % (b"0f" * 15), "withdrawal_unknown"),
        (b'{"code":"%s","code":"%s"}' % (b"0e" * 16, b"0f" * 16), "malformed"),
        (b"{}", "malformed"),
        (b'{"id":"%s"}' % (b"0f" * 16), "malformed"),
    ],
)
def test_withdrawals_of_a_wrong_form(data: bytes, code: str) -> None:
    with pytest.raises(MessageError) as caught:
        messages.decode_withdrawal(data)
    assert caught.value.code == code


def test_withdrawals_survive_the_way() -> None:
    asked = messages.decode_withdrawal(messages.encode_withdrawal("0f" * 16))
    assert asked.code == "0f" * 16


def test_the_size_says_nothing_about_the_answers() -> None:
    rng = np.random.default_rng(0)
    sizes = {
        len(
            messages.encode_report(
                Report(**{**GOOD, "label": label, "features": messages.pack_features(row)})
            )
        )
        for row in rng.random((50, 105), dtype=np.float32)
        for label in range(10)
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(
    "change, code",
    [
        ({"version": 2}, "wrong_version"),
        ({"version": 0}, "wrong_version"),
        ({"nonce": ""}, "malformed"),
        ({"nonce": "1E" * 16}, "malformed"),
        ({"version": 10**30}, "wrong_version"),
        ({"version": 1.5}, "malformed"),
        ({"version": "1"}, "malformed"),
        ({"study": "AB" * 32}, "wrong_study"),
        ({"study": "ab" * 32 + "\n"}, "wrong_study"),
        ({"study": None}, "malformed"),
        ({"id": "0f" * 15}, "bad_id"),
        ({"id": "0F" * 16}, "bad_id"),
        ({"id": "٣" * 32}, "bad_id"),
        ({"epsilon": 0}, "epsilon_not_on_menu"),
        ({"epsilon": -1}, "epsilon_not_on_menu"),
        ({"epsilon": 0.5}, "malformed"),
        ({"epsilon": True}, "malformed"),
        ({"label": -1}, "bad_label"),
        ({"label": 2**31}, "bad_label"),
        ({"label": "yes"}, "malformed"),
        ({"token": "x"}, "token_unknown"),
        ({"consent": "ab" * 32}, "wrong_consent"),
        ({"consent_version": "1"}, "wrong_consent"),
        ({"consent": "AB" * 32, "consent_version": "1"}, "wrong_consent"),
        ({"consent": "ab" * 32, "consent_version": "x" * 17}, "wrong_consent"),
        ({"consent": "ab" * 32, "consent_version": "a b"}, "wrong_consent"),
        ({"features": 3}, "malformed"),
        ({"true_label": 1}, "malformed"),
    ],
)
def test_reports_of_a_wrong_form(change: dict[str, Any], code: str) -> None:
    with pytest.raises(MessageError) as caught:
        messages.decode_report(json.dumps({**GOOD, **change}).encode())
    assert caught.value.code == code


@pytest.mark.parametrize("missing", sorted(GOOD.keys() - {"token", "consent", "consent_version"}))
def test_reports_with_something_missing(missing: str) -> None:
    with pytest.raises(MessageError, match=missing) as caught:
        messages.decode_report(
            json.dumps({key: value for key, value in GOOD.items() if key != missing}).encode()
        )
    assert caught.value.code == "malformed"


def test_complaints_do_not_quote_values() -> None:
    """They end up in logs, and a value may be somebody's."""
    for change in (
        {"label": "secret"},
        {"label": -8765},
        {"features": "secret"},
        {"token": "secret"},
        {"id": "secret"},
        {"epsilon": "secret"},
    ):
        with pytest.raises(MessageError) as caught:
            messages.features_of(messages.decode_report(json.dumps({**GOOD, **change}).encode()))
        assert "secret" not in str(caught.value) and "8765" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*GOOD, "x"]), inner, max_size=8)
    ),
    max_leaves=12,
)
any_bytes = st.binary(max_size=80) | json_values.map(
    lambda value: json.dumps(value).encode("utf-8", "surrogatepass")
)


@given(any_bytes)
@settings(max_examples=300)
def test_any_bytes_are_a_message_or_a_message_error(data: bytes) -> None:
    for decode in (messages.decode_report, messages.decode_answer):
        with pytest.raises(MessageError) as caught:
            decode(data)
        assert caught.value.code in PROBLEMS


@given(
    st.binary(max_size=60) | any_bytes,
    st.integers(0, 400),
    st.sampled_from([b"", b'"', b"\xff", b"{", b"0"]),
)
def test_damaged_reports_are_a_message_error_or_another_report(
    junk: bytes, at: int, cut: bytes
) -> None:
    data = messages.encode_report(Report(**GOOD))
    damaged = data[:at] + cut + junk + data[at:]
    try:
        report = messages.decode_report(damaged)
    except MessageError as error:
        assert error.code in PROBLEMS
    else:
        assert messages.decode_report(messages.encode_report(report)) == report


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b"[]",
        b"null",
        b"",
        b"\xef\xbb\xbf{}",
        b'{"version":' + b"9" * 5000 + b"}",
    ],
)
def test_deep_and_empty_json(data: bytes) -> None:
    with pytest.raises(MessageError):
        messages.decode_report(data)


# Features


@given(entries)
def test_features_survive_to_the_bit(values: list[float]) -> None:
    array = np.array(values, dtype=np.float32)
    packed = messages.pack_features(array)
    assert base64.b64decode(packed, validate=True) == array.astype("<f4").tobytes()
    assert messages.unpack_features(packed).tobytes() == array.tobytes()
    assert messages.pack_features(array.astype(">f4")) == packed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "AAAA",
        "AAAAAA",
        "AAAAAA=",
        "AAAAAA==\n",
        " AAAAAA==",
        "AAAAAB==",
        "AAAAAA==AAAA",
        "AAA_AA==",
        "é",
        "AAAA\x00AA==",
    ],
)
def test_other_spellings_of_features_are_refused(text: str) -> None:
    """AAAAAB== has bits that nobody reads: the same features would have two reports."""
    with pytest.raises(MessageError) as caught:
        messages.unpack_features(text)
    assert caught.value.code == "bad_features"


@given(st.text(max_size=30))
def test_any_text_is_features_or_a_message_error(text: str) -> None:
    try:
        features = messages.unpack_features(text)
    except MessageError as error:
        assert error.code == "bad_features"
    else:
        assert messages.pack_features(features) == text


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3),
        np.zeros((2, 2), dtype=np.float32),
        np.zeros(0, dtype=np.float32),
        np.zeros(3, dtype=np.int32),
    ],
)
def test_only_float32_vectors_are_packed(array: Any) -> None:
    with pytest.raises(InvalidInput, match="vector of float32"):
        messages.pack_features(array)


def test_acceptable_rows() -> None:
    huge, tiny = np.finfo(np.float32).max, np.nextafter(np.float32(1), np.float32(2))
    rows = np.array(
        [
            [0.5, 0.5],
            [0, 1],
            [0, tiny],
            [0.8, 0.61],
            [np.nan, 0.5],
            [np.inf, 0.5],
            [-np.inf, 0.5],
            [huge, 0.5],
            [0.5, 0],
            [0.5, -0.5],
            [-0.5, 0.5],
        ],
        dtype=np.float32,
    )
    assert messages.acceptable(rows).tolist() == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
        False,
        False,
        False,
        True,
    ]


# Answers

hashes = st.integers(0, 2**256 - 1).map(lambda bits: f"{bits:064x}")
hours = st.datetimes(min_value=datetime(1970, 1, 1)).map(lambda time: time.strftime("%Y-%m-%dT%HZ"))
printable = st.text(st.characters(codec="utf-8").filter(str.isprintable), max_size=100)
RECEIPT = Receipt(
    id="ab" * 16, study="cd" * 32, server="alice", digest="ef" * 32, hour="2026-03-01T14Z"
)


@given(
    st.builds(
        Receipt, id=hexes, study=hashes, server=printable.filter(bool), digest=hashes, hour=hours
    ),
    st.sampled_from(sorted(PROBLEMS)),
    printable,
)
def test_answers_survive_the_way(receipt: Receipt, code: str, detail: str) -> None:
    problem = messages.problem(code, detail, receipt.id)
    for answer in (receipt, problem):
        assert messages.decode_answer(msgspec.json.encode(answer)) == answer
    lines = messages.split_batch(msgspec.json.Encoder().encode_lines([receipt, problem, receipt]))
    assert [messages.decode_answer(line) for line in lines] == [receipt, problem, receipt]


@pytest.mark.parametrize("field", ["id", "study", "server", "digest", "hour"])
@pytest.mark.parametrize("change", ["{}\x1b[2J", "{}\n", "\u202e{}", "", "{}\x9b"])
def test_a_receipt_holds_nothing_but_what_it_should(field: str, change: str) -> None:
    assert messages.decode_answer(msgspec.json.encode(RECEIPT)) == RECEIPT
    forged = msgspec.structs.replace(RECEIPT, **{field: change.format(getattr(RECEIPT, field))})
    with pytest.raises(MessageError, match="receipt must hold"):
        messages.decode_answer(msgspec.json.encode(forged))
    with pytest.raises(MessageError):
        messages.decode_answer(
            msgspec.json.encode(msgspec.structs.replace(RECEIPT, server="a" * 201))
        )


@given(st.sampled_from(sorted(PROBLEMS)), st.text(), st.text(), st.text(), st.text())
def test_a_problem_is_told_in_our_words_and_without_controls(
    known: str, title: str, type: str, detail: str, id: str
) -> None:
    for code in (known, "made_up"):
        said = Problem(type, title, 400, code, detail, id)
        answer = messages.decode_answer(msgspec.json.encode(said))
        assert isinstance(answer, Problem) and (answer.code, answer.status) == (code, 400)
        assert all(
            text.isprintable() for text in (answer.type, answer.title, answer.detail, answer.id)
        )
        assert (
            answer.title == PROBLEMS[known].title
            if code == known
            else len(answer.title) == len(title)
        )
    with pytest.raises(MessageError, match="code"):
        messages.decode_answer(msgspec.json.encode(Problem("t", "t", 400, "closed\x1b[2J")))


def test_the_table_of_problems() -> None:
    for code, kind in PROBLEMS.items():
        problem = messages.problem(code)
        assert (problem.code, problem.status, problem.title, problem.type) == (
            code,
            kind.status,
            kind.title,
            f"urn:pdml:problem:{code}",
        )
        assert 400 <= kind.status < 600 and kind.title.endswith(".")
    with pytest.raises(KeyError):
        messages.problem("unheard_of")
    assert isinstance(
        messages.decode_answer(msgspec.json.encode(messages.problem("closed"))), Problem
    )


@pytest.mark.parametrize(
    "data, lines",
    [(b"", []), (b"a", [b"a"]), (b"a\n", [b"a"]), (b"a\n\nb\n", [b"a", b"", b"b"]), (b"\n", [b""])],
)
def test_every_line_of_a_batch_counts(data: bytes, lines: list[bytes]) -> None:
    assert messages.split_batch(data) == lines


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost")),
        *(
            (host, False)
            for host in (
                "0.0.0.0",
                "::",
                "192.168.1.5",
                "127.0.0.1.example",
                "localhost.example.org",
                "a.localhost",
                "",
            )
        ),
    ],
)
def test_what_only_this_machine_can_reach(host, loopback):
    assert is_loopback(host) is loopback
