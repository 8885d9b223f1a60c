"""Everything PDML refuses, as one small tree.

PDMLError
├── InvalidInput             a parameter, file or data set is not acceptable (also a ValueError)
│   ├── DataError            a table or an array, with the row and column named
│   │   └── MissingValueError   a cell without a value, where nobody declared what that means
│   ├── GraphError           the servers cannot reach one another
│   ├── StudyError           a study file, with every mistake and its line
│   ├── UndeclaredColumns    columns of a table without a declared range or levels
│   ├── UnfitStudy           a study that cannot be used so, with every reason:
│   │   ├── UntrainableStudy    no job may start under it
│   │   └── MissingNotice       nobody may be asked by it
│   └── MessageError         bytes that are no message of the protocol, with the problem's code
├── NotDelivered             a report did not reach its service, or was refused; ``code`` says why
├── PeerError                another server broke the protocol; the sentence names it
│   └── Equivocation         it signed two different things; ``evidence`` proves it
├── NotVerified              a result is not what it says it is; ``problems`` say why
├── ClaimsViolated           an attack shows more than the ledger claims; ``findings`` say which
├── MissingExtra             a package that an extra brings is not installed (also an ImportError)
├── EngineError              a machine or process that a training ran on is gone, or too slow
├── StorageUnavailable       a collection cannot be written now; nothing was acknowledged
├── JournalError             a node's journal cannot be used: noise could be repeated or renewed
├── NotCertified             a primal solve did not reach the tolerance that the proof needs
└── BudgetExceeded           going on would spend more privacy than the study allows

`PrivacyUtilityWarning` and `ClippingWarning` are no refusals: the training is as private as was
asked, and hardly of use.
`UncountedTrainingWarning` is none either: ledgers of several trainings do not count one another.
"""

import re
import sys
import unicodedata
import warnings
from collections.abc import Sequence
from threading import Lock
from types import FrameType
from typing import Any, Self


class PDMLError(Exception):
    """Base of every error PDML raises on purpose; its text is one sentence for people.

    ``public``: it follows from public settings and from what others sent, so that other
    organisations may hear it. Nothing that depends on a record ever is.
    """

    public: bool = False

    def mark_public(self) -> Self:
        """The same error, marked as public."""
        self.public = True
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the same error, whatever it takes to make one."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[PDMLError], args: tuple[Any, ...], fields: dict[str, Any]) -> PDMLError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InvalidInput(PDMLError, ValueError):
    """A value lies outside its domain; the sentence begins with its name where ``setting`` has
    it.
    """

    def __init__(self, text: str, *, setting: str = "") -> None:
        self.setting = setting
        super().__init__(text)


class DataError(InvalidInput):
    """A data set cannot be used as it is."""


class MissingValueError(DataError):
    """A cell of ``column`` holds no value; ``cell`` is what it says, "" if it is empty or not to
    be told.
    """

    def __init__(self, text: str, *, column: str, cell: str = "") -> None:
        self.column, self.cell = column, cell
        super().__init__(text)


class GraphError(InvalidInput):
    """The communication graph does not connect the servers."""


class StudyError(InvalidInput):
    """A study file holds mistakes; ``mistakes`` are all of them as (line, sentence), line 0 where
    there is no file.
    """

    def __init__(self, source: str, mistakes: Sequence[tuple[int, str]]) -> None:
        self.source, self.mistakes = source, tuple(mistakes)
        summary = "; ".join(
            f"line {line}: {text}" if line else text for line, text in self.mistakes[:20]
        )
        summary += f"; and {len(self.mistakes) - 20} more" if len(self.mistakes) > 20 else ""
        count = f"{len(self.mistakes)} mistakes: " if len(self.mistakes) > 1 else ""
        super().__init__(f"{source} is not a valid study: {count}{summary}")


class UndeclaredColumns(InvalidInput):
    """Columns have no declared range or levels; ``numbers`` are those that hold numbers, and
    ``advice`` ends the sentence.
    """

    def __init__(self, columns: Sequence[str], numbers: Sequence[str], advice: str = "") -> None:
        self.columns, self.numbers = tuple(columns), tuple(numbers)
        single = len(self.columns) == 1
        named = ", ".join(map(repr, self.columns[:10]))
        named += f" and {len(self.columns) - 10} more" if len(self.columns) > 10 else ""
        self.which = (
            f"column{'' if single else 's'} {named} {'has' if single else 'have'} no declared "
            "range or "
            f"levels: declare {'it' if single else 'them'}"
        )
        super().__init__(f"{self.which}{advice}")


class UnfitStudy(InvalidInput):
    """A study cannot be used so; ``study`` is its id, ``reasons`` are whole sentences."""

    def __init__(self, study: str, reasons: Sequence[str]) -> None:
        self.study, self.reasons = study, tuple(reasons)
        super().__init__("; ".join(self.reasons))


class UntrainableStudy(UnfitStudy):
    """No job may start under a study."""


