"""Every rule refuses what it should with its own code, and no bytes at all get past them or break
them.
"""

import base64
import hmac
import json
import math
import secrets

import numpy as np
import pytest
from collecting import NOW, TRIAL, packed, report
from hypothesis import example, given
from hypothesis import strategies as st

from pdml.collector.intake.report_rules import Refusal, Rules, hash_id, hash_token
from pdml.collector.storage.records import Entry
from pdml.errors import MessageError
from pdml.study.messages import ADMITTED, PROBLEMS, decode_invitation, decode_report, features_of

RULES = Rules.of(TRIAL, require_tokens=False)
INVITED = Rules.of(TRIAL, require_tokens=True)
NANS = [
    np.nan,
    np.inf,
    -np.inf,
    np.array([0x7F800001], dtype="<u4").view("<f4")[0],
]  # the last one signals


def one(line, now=NOW, rules=RULES):
    (read,) = rules.read([line], now)
    return read


def test_a_good_report_becomes_its_entry():
    line = report(label=2, epsilon=1_000_000, token="ab" * 16)
    sent = decode_report(line)
    read = one(line)
    assert isinstance(read, Entry)
    assert (read.id, read.report) == (hash_id(sent.id), sent.id)
    assert (read.epsilon, read.label) == (1_000_000, 2)
    assert read.mac == hmac.digest(bytes.fromhex(sent.nonce), line, "sha256")
    assert read.features == features_of(sent).tobytes()
    assert (
        read.token == hash_token("ab" * 16)
        and read.hour == int(NOW // 3600)
        and read.closed_reason is None
    )


def test_an_invitation_is_kept_as_a_hash():
    """Whoever reads a database cannot answer for somebody else."""
    token = "ab" * 16
    kept = hash_token(token)
    assert len(kept) == 32 and kept != hash_token("ac" * 16)
    assert token.encode() not in kept and bytes.fromhex(token) not in kept


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("wrong_version", {"version": 0}),
        ("wrong_version", {"version": 2}),
        ("malformed", {"nonce": ""}),
        ("malformed", {"nonce": "AB" * 16}),
        ("wrong_study", {"study": "0" * 64}),
        ("wrong_study", {"study": "short"}),
        ("bad_id", {"id": "A" * 32}),
        ("bad_id", {"id": "a" * 31}),
        ("epsilon_not_on_menu", {"epsilon": 400_001}),
        ("epsilon_not_on_menu", {"epsilon": -1}),
        ("bad_label", {"label": 3}),
        ("bad_label", {"label": -1}),
        ("bad_features", {"features": packed([0.1] * 4)}),
        ("bad_features", {"features": packed([0.1] * 6)}),
        ("bad_features", {"features": "not base64!"}),
        ("bad_features", {"features": ""}),
        ("bad_features", {"features": packed([0.9, 0.9, 0.0, 0.0, 0.1])}),
        ("bad_features", {"features": packed([0.1, 0.1, 0.0, 0.0, 0.0])}),
        ("bad_features", {"features": packed([0.1, 0.1, 0.0, 0.0, -0.5])}),
        (
            "bad_features",
            {"features": packed([np.nextafter(np.float32(1), np.float32(2)), 0, 0, 0, 1e-30])},
        ),
        *[("bad_features", {"features": packed([value, 0.0, 0.0, 0.0, 0.1])}) for value in NANS],
        *[("bad_features", {"features": packed([0.1, 0.0, 0.0, 0.0, value])}) for value in NANS],
        ("token_unknown", {"token": "x" * 32}),
    ],
)
def test_each_rule_has_its_code(code, changes):
    read = one(report(**changes))
    assert isinstance(read, Refusal) and read.code == code
    # In a batch the way is another one; the verdict must not be.
    first, again, last = RULES.read([report(), report(**changes), report()], NOW)
    assert again.code == code and isinstance(first, Entry) and isinstance(last, Entry)


def test_no_machine_can_find_a_stored_report_too_long():
    """A norm is admitted only if every order of summation finds it at most 1: an export must never
    fail on a stored report.
    """
    assert one(report(features=packed([0.0, 0.0, 0.0, 0.0, 1.0]))).code == "bad_features"
    rng = np.random.default_rng(0)
    longest = 0.0
    for scale in np.linspace(1 - 2**-19, 1, 200):
        entries = rng.normal(size=TRIAL.width)
        entries[-1] = abs(entries[-1]) + 0.1
        entries = (entries / np.linalg.norm(entries) * scale).astype(np.float32)
        line = report(features=packed(entries))
        verdicts = {type(one(line)), type(RULES.read([line, report()], NOW)[0])}
        assert len(verdicts) == 1  # alone and in a batch alike
        if verdicts == {Entry}:
            longest = max(longest, math.fsum(float(e) ** 2 for e in entries))
    assert 1 - 2**-18 < longest < 1 - 2**-22


