"""Keys and relay in a study: optional, covered by the hash, and written into a file without
touching the rest of it.
"""

import base64
from dataclasses import replace

import pytest
from example_study import STUDY, TEXT

from pdml.errors import InvalidInput, StudyError
from pdml.study import Relay, ServerEntry, Study
from pdml.study.schema import template

SEALING = base64.b64encode(bytes(range(256)) * 4 + bytes(192)).decode()
OTHER = base64.b64encode(bytes(1216)).decode()
RELAY = Relay("relay.example:4222", "ab" * 32)


def entry(name, signing="11" * 32, sealing=SEALING):
    return ServerEntry(name, "", signing, sealing)


def pinned(text=TEXT, *entries, revision=False):
    return template.pin_servers(
        text, entries or [entry("alice")], revision=revision, source="study.toml"
    )


def test_a_study_without_keys_keeps_its_hash_and_one_with_keys_has_another():
    assert b"signing_key" not in STUDY.canonical() and b"relay" not in STUDY.canonical()
    study = Study.from_text(pinned())
    assert study.hash != STUDY.hash
    assert study.server("alice").signing_key == "11" * 32
    assert study.signing_keys == {"alice": "11" * 32}
    assert (
        Study.from_canonical(study.canonical()) == study == Study.from_text(template.render(study))
    )


def test_pinning_keeps_every_other_line():
    text = pinned()
    added = [line for line in text.split("\n") if line not in TEXT.split("\n")]
    assert [line.split(" = ")[0] for line in added] == ["signing_key", "sealing_key"]
    assert [line for line in text.split("\n") if line not in added] == TEXT.split("\n")


def test_other_keys_need_a_revision_which_names_what_it_replaces():
    first = Study.from_text(pinned())
    with pytest.raises(InvalidInput, match="other keys for alice already: --revision"):
        pinned(pinned(), entry("alice", "22" * 32, OTHER))
    second = Study.from_text(pinned(pinned(), entry("alice", "22" * 32, OTHER), revision=True))
    assert second.replaces == first.hash and second.revises(first) and not first.revises(second)
    assert second.server("alice") == ServerEntry(
        "alice", first.server("alice").url, "22" * 32, OTHER
    )
    assert not replace(second, min_records=7).revises(first)  # nothing but keys may change
    assert not replace(second, replaces="0" * 64).revises(first)
    third = Study.from_text(
        pinned(template.render(second), entry("alice", "33" * 32), revision=True)
    )
    assert third.replaces == second.hash


def test_the_relay_is_appended_once_and_replaced_by_a_revision_only():
    text = template.set_relay(TEXT, RELAY, revision=False, source="study.toml")
    study = Study.from_text(text)
    assert text.startswith(TEXT.rstrip()) and study.relay == RELAY
    assert (study.relay.host, study.relay.port) == ("relay.example", 4222)
    assert template.set_relay(text, RELAY, revision=False, source="study.toml") == text
    moved = Relay("[::1]:5000")
    with pytest.raises(InvalidInput, match=r"names the relay relay\.example:4222"):
        template.set_relay(text, moved, revision=False, source="study.toml")
    revised = Study.from_text(template.set_relay(text, moved, revision=True, source="study.toml"))
    assert revised.relay == moved and revised.revises(study)
    assert (moved.host, moved.port) == ("::1", 5000)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([entry("alice"), entry("bob")], "must differ from the keys of the other servers"),
        ([entry("alice", "AB" * 32)], "64 hexadecimal digits"),
        ([entry("alice", "1" * 63)], "64 hexadecimal digits"),
        ([entry("alice", sealing=SEALING[:-4])], "1,216 bytes in base64"),
        ([entry("mallory")], "has no server 'mallory'"),
    ],
)
def test_bad_keys_are_refused(entries, said):
    with pytest.raises(InvalidInput, match=said):
        pinned(TEXT, *entries)


def test_one_key_alone_is_refused():
    text = pinned().replace(f'sealing_key = "{SEALING}"\n', "")
    with pytest.raises(StudyError, match="both a signing_key and a sealing_key, or neither"):
        Study.from_text(text)


@pytest.mark.parametrize(
    "address",
    [
        "relay",
        "relay:0",
        "relay:65536",
        "Relay:1",
        "a b:1",
        "https://relay:1",
        ":1",
        "x" * 300 + ":1",
    ],
)
def test_bad_relays_are_refused(address):
    with pytest.raises(InvalidInput, match=r"relay\.address must be HOST:PORT"):
        template.set_relay(TEXT, Relay(address), revision=False, source="study.toml")


def test_a_new_server_needs_an_address_and_links_that_follow_from_the_names():
    ring = template.render(STUDY).split("[topology]")[0] + '[topology]\nkind = "ring"\n'
    with pytest.raises(InvalidInput, match="give its --url"):
        pinned(ring, entry("dora"))
    added = replace(entry("dora"), url="https://dora.example")
    assert Study.from_text(pinned(ring, added)).servers[-1] == added
    listed = template.render(STUDY)
    with pytest.raises(InvalidInput, match="its links are listed one by one"):
        pinned(listed, added)
