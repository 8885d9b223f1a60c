"""docs/guide/deploy.md, as far as one machine can play three: a network of its own for each organisation,
and nothing between them but the relay."""

import contextlib
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import networks
import numpy as np
import pytest

pytest.importorskip("nats")

from federation import NAMES, PLAN, Ended, Federation, study_of

from pdml.node.crypto import tls
from pdml.node.daemon import relay_server
from pdml.node.storage.control_db import ENDED

pytestmark = [
    pytest.mark.skipif(bool(networks.missing()), reason=networks.missing() or "-"),
]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    study = study_of(plan=replace(PLAN, rounds=20))
    with (
        networks.Network(NAMES) as network,
        Federation(tmp_path_factory.mktemp("machines"), study, network=network) as made,
    ):
        made.start()
        made.train("first")
        yield made


def within(federation, name, code):
    """What a Python program prints on the machine of ``name``."""
    command = federation.network.within(name, [sys.executable, "-c", code])
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_three_machines_give_the_local_engines_numbers(federation):
    np.testing.assert_array_equal(federation.released("first"), federation.expected())


def test_a_node_listens_on_nothing_and_talks_to_the_relay_alone(federation):
    host, port = federation.network.relay.rsplit(":", 1)
    for name in NAMES:
        listening = within(
            federation,
            name,
            "import subprocess; print(subprocess.check_output(['ss', '-Hlntu'], text=True))",
        )
        assert listening.strip() == ""
        code = "import subprocess; print(subprocess.check_output(['ss', '-Hntu'], text=True))"
        peers = {line.split()[5] for line in within(federation, name, code).splitlines() if line}
        assert peers == {f"{host}:{port}"}


def test_a_slow_link_is_slow_and_changes_nothing(federation):
    with federation.network.slow("bob", "128kbit"):
        federation.train("slow", round_timeout=60)
        assert federation.network.held_back("bob") > 0
    np.testing.assert_array_equal(federation.released("slow"), federation.expected())


def test_a_link_that_is_cut_is_waited_for_and_then_named(federation):
    """A few seconds do no harm; longer than a round may take, the job ends everywhere, and goes on
    with the same bits.
    """
    for seconds, job in ((2, "cut"), (8, "cut-for-long")):
        attempt = federation.offer(job, round_timeout=5)
        federation.wait(lambda job=job: federation.round(job, "carol") > 1)
        federation.network.cut("carol")
        try:
            time.sleep(seconds)
        finally:
            federation.network.join("carol")
        try:
            federation.finish(attempt)
        except Ended as error:
            assert "carol" in str(error) and seconds == 8
            federation.wait(lambda: all(federation.connected(name) for name in NAMES), timeout=60)
            federation.wait(lambda attempt=attempt: federation.state(attempt, "carol")[0] in ENDED)
            federation.train(job, resume=True)
        np.testing.assert_array_equal(federation.released(job), federation.expected())


def test_a_copy_of_the_folder_goes_on_and_an_older_one_is_refused(federation, tmp_path):
    bob = federation.homes["bob"].folder
    federation.kill("bob", 15)
    shutil.copytree(bob, tmp_path / "old")
    federation.start("bob")
    federation.train("second")
    federation.kill("bob", 15)
    shutil.copytree(bob, tmp_path / "new")
    for copy in ("old", "new"):  # the backup is put back
        shutil.rmtree(bob)
        shutil.copytree(tmp_path / copy, bob)
        federation.start("bob")
        if copy == "old":
            with pytest.raises(Ended, match=r"bob.*rolled back|bob's journal"):
                federation.train("third")
            federation.kill("bob", 15)
    federation.train("fourth")


def test_a_renewed_certificate_keeps_its_key_so_that_nobody_need_agree_again(federation):
    before = tls.read(federation.relay_folder / tls.CERTIFICATE)
    renewed = tls.make(federation.relay_folder, federation.study.relay.host)
    assert renewed != before
    relay_server.configure(
        federation.study, federation.relay_folder, listen=federation.network.relay
    )
    federation.kill("relay")
    federation.start("relay")
    federation.wait(lambda: all(federation.connected(name) for name in NAMES))
    federation.train("after")


def test_a_relay_with_another_key_is_refused_by_every_node(federation, tmp_path):
    kept = tmp_path / "kept"
    shutil.copytree(federation.relay_folder, kept)
    with contextlib.ExitStack() as later:
        later.callback(federation.start, "relay")
        later.callback(shutil.copytree, kept, federation.relay_folder, dirs_exist_ok=True)
        for file in (tls.CERTIFICATE, tls.KEY):
            (federation.relay_folder / file).unlink()
        tls.make(federation.relay_folder, federation.study.relay.host)
        federation.kill("relay")
        federation.start("relay")
        federation.wait(lambda: not any(federation.connected(name) for name in NAMES))
        later.callback(federation.kill, "relay")
        with pytest.raises((Ended, TimeoutError)):
            federation.train("never", timeout=8, start_timeout=3.0)
        for name in NAMES:
            assert federation.round("never", name) == 0
            assert "certificate" in federation.log(name).read_text()
