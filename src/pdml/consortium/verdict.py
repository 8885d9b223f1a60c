"""What checking a result has found, for people, for programs and for JSON."""

from dataclasses import dataclass
from typing import Any

from pdml.consortium.consistency import Flaw
from pdml.consortium.result_folder import EVIDENCE, MODEL, PAGE, STATEMENTS, STUDY
from pdml.errors import NotVerified
from pdml.node.protocol.equivocation import EquivocationProof


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was found. Without problems every word is proved, or somebody's signed claim."""

    problems: tuple[Flaw, ...]
    unchecked: tuple[str, ...] = ()  # files that may differ: a model by last digits, a page wholly
    study: str = ""  # its hash
    agreed: bool = False  # whether it was compared with that of the study you agreed on
    study_id: str = ""
    job: str = ""
    rounds: int = 0
    servers: tuple[str, ...] = ()
    equivocated: tuple[EquivocationProof, ...] = ()  # proved

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def checked(self) -> tuple[str, ...]:
        """What was checked and is right, in sentences; nothing where there are problems."""
        if not self.ok:
            return ()
        digits = " but for last digits" if MODEL in self.unchecked else " to the byte"
        return (
            f"{STUDY} is one study, in the one spelling that a result has"
            + (", and the one that you agreed on." if self.agreed else "."),
            f"{STATEMENTS}/ holds a statement of every server, signed by the key that the study "
            "pins for it.",
            "What each server says it sent is what the others say they heard.",
            "What each server says it spent is the plan's for the records it states, over all "
            "jobs it states, within the study's budget.",
            f"{MODEL} is what the statements give, compared{digits}: weights, expected accuracy, "
            "privacy figures, all of it.",
            *([] if PAGE in self.unchecked else [f"{PAGE} is what they give, to the byte."]),
            f"There is no other file, and no {EVIDENCE}/ against anybody.",
        )

    @property
    def not_checked(self) -> tuple[str, ...]:
        """What nothing in the folder vouches for, in sentences."""
        sentences = []
        if not self.agreed:
            sentences.append(f"whether {STUDY} is the study you agreed on: compare its hash.")
        if MODEL in self.unchecked:
            sentences.append(
                f"the last digits of {MODEL}: weights differ by one step of their grid (2^-24 of "
                "the largest), or expected figures by 0.0001, from what this machine computes."
            )
        if PAGE in self.unchecked:
            sentences.append(
                f"{PAGE}: it is not the page that this machine draws. Do not rely on it."
            )
        sentences.append(
            "what each server claims of itself: how many records it has and whose, who randomised "
            "them, that it drew its noise, and that it left out no job."
        )
        return tuple(sentences)

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
            "checked": list(self.checked),
            "not_checked": list(self.not_checked) if self.ok else [],
            "equivocated": [proof.sender for proof in self.equivocated],
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
