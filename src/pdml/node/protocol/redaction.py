"""What other organisations hear when something goes wrong here: nothing that depends on a record.

Text and kind of an error may tell something (a solve that was not certified: how the un-noised
gradient stands). So others hear it only where it is marked `public`; the node's own log has it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pdml.errors import PDMLError, PeerError, plain


def public_message(error: BaseException, name: str) -> str:
    """What others hear of an error at the node ``name``; of all inside the same sentence."""
    if not (isinstance(error, PDMLError) and error.public):
        return f"{name} could not go on: the log of its node says why"
    sentence = plain(str(error))
    if isinstance(error, PeerError) or name in sentence:
        return sentence
    return f"{name}: {sentence}"


def no_result(offerer: str, jobs: Sequence[str]) -> str:
    return f"jobs of {offerer} have spent budget and have no result: {', '.join(jobs)}"


def busy(name: str, job: str, offerer: str, *, begun: bool) -> str:
    """Why an offer waits at the node ``name``: one job at a time."""
    if begun:
        return f"{name} is busy with job {job}, which {offerer} offered"
    return f"{name} has accepted another offer: {goes_first(job, offerer)}"


def goes_first(job: str, offerer: str) -> str:
    return f"job {job}, which {offerer} offered, goes first"


@contextmanager
def public_terms() -> Iterator[None]:
    """What is refused within it follows from public things alone: others may hear why."""
    try:
        yield
    except PDMLError as error:
        error.public = True
        raise
