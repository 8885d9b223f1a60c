"""The shared study with more to ask for, and one person's answers as the form takes them."""

from dataclasses import replace

from example_study import ASKING, STUDY

from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.study import Wording
from pdml.study.translations import Question, Texts

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
GERMAN = Texts(
    code="de",
    title="Wer ist gefährdet?",
    description="Drei Kliniken wollen lernen, wem ein Test angeboten werden sollte.\n"
    "Was Sie ihnen über Ihre Diagnose senden, entscheidet der Zufall: Es kann wahr sein oder auch "
    "nicht.",
    question="Wurden Sie diagnostiziert?",
    classes=("nein", "ja"),
    attributes=(
        Question("age", "Wie alt sind Sie?", "In Jahren."),
        Question("sex", "Geschlecht", levels=("weiblich", "männlich", "anders")),
        Question(
            "region",
            "Wo wohnen Sie?",
            levels=("Norden", "Osten", "Süden", "Westen", "Mitte", "Inseln"),
        ),
    ),
)
ARABIC = Texts(
    code="ar",
    title="من المعرَّض للخطر؟",
    description="تريد ثلاث عيادات أن تعرف لمن ينبغي عرض الفحص.\n"
    "ما ترسلونه إليها عن تشخيصكم تقرره المصادفة: قد يكون صحيحًا وقد لا يكون.",
    question="هل شُخِّصت إصابتكم؟",
    classes=("لا", "نعم"),
    attributes=(
        Question("age", "كم عمركم؟", "بالسنوات."),
        Question("sex", "الجنس", levels=("أنثى", "ذكر", "غير ذلك")),
        Question(
            "region",
            "أين تسكنون؟",
            levels=("الشمال", "الشرق", "الجنوب", "الغرب", "الوسط", "الجزر"),
        ),
    ),
)
TRANSLATED = replace(FORM, language="en", languages=(GERMAN, ARABIC))
# What people are told and agree to, in the same languages.
AGREED = {
    "de": (
        {
            "purpose": "Um zu lernen, wer gefährdet ist.",
            "legal_basis": "Ihre Einwilligung.",
            "who_sees": "Die Klinik sieht jede Antwort außer der letzten.",
        },
        "Ich habe die Hinweise gelesen und stimme zu.",
    ),
    "ar": (
        {
            "purpose": "لمعرفة من المعرَّض للخطر.",
            "legal_basis": "موافقتكم.",
            "who_sees": "يرى المستشفى كل إجابة عدا الأخيرة.",
        },
        "قرأتُ الإشعار وأوافق.",
    ),
}
TOLD_TRANSLATED = replace(
    TOLD,
    language="en",
    languages=tuple(
        replace(texts, notice=AGREED[texts.code][0], consent={"text": AGREED[texts.code][1]})
        for texts in (GERMAN, ARABIC)
    ),
)
ABOUT = {"a0": "34", "a1": "0", "a2": "2"}  # 34 years, female, south

# Studies with more secrets than the label: some of what they ask for, or all of it.
MENU = Menu(menu=(0.5, 1.0, 2.0), default=1.0)
STATUS = Category(name="status", levels=("single", "married", "widowed"), epsilon=MENU)
INCOME = Number(
    name="income",
    low=0,
    high=200,
    bins=(20, 50.5, 100),
    missing="level",
    epsilon=Menu(menu=(0.4, 2.0), default=2.0),
)
SECRETS = replace(
    TOLD,
    encoder=Encoder(attributes=(STATUS, STUDY.attributes[0], INCOME)),
    wording={
        "status": Wording(label="Are you married?"),
        "age": Wording(label="How old are you?", help="In years."),
        "income": Wording(label="What do you earn?", help="In thousands a year."),
    },
)
ALL_SECRET = replace(
    SECRETS,
    encoder=Encoder(attributes=(STATUS, INCOME)),
    wording={name: SECRETS.wording[name] for name in ("status", "income")},
)
_ASKED = {
    "de": (
        Question("status", "Sind Sie verheiratet?", levels=("ledig", "verheiratet", "verwitwet")),
        Question("age", "Wie alt sind Sie?", "In Jahren."),
        Question("income", "Was verdienen Sie?", "In Tausend im Jahr."),
    ),
    "ar": (
        Question("status", "هل أنتم متزوجون؟", levels=("أعزب", "متزوج", "أرمل")),
        Question("age", "كم عمركم؟", "بالسنوات."),
        Question("income", "كم دخلكم؟", "بالآلاف في السنة."),
    ),
}
SECRETS_TRANSLATED = replace(
    SECRETS,
    language="en",
    languages=tuple(
        replace(texts, attributes=_ASKED[texts.code]) for texts in TOLD_TRANSLATED.languages
    ),
)
