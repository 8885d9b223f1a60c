"""Phase 1 to Phase 2 in one story: `python -m benchmarks.consortium_demo [FOLDER]`, with nothing
but the commands people use.

Three organisations on this machine make their keys; 3,000 people answer on their devices and send
randomised reports over TLS to three collection services; the data sets are frozen; three nodes
train through a relay that reads nothing; the result is verified, is the same to the byte at every
organisation, and each sees its ledger. Everything stays in FOLDER, which is named at the end.
"""

import csv
import datetime
import filecmp
import ipaddress
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PDML = [sys.executable, "-c", "from pdml.cli import main; main()"]
NAMES = ("alice", "bob", "carol")
PEOPLE = 1000  # per organisation

STUDY = """\
[study]
id = "consortium-demo"
title = "Who is at risk?"
min_records = 500
[organiser]
name = "Three Clinics"
address = "1 Long Street, Ghent"
contact = "study@clinics.example"
[notice]
purpose = "To find out who is at risk."
legal_basis = "Your consent."
who_sees = "The clinic whose page you use sees your age and sex."
retention = 2090-01-01T00:00:00Z
[consent]
text = "I agree that my answers are used for this study."
version = "1"
[label]
question = "Have you been diagnosed?"
classes = ["no", "yes"]
epsilon = {{ menu = [1.0, 2.0], default = 1.0 }}
[[attributes]]
name = "age"
kind = "number"
range = [18, 100]
[[attributes]]
name = "sex"
kind = "category"
levels = ["female", "male"]
{servers}
[topology]
kind = "ring"
[budget]
features = {{ epsilon = 2, delta = 1e-6 }}
[plan]
rounds = 30
penalty = 0.1
objective_bound = 0.2
noise_scale = 0.3
"""


def pdml(*arguments, show=True):
    """One command as people type it; what it prints is part of the story."""
    print(f"\n$ pdml {' '.join(map(str, arguments))}", flush=True)
    done = subprocess.run([*PDML, *map(str, arguments)], capture_output=True, text=True)
    if show or done.returncode:
        print(done.stdout, end="")
    if done.returncode:
        sys.exit(f"{done.stderr}this command failed")
    return done.stdout


def free_ports(count):
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def certificate():
    """A certificate for this machine that is its own authority: cert.pem and key.pem."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "consortium demo")]),
    )
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    Path("cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open("key.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)


def people(name):
    """Made-up people whose answer depends on their age."""
    rng = random.Random(name)
    with open(f"{name}.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["age", "sex", "diagnosed"])
        for _ in range(PEOPLE):
            age = rng.randint(18, 100)
            table.writerow(
                [age, rng.choice(["female", "male"]), "yes" if rng.gauss(age, 12) > 60 else "no"]
            )


def wait_for(port, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"nothing listens on port {port}")
            time.sleep(0.2)


def collecting(stack, ports):
    """Phase 1: three services, 3,000 devices, three frozen data sets."""
    for name, port in zip(NAMES, ports, strict=True):
        options = [
            "--server",
            name,
            "--port",
            str(port),
            "--cert",
            "cert.pem",
            "--key",
            "key.pem",
            "--open",
        ]
        print(f"\n$ pdml collect serve study.toml {' '.join(options)} &")
        service = subprocess.Popen(
            [*PDML, "collect", "serve", "study.toml", *options], stdout=subprocess.DEVNULL
        )
        stack.callback(service.wait)
        stack.callback(service.terminate)
    for name, port in zip(NAMES, ports, strict=True):
        wait_for(port)
        people(name)
        pdml(
            "contribute",
            "study.toml",
            "--server",
            name,
            "--ca",
            "cert.pem",
            "--csv",
            f"{name}.csv",
            "--label-column",
            "diagnosed",
        )
    for name in NAMES:
        pdml("collect", "export", "study.toml", "--server", name, "--out", f"frozen-{name}")


def joining(port):
    """Keys made at home, cards pinned in the study, and a relay."""
    for name in NAMES:
        pdml("node", "init", name, "--name", name, show=False)
    pdml("study", "add-server", "study.toml", *(f"{name}/{name}.card" for name in NAMES))
    pdml("relay", "config", "study.toml", "--out", "relay", "--address", f"127.0.0.1:{port}")
    for name in NAMES:
        pdml("node", "join", name, "study.toml", "--accept", "study")


def training(stack):
    """Phase 2: three nodes and a relay, one model."""
    for name in NAMES:
        pdml("node", "data", name, "--from-collect", f"frozen-{name}")
    for arguments in (("relay", "run", "relay"), *(("node", "run", name) for name in NAMES)):
        print(f"\n$ pdml {' '.join(arguments)} &")
        with open(f"{arguments[-1]}.log", "wb") as log:
            process = subprocess.Popen([*PDML, *arguments], stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.terminate)
    pdml(
        "train",
        "study.toml",
        "--engine",
        "nodes",
        "--node",
        "alice",
        "--job",
        "first",
        "--out",
        "result",
    )
    pdml("verify", "result", "--study", "study.toml")
    for name in NAMES[1:]:
        pdml("node", "result", name, "first", "--out", f"result-{name}", show=False)
        same = filecmp.cmpfiles(
            "result", f"result-{name}", ["model.json", "report.html"], shallow=False
        )[0]
        print(f"the same bytes at {name}: {', '.join(same)}")
        if len(same) < 2:
            sys.exit(f"{name} has another result")
    for name in NAMES:
        pdml("node", "status", name)
    pdml("privacy", "result/model.json")
    with open("visitors.csv", "w") as file:
        file.write("age,sex\n25,female\n90,male\n")
    pdml("predict", "result/model.json", "visitors.csv")


def main():
    folder = (
        Path(sys.argv[1])
        if len(sys.argv) > 1
        else Path(tempfile.mkdtemp(prefix="pdml-consortium-"))
    )
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder} is not empty")
    os.chdir(folder)
    *ports, meeting = free_ports(len(NAMES) + 1)
    servers = "\n".join(
        f'[[servers]]\nname = "{name}"\nurl = "https://127.0.0.1:{port}"'
        for name, port in zip(NAMES, ports, strict=True)
    )
    Path("study.toml").write_text(STUDY.format(servers=servers))
    certificate()
    with ExitStack() as stack:
        pdml("study", "check", "study.toml")
        joining(meeting)
        collecting(stack, ports)
        training(stack)
    model = json.loads(Path("result/model.json").read_text())
    print(
        f"\nTrained by {', '.join(model['provenance']['servers'])} with "
        f"{model['provenance']['noise_source']} noise."
    )
    print(f"Everything is in {folder.absolute()}; open {folder.absolute()}/result/report.html.")


if __name__ == "__main__":
    main()
