"""A network of its own for every node: a namespace, joined by one link to a bridge where the relay
listens.

Links can be slow (`tc`'s token bucket) and cut (the bridge's end goes down). It needs root;
`missing` says what is not there.
"""

import contextlib
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
from pathlib import Path

DEVICE = "eth0"  # a node's end of its link


def run(*command):
    """What it printed; an error carries what the tool said."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def missing():
    """Why networks cannot be made here; "" if they can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if absent := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        return f"{' and '.join(absent)} of iproute2 are not installed"
    try:
        with Network(("probe",)) as network, network.slow("probe", "64kbit"):
            return ""
    except OSError as error:
        return f"this machine makes no network namespaces with slow links ({error})"


class Network:
    """One link for each of ``names``; `close` leaves nothing behind."""

    def __init__(self, names):
        token = secrets.token_hex(4)
        self.bridge = f"pdml{token}"
        self.spaces = {name: f"pdml-{token}-{name}" for name in names}
        self.ends = {
            name: f"p{token}{i}" for i, name in enumerate(names)
        }  # at the bridge; 15 letters at most
        self.made = contextlib.ExitStack()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self):
        subnet = free_subnet()
        self._add(
            ("ip", "link", "add", self.bridge, "type", "bridge"),
            ("ip", "link", "delete", self.bridge),
        )
        run("ip", "address", "add", f"{subnet}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        with socket.socket() as probe:
            probe.bind((f"{subnet}.1", 0))
            self.relay = f"{subnet}.1:{probe.getsockname()[1]}"
        for i, (name, space) in enumerate(self.spaces.items()):
            self._add(("ip", "netns", "add", space), ("ip", "netns", "delete", space))
            end = self.ends[name]
            self._add(
                ("ip", "link", "add", end, "type", "veth", "peer", "name", DEVICE, "netns", space),
                ("ip", "link", "delete", end),
            )
            run("ip", "link", "set", end, "master", self.bridge, "up")
            run("ip", "-n", space, "address", "add", f"{subnet}.{i + 2}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                run("ip", "-n", space, "link", "set", device, "up")

    def _add(self, command, undo):
        run(*command)
        self.made.callback(run, *undo)

    def within(self, name, command):
        """The command, run in the network of ``name``; the relay and everybody else stay where they
        are.
        """
        return (
            ["ip", "netns", "exec", self.spaces[name], *command] if name in self.spaces else command
        )

    @contextlib.contextmanager
    def slow(self, name, rate):
        """At most ``rate`` in either direction."""
        with contextlib.ExitStack() as buckets:
            for tc, device in self._both(name):
                run(
                    *tc,
                    "qdisc",
                    "add",
                    "dev",
                    device,
                    "root",
                    "tbf",
                    "rate",
                    rate,
                    "burst",
                    "4kb",
                    "latency",
                    "400ms",
                )
                buckets.callback(run, *tc, "qdisc", "delete", "dev", device, "root")
            yield

    def held_back(self, name):
        """How often a packet had to wait at a slow link, in the direction where that was rarer."""
        shown = [run(*tc, "-s", "qdisc", "show", "dev", device) for tc, device in self._both(name)]
        return min(int(re.search(r"overlimits (\d+)", text)[1]) for text in shown)

    def _both(self, name):
        """A link's two ends, each with the tool that reaches it."""
        return (("tc", "-n", self.spaces[name]), DEVICE), (("tc",), self.ends[name])

    def carried(self, name):
        """Bytes that have come from ``name``."""
        return int(Path("/sys/class/net", self.ends[name], "statistics", "rx_bytes").read_text())

    def cut(self, name):
        run("ip", "link", "set", self.ends[name], "down")

    def join(self, name):
        run("ip", "link", "set", self.ends[name], "up")

    def close(self):
        self.made.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def free_subnet():
    """Three numbers of the range that RFC 2544 keeps for tests of networks, unused on this
    machine.
    """
    taken = run("ip", "-4", "address", "show")
    return random.SystemRandom().choice(
        [net for i in range(256) if (net := f"198.18.{i}") + "." not in taken]
    )
