"""What other organisations hear of an error: public things, or always the same sentence."""

import builtins
import importlib
import pkgutil
from dataclasses import replace

import pytest
from consortium import PLAN, Consortium
from test_round_exchange import Air

import pdml
from pdml.accounting import Budget
from pdml.errors import (
    BudgetExceeded,
    InvalidInput,
    JournalError,
    NotCertified,
    PDMLError,
    PeerError,
)
from pdml.node.job import round_exchange
from pdml.node.job.round_exchange import Stopped
from pdml.node.protocol.redaction import public_message, public_terms
from pdml.node.protocol.requests import REFUSED, PeerAnswer, RequestKind

ALWAYS = "bob could not go on: the log of its node says why"
PUBLIC = (PeerError, Stopped, BudgetExceeded)  # they are about others, and about public settings


def kinds(root):
    yield root
    for child in root.__subclasses__():
        yield from kinds(child)


def every_kind():
    """Each error that pdml defines anywhere, and each that Python does."""
    for module in pkgutil.walk_packages(pdml.__path__, "pdml."):
        try:
            importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
    known = (each for each in vars(builtins).values() if isinstance(each, type))
    return {*kinds(PDMLError), *(kind for kind in known if issubclass(kind, Exception))}


def made(kind):
    """However it is built: what counts are its kind and its text."""
    if kind is ExceptionGroup:
        return ExceptionGroup("age 34.5", [PeerError("carol lies")])
    error = kind.__new__(kind)
    error.args = ("age 34.5, gradient 0.123",)
    return error


def test_neither_text_nor_kind_of_what_happened_inside_leaves():
    seen = every_kind()
    assert {NotCertified, InvalidInput, JournalError, MemoryError, *PUBLIC} <= seen
    inside = {kind for kind in seen if not issubclass(kind, PUBLIC)}
    assert len(inside) > 50 and {public_message(made(kind), "bob") for kind in inside} == {ALWAYS}
    for error in (KeyboardInterrupt("34.5"), SystemExit("34.5")):
        assert public_message(error, "bob") == ALWAYS


def test_what_is_about_others_is_told():
    assert public_message(PeerError("carol sent a vector that is not finite"), "bob").startswith(
        "carol sent"
    )
    assert (
        public_message(BudgetExceeded("12 rounds exceed it"), "bob") == "bob: 12 rounds exceed it"
    )
    assert public_message(Stopped("bob was told to stop"), "bob") == "bob was told to stop"
    odd = PeerError("carol said \x1b[31mred\n" + "x" * 10_000)
    assert public_message(odd, "bob").isprintable() and len(public_message(odd, "bob")) <= 1000


def test_an_error_is_marked_where_it_is_raised():
    """The same kind is public in one place and not in another."""
    with pytest.raises(InvalidInput) as refused, public_terms():
        raise InvalidInput("the job names other servers")
    assert public_message(refused.value, "bob") == "bob: the job names other servers"
    assert public_message(InvalidInput("the job names other servers"), "bob") == ALWAYS
    assert (
        public_message(JournalError("job 7 is finished").mark_public(), "bob")
        == "bob: job 7 is finished"
    )


INSIDE = [
    NotCertified("the gradient is 0.123"),
    InvalidInput("a vector must hold finite numbers"),
    JournalError("database or disk is full"),
    ValueError("age 34.5"),
    ZeroDivisionError("34.5"),
    MemoryError("34.5"),
]


@pytest.mark.parametrize("error", INSIDE, ids=lambda error: type(error).__name__)
def test_a_node_that_fails_sounds_the_same_to_its_neighbours(tmp_path, monkeypatch, error):
    """In round 3 of a real exchange: they hear one sentence, and the node raises what it was."""
    monkeypatch.setattr(round_exchange, "_PAUSE", 0.02)
    made = Consortium(tmp_path)
    bob = made.party("bob")
    step = bob._node.step

    def failing(state, heard):
        if state.t == 2:
            raise error
        return step(state, heard)

    monkeypatch.setattr(bob._node, "step", failing)
    air = Air(made, round_timeout=1.0)
    ended = air.run((PDMLError, type(error)))
    assert ended["bob"] is error
    assert air.exchanges["bob"].answer(RequestKind.RELEASE, "alice", b"") == PeerAnswer(
        REFUSED, ALWAYS
    )
    heard = {str(each) for name, each in ended.items() if name != "bob"}
    refusals = {sentence for sentence in heard if "refused" in sentence}
    assert all(sentence.count(ALWAYS) == 1 for sentence in refusals)
    for sentence in heard:
        assert str(error) not in sentence and type(error).__name__ not in sentence
    made.close()


@pytest.mark.parametrize("error", [JournalError("disk full"), ValueError("34.5")])
def test_so_does_one_that_fails_while_it_listens(tmp_path, monkeypatch, error):
    made = Consortium(tmp_path)
    air = Air(made)
    bob = air.exchanges["bob"]

    def failing(*_):
        raise error

    monkeypatch.setattr(made.party("bob"), "accept", failing)
    made.meet("bob")
    for _ in range(2):
        assert bob.answer(RequestKind.RELEASE, "alice", b"x") == PeerAnswer(REFUSED, ALWAYS)
    with pytest.raises(type(error)):  # and the node's own log has it
        air.drive("bob")
    made.close()


def test_a_solve_that_cannot_be_certified_is_no_news_to_others(tmp_path, monkeypatch):
    """The real one: a tolerance below what floating point can reach."""
    monkeypatch.setattr(round_exchange, "_PAUSE", 0.02)
    made = Consortium(tmp_path, plan=replace(PLAN, tolerance=(1e-9, 1e-25, 1e-9, 1e-9)))
    ended = Air(made, round_timeout=1.0).run()
    assert isinstance(ended["bob"], NotCertified)
    for name in ("alice", "carol", "dave"):
        assert "gradient" not in str(ended[name]) and "ertif" not in str(ended[name])
    made.close()


def test_a_budget_that_is_spent_may_be_told(tmp_path):
    made = Consortium(tmp_path, budget=Budget(features_epsilon=1e-3))
    with pytest.raises(BudgetExceeded) as refused:
        made.party("bob")
    assert public_message(refused.value, "bob") == str(refused.value)
    made.close()
