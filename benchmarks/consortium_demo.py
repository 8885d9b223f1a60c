"""Phase 1 to Phase 2 in one story: `python -m benchmarks.consortium_demo [FOLDER]`, with nothing but the commands people use.

Three organisations on this machine: 3,000 people answer on their devices and send randomised reports over TLS to three collection
services; the data sets are frozen; three nodes train over FLARE; the model card is released, and each organisation sees its ledger.
"""

import csv
import datetime
import ipaddress
import json
import os
import random
import shutil
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
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "consortium demo")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    Path("cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
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
            table.writerow([age, rng.choice(["female", "male"]), "yes" if rng.gauss(age, 12) > 60 else "no"])


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
        options = ["--server", name, "--port", str(port), "--cert", "cert.pem", "--key", "key.pem", "--open"]
        print(f"\n$ pdml collect serve study.toml {' '.join(options)} &")
        service = subprocess.Popen([*PDML, "collect", "serve", "study.toml", *options], stdout=subprocess.DEVNULL)
        stack.callback(service.wait)
        stack.callback(service.terminate)
    for name, port in zip(NAMES, ports, strict=True):
        wait_for(port)
        people(name)
        pdml("contribute", "study.toml", "--server", name, "--ca", "cert.pem", "--csv", f"{name}.csv", "--label-column", "diagnosed")
    for name in NAMES:
        pdml("collect", "export", "study.toml", "--server", name, "--out", f"frozen-{name}")


def training(stack):
    """Phase 2: three nodes and a relay, one model."""
    pdml("node", "provision", "study.toml", "--out", "kits")
    for name in NAMES:
        pdml("node", "data", f"kits/{name}", "--from-collect", f"frozen-{name}")
    for name in ("relay", *NAMES):
        stack.callback(subprocess.run, [*PDML, "node", "stop", f"kits/{name}"], capture_output=True)
        pdml("node", "start", f"kits/{name}")
    pdml("train", "study.toml", "--engine", "flare", "--admin", "kits/admin", "--job", "first", "--out", "result")
    for name in NAMES:
        pdml("node", "status", f"kits/{name}")
    pdml("privacy", "result/model.json")
    with open("visitors.csv", "w") as file:
        file.write("age,sex\n25,female\n90,male\n")
    pdml("predict", "result/model.json", "visitors.csv")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="pdml-consortium-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder} is not empty")
    os.chdir(folder)
    ports = free_ports(len(NAMES))
    servers = "\n".join(f'[[servers]]\nname = "{name}"\nurl = "https://127.0.0.1:{port}"' for name, port in zip(NAMES, ports, strict=True))
    Path("study.toml").write_text(STUDY.format(servers=servers))
    certificate()
    with ExitStack() as stack:
        pdml("study", "check", "study.toml")
        collecting(stack, ports)
        training(stack)
    model = json.loads(Path("result/model.json").read_text())
    print(f"\nTrained by {', '.join(model['provenance']['servers'])} with {model['provenance']['noise_source']} noise.")
    if len(sys.argv) > 1:
        print(f"Everything is in {folder.absolute()}; open result/report.html.")
    else:
        os.chdir("/")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