SAME = report(id="ab" * 16)  # parameters must be the same in every worker


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"null",
        b"[1]",
        b"\xff\xfe",
        b'{"version":1}',
        SAME[:-1],
        SAME + b"x",
        b'{"a":' * 5000,
    ]
    + [
        SAME.replace(b'"label":0', b'"label":' + each)
        for each in (b'"0"', b"0.5", b"true", b"null", b"1e1")
    ]
    + [SAME.replace(b'"label":0', b'"label":0,"true_label":1')],
)
def test_what_is_no_report_is_malformed(line):
    assert one(line).code in ("malformed", "too_large")


FIELDS = json.loads(SAME)


@pytest.mark.parametrize("token", ["", "ab" * 16])
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_there_twice_is_malformed(name, token):
    """Which of the two counts would be anybody's guess; also where the other one hides behind an
    escape or takes the token's place.
    """
    fields = {**FIELDS, "token": token}
    other = {**fields, "label": 1, "id": "cd" * 16, "epsilon": TRIAL.epsilon_micro[1]}
    once = ",".join(f'"{key}":{json.dumps(value)}' for key, value in fields.items())
    again = f'"{name}":{json.dumps(other[name])}'
    hidden = again.replace(name, "".join(f"\\u{ord(letter):04x}" for letter in name), 1)
    assert isinstance(one(f"{{{once}}}".encode()), Entry)
    for twice in (
        f"{{{once},{again}}}",
        f"{{{again},{once}}}",
        f"{{{once},{hidden}}}",
        f"{{ {hidden} , {once} }}",
    ):
        assert one(twice.encode()).code == "malformed", twice


def test_an_invitation_has_one_token():
    good = {"token": "ab" * 16}
    assert decode_invitation(json.dumps(good, indent=2).encode()).token == "ab" * 16
    for name in ("token", "\\u0074oken"):
        with pytest.raises(MessageError, match="must be there once"):
            decode_invitation(f'{{"token":"{"ab" * 16}","{name}":"{"cd" * 16}"}}'.encode())


def test_spaces_and_another_order_are_no_matter():
    shuffled = dict(reversed(FIELDS.items()))
    assert isinstance(one(json.dumps(shuffled, indent=3).encode()), Entry)


def test_size_is_looked_at_before_the_content():
    assert one(b" " * (RULES.max_report + 1)).code == "too_large"
    assert isinstance(one(report().ljust(RULES.max_report)), Entry)


def test_tokens_are_needed_where_they_are():
    assert one(report(), rules=INVITED).closed_reason == "token_missing"
    assert isinstance(one(report(token=secrets.token_hex(16)), rules=INVITED), Entry)


@pytest.mark.parametrize(("offset", "barred"), [(-1, "too_early"), (0, None)])
def test_the_study_opens(offset, barred):
    assert one(report(), TRIAL.opens.timestamp() + offset).closed_reason == barred


@pytest.mark.parametrize(("offset", "barred"), [(-1, None), (0, "closed")])
def test_and_closes(offset, barred):
    assert one(report(), TRIAL.closes.timestamp() + offset).closed_reason == barred


def test_all_codes_are_in_the_table():
    assert {
        "id_conflict",
        "token_used",
        "storage_unavailable",
        "closed",
        "frozen",
        "too_early",
        "internal",
    } <= set(PROBLEMS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=6,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(1) | json_values,
        "study": st.just(TRIAL.hash) | json_values,
        "id": st.just("ab" * 16) | json_values,
        "epsilon": st.just(TRIAL.epsilon_micro[0]) | json_values,
        "label": st.integers(0, 2) | json_values,
        "features": st.binary(max_size=24).map(lambda raw: base64.b64encode(raw).decode())
        | json_values,
        "token": st.just("") | json_values,
        "extra": json_values,
    },
)


@given(
    st.lists(
        st.binary(max_size=300) | fields.map(lambda each: json.dumps(each).encode()),
        min_size=1,
        max_size=4,
    )
)
def test_no_bytes_break_the_rules(lines):
    """Each line gets an entry that obeys every rule, or a refusal from the table; and the company
    it is in changes nothing.
    """
    together = RULES.read(lines, NOW)
    assert together == [one(line) for line in lines]
    for read in together:
        if isinstance(read, Refusal):
            assert read.code in PROBLEMS
        else:
            features = np.frombuffer(read.features, dtype="<f4").astype(float)
            assert (
                len(features) == TRIAL.width
                and np.isfinite(features).all()
                and features @ features <= 1
                and features[-1] > 0
            )
            assert (
                read.epsilon in TRIAL.epsilon_micro and 0 <= read.label < 3 and len(read.id) == 16
            )


@given(st.lists(st.floats(width=32), min_size=TRIAL.width, max_size=TRIAL.width))
@example([0.0, 0.0, 0.0, 0.0, 1 - 2.0**-24])  # the largest below 1, and still too large
def test_features_are_accepted_exactly_if_they_may_be(values):
    exact = np.asarray(values, dtype="<f4").astype(float)
    total = float(np.sum(exact * exact))
    read = one(report(features=packed(values)))
    if not np.isfinite(exact).all() or total > ADMITTED + 1e-12 or not exact[-1] > 0:
        assert read.code == "bad_features"
    elif total < ADMITTED - 1e-12:
        assert isinstance(read, Entry)
