"""Downloads from a real server that breaks off, lies, stays silent or sends something else."""

import hashlib
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import Site, serve

from pdml.datasets.download import Patience, Unavailable, download
from pdml.errors import DataError

CONTENT = random.Random(1).randbytes(300_000)
QUICK = Patience(attempts=3, timeout=5, wait=0.001, longest_wait=0.002)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def right(content: bytes) -> str:
    if content != CONTENT:
        raise DataError("it has another digest")
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        site.files["/file"] = CONTENT
        yield site


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "file.part"


def get(
    site: Site, part: Path, patience: Patience = QUICK, most: int = len(CONTENT), **options: Any
) -> str:
    options = {"unpack": right, "tell": lambda done, total: None} | options
    return download(f"{site.url}/file", part, most=most, patience=patience, **options)


def test_gives_what_is_right_tells_how_far_it_is_and_leaves_nothing(site: Site, part: Path) -> None:
    told: list[tuple[int, int | None]] = []
    assert get(site, part, tell=lambda done, total: told.append((done, total))) == DIGEST
    assert (
        told[0] == (0, len(CONTENT))
        and told[-1] == (len(CONTENT), len(CONTENT))
        and told == sorted(told)
    )
    assert list(part.parent.iterdir()) == [] and site.asked == [("/file", None)]


def test_continues_after_each_break(site: Site, part: Path) -> None:
    """More breaks than attempts: an attempt that brought something new is not held against the
    server.
    """
    site.script["/file"] = [
        {"cut": 50_000},
        {"cut": 1},
        {"cut": 100_000},
        {"cut": 7},
        {"cut": 20_000},
    ]
    get(site, part)
    assert [asked for _, asked in site.asked] == [
        None,
        *(f"bytes={n}-" for n in (50_000, 50_001, 150_001, 150_008, 170_008)),
    ]


