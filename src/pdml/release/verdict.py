"""What checking a result has found, for people, for programs and for JSON."""

from dataclasses import dataclass
from typing import Any

from pdml.errors import NotVerified
from pdml.node.evidence import Equivocated
from pdml.release.agreement import Flaw


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was found. Without problems every word is proved, or somebody's signed claim."""

    problems: tuple[Flaw, ...]
    unchecked: tuple[str, ...] = ()  # files that were allowed to be: nothing vouches for them
    study: str = ""  # its hash: the one you agreed on?
    study_id: str = ""
    job: str = ""
    rounds: int = 0
    servers: tuple[str, ...] = ()
    equivocated: tuple[Equivocated, ...] = ()  # proved

    @property
    def ok(self) -> bool:
        return not self.problems

    def check(self) -> None:
        """Raise `NotVerified` if there are problems.

        Raises
        ------
        NotVerified
            With the first problem in its sentence, and all of them in ``problems``.
        """
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            sentence = f"the result is refused: {self.problems[0].sentence}{more}"
            raise NotVerified(sentence, self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "ok": self.ok,
            "study": self.study_id,
            "study_hash": self.study,
            "job": self.job,
            "rounds": self.rounds,
            "servers": list(self.servers),
            "unchecked": list(self.unchecked),
            "equivocated": [each.sender for each in self.equivocated],
            "problems": [
                {
                    "kind": problem.kind,
                    "sentence": problem.sentence,
                    "servers": list(problem.servers),
                    "round": problem.round,
                }
                for problem in self.problems
            ],
        }
