"""The shared study with more to ask for, and one person's answers as the form takes them."""

from dataclasses import replace

from example_study import ASKING, STUDY

from pdml.study import Wording
from pdml.study.encoder import Category, Encoder
from pdml.study.languages import Question, Texts

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