class MissingNotice(UnfitStudy):
    """Nobody may be asked by a study: it does not say what people must be told."""


class MessageError(InvalidInput):
    """A message is refused; ``code`` is one of the names in `pdml.study.messages.PROBLEMS`."""

    def __init__(self, text: str, code: str = "malformed") -> None:
        self.code = code
        super().__init__(text)


class NotDelivered(PDMLError):
    """A report is not known to be stored; ``code`` is the service's problem code, or empty if no
    clear answer came.
    """

    def __init__(self, text: str, code: str = "") -> None:
        self.code = code
        super().__init__(text)


class NotCertified(PDMLError, ArithmeticError):
    """The gradient norm at the returned point exceeds the plan's tolerance."""


class BudgetExceeded(PDMLError):
    """The privacy budget does not cover what was asked; the whole ledger is public."""

    public = True


class PeerError(PDMLError):
    """Another server sent what no honest one would, or nothing at all."""

    public = True


class Equivocation(PeerError):
    """``peer`` signed two different things about ``round``; ``evidence`` holds both, to check."""

    def __init__(self, text: str, *, peer: str, round: int, evidence: bytes = b"") -> None:
        self.peer, self.round, self.evidence = peer, round, evidence
        super().__init__(text)


class NotVerified(PDMLError):
    """A result is refused; ``problems`` are all reasons."""

    def __init__(self, text: str, problems: Sequence[object] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__(text)


class ClaimsViolated(PDMLError):
    """What was measured exceeds what is claimed; ``findings`` are those that do."""

    def __init__(self, text: str, findings: Sequence[object] = ()) -> None:
        self.findings = tuple(findings)
        super().__init__(text)


class JournalError(PDMLError):
    """The journal cannot promise that noise is neither repeated nor renewed."""


class MissingExtra(PDMLError, ImportError):
    """``package`` is not installed; ``extra`` is the extra of pdml that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"this needs {package}, which is not installed: pip install 'pdml[{extra}]'"
        )


class EngineError(PDMLError):
    """What a training ran on failed; nothing was restarted behind anybody's back."""


class StorageUnavailable(PDMLError):
    """The store cannot commit now (full, read-only, gone); nothing of what was asked is
    acknowledged.
    """


class PrivacyUtilityWarning(UserWarning):
    """Within the budget no plan is expected to do better than each server alone, or than guessing
    the largest class.
    """


class ClippingWarning(UserWarning):
    """Nothing is declared, and many rows are far longer than ``norm_bound``: clipped to it they can
    have lost most of their information.
    """


class UncountedTrainingWarning(UserWarning):
    """Several trainings on the same records: each ledger counts its own alone."""


_LIBRARIES = ("pdml", "sklearn", "joblib")
_warned: set[tuple[str, str, int]] = set()  # sentence, file, line
_warning = Lock()


def warn(sentence: str, kind: type[UserWarning]) -> None:
    """Warn of the line that called a library: once for all fits of a call of scikit-learn, and once
    for each line where a filter asks for that. Python forgets lines whenever filters change, and
    scikit-learn changes them around every fit.
    """
    caller, search = sys._getframe(1), None
    while (library := _library(caller)) in _LIBRARIES and caller.f_back:
        search = search if library == "pdml" else caller
        caller = caller.f_back
    place = (sentence, caller.f_code.co_filename, caller.f_lineno)
    module = caller.f_globals.get("__name__", "<unknown>")
    action = next(
        (
            action
            for action, text, category, name, line in warnings.filters
            if issubclass(kind, category)
            and (text is None or re.match(text, sentence))
            and (name is None or re.match(name, module))
            and line in (0, caller.f_lineno)
        ),
        "default",
    )
    if action not in ("error", "ignore"):
        memories = [] if action == "always" else [_warned]
        with _warning:
            if search is not None:
                memories.append(search.f_locals.setdefault("_pdml_warned", set()))
            if any(place in memory for memory in memories):
                return
            for memory in memories:
                memory.add(place)
    warnings.warn_explicit(sentence, kind, *place[1:], module=module)


def _library(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def because(error: BaseException) -> str:
    """What the system says was wrong, in lower case: the end of a sentence."""
    return (getattr(error, "strerror", None) or str(error)).lower()


_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, and what turns letters round


def is_hidden(letter: str) -> bool:
    """Whether a screen obeys or ignores it instead of showing it; some scripts need the joiners."""
    return unicodedata.category(letter) in _HIDDEN and letter not in "\u200c\u200d"


def visible(text: str) -> str:
    """Somebody else's text without what moves a terminal's cursor or turns its letters round."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if is_hidden(letter) and letter not in "\n\t" else letter for letter in text
    )


def plain(sentence: str, longest: int = 1000) -> str:
    """One line that a terminal shows as it stands: somebody else's words may hold anything."""
    text = "".join(letter if letter.isprintable() else " " for letter in sentence[:longest])
    return " ".join(text.split())
