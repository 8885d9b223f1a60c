"""The gallery: what the product shows when it is run, as it is. `reference` calls it for each
build of the site.

Two organisations ask made-up people; one person answers in a browser. Where no Chromium is
installed the pictures of that are left out.
"""

import csv
import random
import shutil
import sys
import tempfile
from base64 import b64decode
from pathlib import Path
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from browsing import Visitor, chromium, missing
from collector_process import collecting, pdml

STUDY = Path(__file__).parent / "gallery.toml"
PHONE = {"width": 390, "height": 760, "deviceScaleFactor": 1, "mobile": True}
FIGURE = ("bound", "--records", "20000", "--servers", "5", "--features", "19")


def make(folder: Path) -> None:
    """Fill the folder with pages, pictures and a figure."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        pdml("demo", "--out", str(place / "demo"))
        shutil.copy(place / "demo" / "report.html", folder / "demo.html")
        pdml(*FIGURE, "--plot", str(folder / "bounds.svg"))
        data = [f"{name}={_collected(place / name, folder)}" for name in ("alice", "bob")]
        pdml("train", str(STUDY), "--data", data[0], "--data", data[1], "--out", str(place / "out"))
        shutil.copy(place / "out" / "report.html", folder / "study.html")


def _collected(place: Path, folder: Path) -> Path:
    """One organisation's data set; what people and its operator see on the way is kept."""
    place.mkdir()
    _people(place / "people.csv")
    crowd = ("--csv", str(place / "people.csv"), "--label-column", "asleep")
    with collecting(STUDY, place, "--open", server=place.name) as service:
        pdml("contribute", str(STUDY), "--server", service.url, *crowd)
        if place.name == "alice":
            if not missing():
                _answered(service.url, place, folder)
            token = {"Authorization": f"Bearer {service.operator_token}"}
            with urlopen(Request(f"{service.url}/operator", headers=token)) as page:
                (folder / "operator.html").write_bytes(page.read())
        service.command("export", STUDY, "--out", str(place / "data"))
    return place / "data"


def _people(file: Path) -> None:
    draw = random.Random(file.parent.name)
    often = {"day": 0.1, "evening": 0.3, "night": 0.7, "changing": 0.5}
    with open(file, "w", newline="") as table:
        rows = csv.writer(table)
        rows.writerow(["age", "shift", "asleep"])
        for _ in range(3000):
            shift = draw.choice(list(often))
            answer = "yes" if draw.random() < often[shift] else "no"
            rows.writerow([draw.randint(18, 70), shift, answer])


def _answered(url: str, place: Path, folder: Path) -> None:
    """One person with a telephone, step by step."""
    with chromium(place / "profile", "--hide-scrollbars") as browser:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        person = Visitor(browser, url).opens()
        for step in ("about", "privacy", "question", "check", "done"):
            person.waits_for(step)
            if step == "about":
                person.answers({"a0": "44", "a1": "2"})
            elif step == "question":
                person.answers({"answer": "1"})
            picture = browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"]
            (folder / f"{step}.png").write_bytes(b64decode(picture))
            if step != "done":
                person.press("#send") if step == "check" else person.go_on()
