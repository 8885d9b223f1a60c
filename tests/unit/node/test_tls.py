"""The relay's certificate, and how a node knows it."""

import ssl

import pytest

from pdml.errors import InvalidInput
from pdml.node.crypto import tls


def handshake(folder, pin):
    """A TLS handshake in memory: what the node's side makes of the relay's certificate."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / tls.CERTIFICATE, folder / tls.KEY)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = tls.RelayContext.towards(pin)
    node = context.wrap_bio(down, up, server_hostname="relay.example")
    relay = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (node, relay):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return context


def test_a_certificate_is_made_for_a_name_and_its_key_stays(tmp_path):
    first = tls.make(tmp_path, "relay.example")
    again = tls.make(tmp_path, "127.0.0.1")
    assert first != again and tls.fingerprint(first) == tls.fingerprint(again)
    assert tls.read(tmp_path / tls.CERTIFICATE) == again
    assert (tmp_path / tls.KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["nonsense", "certificate"])
def test_a_key_that_was_not_made_here_is_not_used(tmp_path, content):
    tls.make(tmp_path, "relay.example")
    other = b"x" if content == "nonsense" else (tmp_path / tls.CERTIFICATE).read_bytes()
    (tmp_path / tls.KEY).write_bytes(other)
    with pytest.raises(InvalidInput, match="holds no key that was made here"):
        tls.make(tmp_path, "relay.example")


def test_only_the_pinned_key_ends_a_handshake(tmp_path):
    made = tls.make(tmp_path, "relay.example")
    assert handshake(tmp_path, tls.fingerprint(made)).peer_certificate == made
    with pytest.raises(ssl.SSLCertVerificationError, match="not the one that the study pins"):
        handshake(tmp_path, "0" * 64)


def test_without_a_pin_an_authority_must_vouch(tmp_path):
    tls.make(tmp_path, "relay.example")
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(tmp_path, "")


def test_a_file_that_is_no_certificate_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot read .*no such file"):
        tls.read(tmp_path / "none.crt")
    (tmp_path / "text.crt").write_text("text")
    with pytest.raises(InvalidInput, match=r"text.crt is no certificate in PEM form"):
        tls.read(tmp_path / "text.crt")
