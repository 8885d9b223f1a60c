"""Build the image of deploy/Containerfile from Debian packages alone, and use it: `make image`.

The base is made by debootstrap, because a registry of images may be out of reach; buildah builds
without a daemon.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
BASE = "localhost/pdml-base"
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
PACKAGES = "python3,python3-venv,ca-certificates"


def run(*command: str, **options: object) -> str:
    env = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
    return subprocess.run(
        command, env=env, check=True, text=True, stdout=subprocess.PIPE, **options
    ).stdout.strip()  # type: ignore[call-overload]


def base() -> None:
    """Debian with Python, as an image of its own."""
    if run("buildah", "images", "--quiet", "--filter", f"reference={BASE}"):
        return
    with tempfile.TemporaryDirectory() as folder:
        print("Making the base by debootstrap (a few minutes)", flush=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", folder)
        # the base trusts whom this machine trusts: there may be a proxy between it and the packages
        if TRUSTED.exists():
            shutil.copy(TRUSTED, f"{folder}{TRUSTED}")
        container = run("buildah", "from", "scratch")
        run("buildah", "add", "--quiet", container, folder, "/")
        run("buildah", "commit", "--quiet", container, BASE)
        run("buildah", "rm", container)


def main() -> None:
    base()
    print("Building the image", flush=True)
    run(
        "buildah",
        "build",
        "--quiet",
        "--build-arg",
        f"BASE={BASE}",
        "--file",
        "deploy/Containerfile",
        "--tag",
        "localhost/pdml",
        str(ROOT),
        cwd=ROOT,
    )
    container = run("buildah", "from", "localhost/pdml")
    try:
        for command in (
            ["--version"],
            ["node", "init", "/data/alice", "--name", "alice"],
            ["relay", "--help"],
            ["collect", "--help"],
        ):
            said = run("buildah", "run", container, "--", "/opt/pdml/bin/pdml", *command)
            print(f"$ pdml {' '.join(command)}\n{said}\n")
        owner = run(
            "buildah", "run", container, "--", "sh", "-c", "id -u; touch /opt/pdml/x 2>&1 || true"
        )
        if not owner.startswith("10001") or "denied" not in owner:
            sys.exit(f"the image's user must be 10001 and own nothing but /data, got: {owner}")
    finally:
        run("buildah", "rm", container)
    print("The image works.")


if __name__ == "__main__":
    main()
