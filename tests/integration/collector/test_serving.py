"""Where plain HTTP is allowed, and TLS with a certificate of one's own."""

import socket
import ssl
import subprocess

import httpx
import pytest
from collecting import Process, report

from pdml.collector.http.serving import Settings, _listen, check_transport
from pdml.errors import InvalidInput


def test_plain_http_is_refused_where_others_could_listen(tmp_path):
    with pytest.raises(InvalidInput, match="--insecure-http"):
        check_transport(Settings(host="0.0.0.0"))
    with pytest.raises(InvalidInput, match="belong together"):
        check_transport(Settings(host="127.0.0.1", cert=tmp_path, key=None))
    assert check_transport(Settings(host="0.0.0.0", insecure_http=True)) is False
    assert check_transport(Settings(host="127.0.0.1")) is False
    assert check_transport(Settings(host="0.0.0.0", cert=tmp_path, key=tmp_path)) is True


def test_an_address_that_is_not_this_machines_is_refused_in_a_sentence():
    with pytest.raises(InvalidInput, match=r"cannot listen on 203.0.113.77 port \d+: "):
        _listen("203.0.113.77", 0)


def test_tls_with_a_certificate_of_one_s_own(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        *subject,
    ]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    with Process(tmp_path, "--open", "--cert", str(cert), "--key", str(key)) as service:
        assert service.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(verify=trusting, base_url=service.url) as client:
            assert (
                client.post(
                    "/v1/reports", content=report(), headers={"content-type": "application/json"}
                ).status_code
                == 201
            )
            token = (tmp_path / "operator-token").read_text().strip()
            assert "Secure" in client.post("/operator", data={"token": token}).headers["set-cookie"]
            for path in ("/", "/v1/study", "/nowhere"):
                assert client.get(path).headers["strict-transport-security"] == "max-age=31536000"
        with pytest.raises(httpx.ConnectError):
            httpx.get(service.url)  # nobody vouches for it
        with socket.create_connection(("127.0.0.1", service.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"HTTP/1.1 200" not in plain.recv(1000)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("AES256-SHA:AES128-SHA")
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(("127.0.0.1", service.port)) as weak,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            old.wrap_socket(weak)
        assert service.stop() == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


def test_stopping_answers_what_was_taken_and_a_restart_goes_on(tmp_path):
    line = report()
    for status, total in ((201, 1), (200, 1)):
        with Process(tmp_path, "--open") as service:
            answer = httpx.post(
                f"{service.url}/v1/reports",
                content=line,
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == status
            token = (tmp_path / "operator-token").read_text().strip()
            result = httpx.get(
                f"{service.url}/operator.json", headers={"authorization": f"Bearer {token}"}
            ).json()
            assert result["reports"] == total
            assert (
                httpx.get(
                    f"{service.url}/operator", headers={"authorization": f"Bearer {token}"}
                ).status_code
                == 200
            )
            assert service.stop() == 0
    assert (tmp_path / "stderr").read_text() == ""
    assert not list(tmp_path.glob("*-wal"))


def test_an_answer_leaves_in_one_piece_and_one_without_a_body_leaves_too(tmp_path):
    with (
        Process(tmp_path, "--open") as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=10) as wire,
    ):
        body = report()
        head = (
            "POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-type: "
            f"application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        wire.sendall(head.encode() + body)
        answer = wire.recv(65536)
        assert answer.startswith(b"HTTP/1.1 201")
        assert answer.endswith(b"}")
        wire.sendall(b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 200")
        wire.sendall(head.encode()[:-2] + b"expect: 100-continue\r\n\r\n")
        assert wire.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(body)
        assert wire.recv(65536).startswith(b"HTTP/1.1 200")