@settings(max_examples=40)
@given(
    cuts=st.lists(st.integers(1, 60_000), max_size=4), ranges=st.booleans(), tagged=st.booleans()
)
def test_any_breaks_give_the_same_bytes(
    cuts: list[int], ranges: bool, tagged: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serve() as site:
        site.files["/file"], site.ranges, site.etag = CONTENT, ranges, '"one"' if tagged else None
        site.script["/file"] = [{"cut": cut} for cut in cuts]
        patience = Patience(attempts=6, timeout=5, wait=0, longest_wait=0)
        assert get(site, tmp_path_factory.mktemp("any") / "file.part", patience) == DIGEST


def test_continues_what_an_earlier_process_left(site: Site, part: Path) -> None:
    def interrupted(done: int, total: int | None) -> None:
        if done > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(site, part, tell=interrupted)
    left = part.stat().st_size
    assert 0 < left < len(CONTENT)
    get(site, part)
    assert site.asked[-1] == ("/file", f"bytes={left}-")


def test_starts_again_if_the_file_changed_meanwhile(site: Site, part: Path) -> None:
    site.files["/file"], site.etag = bytes(200_000), '"old"'
    site.script["/file"] = [{"cut": 90_000}, {"status": 404}]
    with pytest.raises(Unavailable, match="404"):
        get(site, part)
    assert part.stat().st_size == 90_000
    site.files["/file"], site.etag = CONTENT, '"new"'
    get(site, part)
    assert site.asked[-1] == (
        "/file",
        "bytes=90000-",
    )  # asked under If-Range, answered with the whole


def test_starts_again_once_if_the_joined_parts_are_wrong(site: Site, part: Path) -> None:
    site.etag = None  # so that the server cannot notice
    site.script["/file"] = [{"body": bytes(len(CONTENT)), "cut": 10_000}]
    get(site, part)
    assert [asked for _, asked in site.asked] == [None, "bytes=10000-", None]


@pytest.mark.parametrize("broken", [False, True])
def test_gives_an_address_up_that_sends_something_else(
    site: Site, part: Path, broken: bool
) -> None:
    site.files["/file"] = b"<html>Please log in</html>"
    site.script["/file"] = [{"cut": 5}, {}, {"cut": 5}] * broken
    with pytest.raises(Unavailable, match=r"/file gives something else \(it has another digest\)"):
        get(site, part)
    assert not part.exists() and len(site.asked) == (4 if broken else 1)


def test_a_complete_part_needs_no_byte_more(site: Site, part: Path) -> None:
    part.write_bytes(CONTENT)
    part.with_suffix(".json").write_text(f'{{"url": "{site.url}/file", "validator": ""}}')
    get(site, part)
    assert site.asked == [("/file", f"bytes={len(CONTENT)}-")]  # answered with 416


@pytest.mark.parametrize("left", [CONTENT + b"more", b"x" * 400_000])
def test_a_part_that_is_too_long_is_dropped(site: Site, part: Path, left: bytes) -> None:
    part.write_bytes(left)
    part.with_suffix(".json").write_text(f'{{"url": "{site.url}/file", "validator": ""}}')
    get(site, part)
    assert [asked for _, asked in site.asked] == [f"bytes={len(left)}-", None]


@pytest.mark.parametrize(
    "note", [None, "", "[]", '{"url": "http://elsewhere/file", "validator": ""}']
)
def test_a_part_of_unknown_origin_is_dropped(site: Site, part: Path, note: str | None) -> None:
    part.write_bytes(b"unknown")
    if note is not None:
        part.with_suffix(".json").write_text(note)
    get(site, part)
    assert site.asked == [("/file", None)]


def test_a_continuation_at_another_byte_is_not_taken(site: Site, part: Path) -> None:
    site.script["/file"] = [{"cut": 1000}, {"shift": 1}]
    get(site, part)
    assert [asked for _, asked in site.asked] == [None, "bytes=1000-", None]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_tries_again_what_may_pass(site: Site, part: Path, status: int) -> None:
    site.script["/file"] = [
        {"status": status, "headers": {"Retry-After": "3600"}}
    ] * 2  # as long as patience allows, not an hour
    get(site, part)
    assert len(site.asked) == 3


def test_gives_up_after_its_attempts(site: Site, part: Path) -> None:
    site.script["/file"] = [{"status": 503}] * 9
    with pytest.raises(Unavailable, match=r"/file answers 503 Service Unavailable"):
        get(site, part)
    assert len(site.asked) == QUICK.attempts


def test_a_byte_now_and_then_does_not_hold_us_for_ever(site: Site, part: Path) -> None:
    """Each attempt brings a byte more, so that none counts as a failure; the part stays for the
    next call.
    """
    site.script["/file"] = [{"cut": 1}] * 300
    with pytest.raises(Unavailable, match=r"/file is not done after 0\.2 seconds"):
        get(site, part, Patience(attempts=3, timeout=5, wait=0.01, longest_wait=0.01, longest=0.2))
    assert part.stat().st_size < 300
    site.script["/file"].clear()
    get(site, part)


def test_one_slow_answer_has_an_end_too(site: Site, part: Path) -> None:
    with pytest.raises(Unavailable, match=r"/file is not done after 0\.01 seconds"):
        get(site, part, replace(QUICK, longest=0.01), tell=lambda done, total: time.sleep(0.02))
    assert len(site.asked) == 1


def test_waits_longer_each_time(site: Site, part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    site.script["/file"] = (
        [{"status": 503}] * 3
        + [{"status": 503, "headers": {"Retry-After": "5"}}]
        + [{"status": 503}] * 3
    )
    with pytest.raises(Unavailable):
        get(site, part, Patience(attempts=7, wait=1, longest_wait=10))
    assert waits == [1, 2, 4, 8, 10, 10]
    site.script["/file"] = [{"status": 503, "headers": {"Retry-After": "5"}}]
    waits.clear()
    get(site, part, Patience(attempts=7, wait=1, longest_wait=10))
    assert waits == [5]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_does_not_ask_again_what_is_refused(site: Site, part: Path, status: int) -> None:
    site.script["/file"] = [{"status": status}]
    with pytest.raises(Unavailable, match=f"answers {status}"):
        get(site, part)
    assert len(site.asked) == 1


def test_a_silent_server_is_left_and_asked_again(site: Site, part: Path) -> None:
    site.script["/file"] = [{"cut": 1000, "silent": True}]
    get(site, part, Patience(attempts=2, timeout=0.2, wait=0, longest_wait=0))
    assert site.asked[-1] == ("/file", "bytes=1000-")
    site.script["/file"] = [{"cut": 0, "silent": True}] * 2
    with pytest.raises(Unavailable, match=r"is silent for 0\.2 seconds"):
        get(site, part, Patience(attempts=2, timeout=0.2, wait=0, longest_wait=0))


@pytest.mark.parametrize(
    ("no_length", "sentence"),
    [(False, "offers 300,000 bytes where at most 1,000"), (True, "sends more than the 1,000")],
)
def test_never_takes_more_than_expected(
    site: Site, part: Path, no_length: bool, sentence: str
) -> None:
    site.script["/file"] = [{"no_length": no_length}]
    with pytest.raises(Unavailable, match=sentence):
        get(site, part, most=1000)
    assert not part.exists()


def test_a_length_is_not_needed(site: Site, part: Path) -> None:
    site.script["/file"] = [{"no_length": True}]
    assert get(site, part) == DIGEST


def test_says_that_nobody_is_there(part: Path) -> None:
    with serve() as site:
        pass
    with pytest.raises(Unavailable, match=r"/file cannot be reached \(connection refused\)"):
        get(site, part)
    with pytest.raises(Unavailable, match=r"cannot be found \(no network, or no such host\)"):
        download(
            "http://host.invalid/file",
            part,
            unpack=right,
            most=1,
            tell=lambda done, total: None,
            patience=QUICK,
        )


def test_follows_a_redirect_and_continues_through_it(site: Site, part: Path) -> None:
    site.script["/file"] = [{"status": 302, "headers": {"Location": "/moved"}}] * 2
    site.files["/moved"] = CONTENT
    site.script["/moved"] = [{"cut": 10}]
    get(site, part)
    assert site.asked[-1] == ("/moved", "bytes=10-")


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    make = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    names = [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(path.with_name("key.pem")),
        "-out",
        str(path),
    ]
    subprocess.run([openssl, *make, *names], check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_name("key.pem").read_text())
    return path


def test_https_needs_a_certificate_that_is_trusted(
    certificate: Path, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(certificate) as site:
        site.files["/file"] = CONTENT
        with pytest.raises(Unavailable, match="shows a certificate that is not trusted"):
            get(site, part)
        assert site.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        site.script["/file"] = [{"cut": 70_000}]
        get(site, part)


def test_https_is_not_left(
    certificate: Path, site: Site, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serve(certificate) as secure:
        secure.script["/file"] = [{"status": 302, "headers": {"Location": f"{site.url}/file"}}]
        with pytest.raises(Unavailable, match="leads away from https"):
            get(secure, part)
    assert site.asked == []
