"""The shared study with more to ask for, and one person's answers as the form takes them."""

from dataclasses import replace

from example_study import ASKING, STUDY

from pdml.study import Wording
from pdml.study.encoder import Category, Encoder

REGION = Category(name="region", levels=("north", "east", "south", "west", "centre", "islands"))
FORM = replace(
    STUDY,
    description="Three clinics want to learn who should be offered a test.\n"
    "What you send them about your diagnosis is decided by chance: it may or may not be true.",
    encoder=Encoder(attributes=(*STUDY.attributes, REGION)),
    wording={
        "age": Wording(label="How old are you?", help="In years."),
        "sex": Wording(label="Sex"),
        "region": Wording(label="Where do you live?"),
    },
)
TOLD = replace(FORM, organiser=ASKING.organiser, notice=ASKING.notice, consent=ASKING.consent)
ABOUT = {"a0": "34", "a1": "0", "a2": "2"}  # 34 years, female, south
