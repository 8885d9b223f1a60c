"""Check the subject of a commit message: `area: imperative`. Git calls it as the commit-msg hook."""

import re
import sys
from pathlib import Path

LONGEST = 100
FORM = re.compile(r"[a-z][a-z0-9_./-]*(, [a-z][a-z0-9_./-]*)*: \S.*")
MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
NO_VERBS = {
    *("a", "an", "the", "this", "that", "it", "one", "two", "no", "not", "more", "less", "some"),
    *("every", "all", "each", "new", "now", "was", "were", "is", "are", "has", "had", "its"),
}
VERBS_IN_ED_ING_S = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"} | {
    *("bring", "string", "access", "address", "assess", "bypass", "compress", "cross", "discuss"),
    *("dismiss", "express", "focus", "guess", "miss", "pass", "press", "process", "suppress"),
}


def complaint(message: str) -> str:
    """What is wrong with the subject of a message, or nothing."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(MADE_BY_GIT):
        return ""
    if not FORM.fullmatch(subject):
        return (
            "the subject is no `area: imperative`, as in `node: retry BEGIN until all acknowledge`"
        )
    if len(subject) > LONGEST:
        return f"the subject has {len(subject)} letters, more than {LONGEST}"
    if subject.endswith("."):
        return "the subject ends with a full stop"
    if len(lines) > 1 and lines[1].strip():
        return "the line after the subject is not empty"
    verb = re.split(r"[\s,]", subject.partition(": ")[2])[0]
    if verb in VERBS_IN_ED_ING_S:
        return ""
    if verb in NO_VERBS or not verb.islower() or re.search(r"(?:ed|ing|s)$", verb):
        return f"after the area stands {verb!r}, which is no imperative: what does the commit do?"
    return ""


if __name__ == "__main__":
    sys.exit(complaint(Path(sys.argv[1]).read_text(encoding="utf-8")) or None)
