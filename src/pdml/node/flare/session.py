"""The admin's side of a job: submit it, follow it, stop it, and fetch the signed reports."""

import base64
import contextlib
import io
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.api_spec import (
    AuthenticationError,
    AuthorizationError,
    InternalError,
    InvalidTarget,
    NoClientsAvailable,
    NoConnection,
    NoReply,
    SessionClosed,
)
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session
from nvflare.fuel.hci.proto import MetaKey, MetaStatusValue

from pdml.errors import InvalidInput, PDMLError
from pdml.node.contract import Contract
from pdml.node.flare.job import write_job
from pdml.node.flare.report import Report, open_report
from pdml.node.flare.site import ADMIN, Site
from pdml.node.flare.topics import PROGRESS, RESULT

_POLL = 1.0
_LOGIN = 20.0
_SILENCE = 90.0  # seconds without a word from a job that is said to run

Follow = Callable[[Mapping[str, int]], None]
"""Called now and then with the round that each node has reached."""


class JobFailed(PDMLError):
    """A training between organisations ended without a result; the sentence says why, and names who."""


@contextlib.contextmanager
def connect(site: Site, *, timeout: float = _LOGIN) -> Iterator["Desk"]:
    """A session with the relay, with the certificate in the admin's kit."""
    site.must_be(ADMIN)
    session: Session | None = None
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    try:
        with _quiet():
            session = new_secure_session(site.name, str(site.kit), timeout=timeout)
        yield Desk(site, session)
    except (NoConnection, NoReply, SessionClosed, InternalError) as error:
        raise JobFailed(f"the relay does not answer: is it running, and does {site.kit} belong to it? ({error})") from None
    except (AuthenticationError, AuthorizationError) as error:
        raise JobFailed(f"the relay refused {site.name}: {error}") from None
    finally:
        if session is not None:
            with contextlib.suppress(Exception), _quiet():
                session.close()


class Desk:
    """Where jobs are handed in."""

    def __init__(self, site: Site, session: Session) -> None:
        self._site, self._session = site, session
        self._rounds: dict[str, int] = {}  # what each node was last heard to have reached
        self._starting: dict[str, tuple[tuple[str, ...], float]] = {}  # of each job: its nodes, and the seconds in which it must begin

    def connected(self) -> set[str]:
        """The nodes that answer the relay; it takes minutes to forget one that was killed, so it is made to ask."""
        with _quiet():
            known = {client.name for client in self._session.get_connected_client_list()}
            return {name for name in known if self._answers(name)}

    def _answers(self, name: str) -> bool:
        """Asked alone: while one node is silent the session waits no longer for the others than for it."""
        try:
            rows = self._session.get_client_job_status([name])
        except (NoConnection, NoReply, NoClientsAvailable, InvalidTarget):
            return False
        return any(row[MetaKey.STATUS] != MetaStatusValue.NO_REPLY for row in rows or ())

    def wait_for(self, servers: tuple[str, ...], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while missing := set(servers) - self.connected():
            if time.monotonic() > deadline:
                raise JobFailed(f"not connected to the relay: {', '.join(sorted(missing))}; the job was not submitted")
            time.sleep(_POLL)

    def submit(self, contract: Contract, *, start_timeout: float, **options: Any) -> str:
        """FLARE's name for the job; ``options`` as in `write_job`."""
        with tempfile.TemporaryDirectory() as folder, _quiet():
            written = write_job(Path(folder), contract, start_timeout=start_timeout, **options)
            job = str(self._session.submit_job(str(written)))
        self._starting[job] = (contract.servers, start_timeout)
        return job

    def follow(self, job: str, each: Follow, *, timeout: float) -> str:
        """Until the job has ended; FLARE's word for how it did."""
        deadline, heard, self._rounds = time.monotonic() + timeout, time.monotonic(), {}
        servers, patience = self._starting.get(job, ((), timeout))
        latest = time.monotonic() + patience
        while True:
            with _quiet():
                status = str(self._session.get_job_meta(job).get("status"))
            if status.startswith("FINISHED"):
                return status
            if time.monotonic() > deadline:
                self.abort(job)
                raise JobFailed(f"the job has not ended within {timeout:g} s and was stopped")
            if status == "RUNNING":
                latest = deadline
            elif time.monotonic() > latest:
                self.abort(job)
                gone = [name for name in servers if name not in self.connected()]
                raise JobFailed(f"the job has not begun within {patience:g} s: {_absent(gone)}")
            told = self._progress(job)
            if told or status != "RUNNING":
                heard = time.monotonic()
            if told:
                self._rounds = {str(name): int(t) for name, t in told["rounds"].items()}
                each(self._rounds)
            if time.monotonic() - heard > _SILENCE:
                raise JobFailed("the relay no longer runs the job: it was restarted meanwhile; resume the job")
            time.sleep(_POLL)

    def _suspects(self, contract: Contract, status: str) -> str:
        """FLARE ended the relay's part of the job before it could ask who was gone, as it does with one that is still starting."""
        gone = [name for name in contract.servers if name not in self.connected()]
        if gone:
            return f"the relay no longer hears from {', '.join(gone)}, and ended the job ({status}); to go on, resume it"
        where = ", ".join(f"{name} (round {self._rounds.get(name, 0)})" for name in contract.servers)
        return f"a process of the job died at the relay or at one of {where}, too early for anybody to say whose ({status}); resume the job"

    def _progress(self, job: str) -> dict[str, Any] | None:
        with contextlib.suppress(Exception), _quiet():  # the job is not running yet, or has just ended
            told = self._session.do_app_command(job, PROGRESS, None)
            return told if isinstance(told, dict) and "rounds" in told else None
        return None

    def abort(self, job: str) -> bool:
        """Stop a job wherever it is; False if the relay could not be told."""
        with contextlib.suppress(Exception), _quiet():
            self._session.abort_job(job)
            return True
        return False

    def result(self, job: str, contract: Contract, status: str) -> dict[str, Report]:
        """The checked reports of all nodes; a job that failed raises its sentence."""
        with tempfile.TemporaryDirectory() as folder:
            with _quiet():
                location = self._session.download_job_result(job, folder)
            found = sorted(Path(location).rglob(RESULT)) if location else []
            if not found:
                raise JobFailed(self._suspects(contract, status))
            told = json.loads(found[0].read_text())
        if told["failure"]:
            raise JobFailed(told["failure"])
        keys = self._site.config.keys
        if missing := [name for name in contract.servers if name not in told["reports"]]:
            raise JobFailed(f"no report came from {', '.join(missing)}")
        return {name: open_report(base64.b64decode(told["reports"][name]), contract, name, keys) for name in contract.servers}


def _absent(gone: list[str]) -> str:
    if gone:
        return f"the relay does not hear from {', '.join(gone)}"
    return "the relay hears from every node and did not start it, its log says why"


def open_desk(kit: Path) -> Site:
    """The admin's kit; another one is refused."""
    site = Site.open(kit)
    if site.config.role != ADMIN:
        raise InvalidInput(f"{kit} is the kit of {site.name}: jobs are submitted with the kit `admin`")
    return site


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """FLARE's session prints; what there is to say is said by whoever called."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
