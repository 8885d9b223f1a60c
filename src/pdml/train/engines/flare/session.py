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

from nvflare.fuel.flare_api.api_spec import AuthenticationError, AuthorizationError, InternalError, NoConnection, NoReply, SessionClosed
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from pdml.errors import InvalidInput, PDMLError
from pdml.train.contract import Contract
from pdml.train.engines.flare.job import write_job
from pdml.train.engines.flare.report import Report, open_report
from pdml.train.engines.flare.site import ADMIN, Site
from pdml.train.engines.flare.topics import PROGRESS, RESULT

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

    def connected(self) -> set[str]:
        """The nodes that the relay hears from."""
        with _quiet():
            return {client.name for client in self._session.get_connected_client_list()}

    def wait_for(self, servers: tuple[str, ...], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while missing := set(servers) - self.connected():
            if time.monotonic() > deadline:
                raise JobFailed(f"not connected to the relay: {', '.join(sorted(missing))}; the job was not submitted")
            time.sleep(_POLL)

    def submit(self, contract: Contract, **options: Any) -> str:
        """FLARE's name for the job; ``options`` as in `write_job`."""
        with tempfile.TemporaryDirectory() as folder, _quiet():
            return str(self._session.submit_job(str(write_job(Path(folder), contract, **options))))

    def follow(self, job: str, each: Follow, *, timeout: float) -> str:
        """Until the job has ended; FLARE's word for how it did."""
        deadline, heard = time.monotonic() + timeout, time.monotonic()
        while True:
            with _quiet():
                status = str(self._session.get_job_meta(job).get("status"))
            if status.startswith("FINISHED"):
                return status
            if time.monotonic() > deadline:
                self.abort(job)
                raise JobFailed(f"the job has not ended within {timeout:g} s and was stopped")
            told = self._progress(job)
            if told or status != "RUNNING":
                heard = time.monotonic()
            if told:
                each({str(name): int(t) for name, t in told["rounds"].items()})
            if time.monotonic() - heard > _SILENCE:
                raise JobFailed("the relay no longer runs the job: it was restarted meanwhile; resume the job")
            time.sleep(_POLL)

    def _progress(self, job: str) -> dict[str, Any] | None:
        with contextlib.suppress(Exception), _quiet():  # the job is not running yet, or has just ended
            told = self._session.do_app_command(job, PROGRESS, None)
            return told if isinstance(told, dict) and "rounds" in told else None
        return None

    def abort(self, job: str) -> None:
        with contextlib.suppress(Exception), _quiet():
            self._session.abort_job(job)

    def result(self, job: str, contract: Contract, status: str) -> dict[str, Report]:
        """The checked reports of all nodes; a job that failed raises its sentence."""
        with tempfile.TemporaryDirectory() as folder:
            with _quiet():
                location = self._session.download_job_result(job, folder)
            found = sorted(Path(location).rglob(RESULT)) if location else []
            if not found:
                raise JobFailed(f"the job ended as {status} and left no result: the relay's log says more")
            told = json.loads(found[0].read_text())
        if told["failure"]:
            raise JobFailed(told["failure"])
        keys = self._site.config.keys
        if missing := [name for name in contract.servers if name not in told["reports"]]:
            raise JobFailed(f"no report came from {', '.join(missing)}")
        return {name: open_report(base64.b64decode(told["reports"][name]), contract, name, keys) for name in contract.servers}


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
