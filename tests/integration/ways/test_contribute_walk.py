"""Two people at one computer answer a study in the terminal, by the dialogue of `pdml contribute`,
and one of them takes the report back.
"""

import csv
import json

import pytest

pytest.importorskip("uvicorn")

from walking import Walk, free_ports, write_study

STUDY = "study.toml"
HERE = (STUDY, "--server", "north")
WITHDRAWN = {"study", "version", "withdrawn"}


def serve(walk: Walk) -> tuple[str, str]:
    """A study, one of its services, and the links of two people."""
    port, other = free_ports(2)
    write_study(walk, {"north": port, "south": other})
    assert "is a valid study" in walk.pdml("study", "check", STUDY)
    walk.pdml("collect", "invite", *HERE, "--count", 2, "--out", "links.csv")
    walk.start("collect", "serve", *HERE, "--port", port, ready="Collecting")
    with open(walk.folder / "links.csv", newline="") as file:
        first, second = (row["link"] for row in csv.DictReader(file))
    return first, second


def answer(walk: Walk, link: str, age: int, *words: object) -> str:
    """One person in a terminal: a mistake, every question, and consent before and after. What is
    not shown is typed after the prompt's last space: before it the terminal throws it away.
    """
    return walk.converse(
        "contribute",
        *(*HERE, "--token", link, *words),
        answers=[
            ("Do you agree?", "y"),
            ("(from 18 to 70, whole)", "seventeen"),
            ("Please answer again", str(age)),
            ("Your choice", "night"),
            ("Your choice", "2"),
            ("Your choice (not shown): ", "yes"),
            ("Once more: ", "yes"),
            ("Send this?", "y"),
        ],
    )


def count(walk: Walk, name: str) -> int:
    return int(json.loads(walk.pdml("collect", "status", *HERE, "--json"))[name])


def test_two_people_answer_in_the_terminal_and_one_withdraws(walk: Walk) -> None:
    walk.environment |= {"HOME": str(walk.folder)}  # whose account the two share
    for name in ("XDG_STATE_HOME", "PDML_STATE_DIR"):
        walk.environment.pop(name, None)
    first, second = serve(walk)
    summary = answer(walk, first, 44, "--receipt", "mine.json")
    assert "Institute for Sleep" in summary and "Stored by north" in summary
    mine = json.loads((walk.folder / "mine.json").read_text())
    assert mine["receipt"]["id"] in summary and mine["code"] in summary
    state = walk.folder / ".local" / "state" / "pdml"

    summary = answer(walk, second, 23)  # another invitation is another person
    assert "was randomised before" not in summary and "has left before" not in summary
    assert mine["receipt"]["id"] not in summary and mine["code"] not in summary
    assert count(walk, "reports") == 2 and len(list(state.iterdir())) == 2

    again = walk.converse(  # the first once more: the same bytes, which count once
        "contribute", *HERE, "--token", first, answers=[("Send this?", "y")]
    )
    assert "has left before" in again and mine["receipt"]["digest"] in again
    assert count(walk, "reports") == 2
    assert "token must be the invitation" in walk.pdml("contribute", *HERE, code=1)

    assert "no report to this study: name its" in walk.pdml("contribute", "withdraw", *HERE, code=1)
    assert "has erased" in walk.pdml("contribute", "withdraw", *HERE, "--token", first)
    assert (count(walk, "reports"), count(walk, "withdrawn")) == (1, 1)
    held = [json.loads(path.read_bytes()) for path in state.iterdir()]
    assert [set(memo) for memo in held if "withdrawn" in memo] == [WITHDRAWN]
    said = walk.pdml("contribute", *HERE, "--token", first, code=1)
    assert "was withdrawn on this device" in said  # and chance does not decide again
    assert "had erased" in walk.pdml("contribute", "withdraw", STUDY, "--receipt", "mine.json")


def test_a_closed_collection_takes_a_late_report_once_it_is_reopened(walk: Walk) -> None:
    walk.environment |= {"PDML_STATE_DIR": str(walk.folder / "device")}
    link, _ = serve(walk)
    given = ("--answer", "age=44", "--answer", "shift=night", "--epsilon", 1, "--label", "yes")
    report = ("contribute", *HERE, "--token", link, *given, "--agree", "--yes")
    assert "is closed" in walk.pdml("collect", "close", *HERE)
    refused = walk.pdml(*report, code=1)
    assert "closed" in refused and count(walk, "reports") == 0
    assert not (walk.folder / "device").exists(), "chance has decided nothing yet"

    assert "is open" in walk.pdml("collect", "close", *HERE, "--reopen")
    assert "Stored by north" in walk.pdml(*report)
    assert count(walk, "reports") == 1
