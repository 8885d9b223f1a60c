"""The real collection service as a process of its own, and a throwaway certificate authority."""

import io
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pdml.cli import main

PDML = [sys.executable, "-c", "from pdml.cli import main; main()"]


def pdml(*arguments: str, code: int = 0) -> str:
    """What a command prints (to stderr if it is to fail), once it has ended as it should; in this
    process, which is faster.
    """
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == code, err.getvalue()
    return out.getvalue() if code == 0 else err.getvalue()


@dataclass
class Collector:
    url: str
    database: Path
    operator_token: str
    log: Path
    server: str

    def command(self, name: str, study: Path, *arguments: str) -> Any:
        """`pdml collect NAME` on the same database, beside the running service."""
        said = pdml(
            "collect",
            name,
            str(study),
            "--server",
            self.server,
            "--db",
            str(self.database),
            *arguments,
            "--json",
        )
        return json.loads(said)


@contextmanager
def collecting(
    study: Path, folder: Path, *options: str, server: str = "alice"
) -> Iterator[Collector]:
    """`pdml collect serve` on a free port of this machine, until the end of the block."""
    database, log = folder / f"{server}.db", folder / "collect.log"
    command = [
        *PDML,
        "collect",
        "serve",
        "--test",
        str(study),
        "--server",
        server,
        "--db",
        str(database),
        "--port",
        "0",
        "--json",
        *options,
    ]
    with open(log, "wb") as errors:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        service = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        )
    assert service.stdout is not None
    try:
        said = ""
        for line in service.stdout:
            said += line
            if line.rstrip() == "}":
                break
        assert said, log.read_text()
        summary = json.loads(said)
        yield Collector(
            summary["url"],
            database,
            Path(summary["operator_token"]).read_text().strip(),
            log,
            server,
        )
    finally:
        service.terminate()
        service.wait(20)
        service.stdout.close()


def certificate(folder: Path) -> tuple[Path, Path, Path, str]:
    """An authority, a certificate of it for 127.0.0.1, its key, and the hash of its public key as
    Chromium takes it.
    """

    def openssl(*arguments: str) -> bytes:
        return subprocess.run(
            ["openssl", *arguments], cwd=folder, check=True, capture_output=True
        ).stdout

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req",
        "-x509",
        *curve,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=throwaway authority",
    )
    openssl("req", *curve, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=127.0.0.1")
    (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
    openssl("x509", "-req", "-in", "request.pem", *signing, "-out", "cert.pem", "-days", "1")
    (folder / "public.pem").write_bytes(openssl("x509", "-in", "cert.pem", "-pubkey", "-noout"))
    public = openssl("pkey", "-pubin", "-in", "public.pem", "-outform", "DER")
    return (
        folder / "ca.pem",
        folder / "cert.pem",
        folder / "key.pem",
        b64encode(sha256(public).digest()).decode(),
    )
