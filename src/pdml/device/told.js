// 8 What people are told before they are asked, what they agree to, and how they take a report
//   back.

const dayInWords = (text) =>
  new Date(text).toLocaleDateString(locale, {
    year: "numeric", month: "long", day: "numeric", timeZone: "UTC", calendar: "gregory",
  });

/* The fields of a report that say what its person agreed to. */
async function consentOf({ consent }) {
  if (!consent) return { consent: "", consent_version: "" };
  return { consent: await sha256(consent.text), consent_version: consent.version };
}

/* Opened beside this page, whose answers would be lost; nobody is told where it was opened. */
const linked = (href) => make("a", { href, target: "_blank", rel: "noreferrer" }, href);

/* A fact in the words of the study, or of its organiser; others' words keep their direction. */
function quoted(key, value, style, mark = (element) => (element.dir = "auto")) {
  const row = fact(words(key), value, style);
  mark(row.lastChild);
  return row;
}

/* Who asks, and whom to write to. */
function organiserFacts({ organiser }) {
  if (!organiser) return [];
  const { name, address, contact, data_protection_contact: guard } = organiser;
  return [
    quoted("told.organiser", `${name}, ${address}`),
    quoted("told.contact", contact),
    ...(guard ? [quoted("told.data_contact", guard)] : []),
  ];
}

function noticeFacts({ notice }, texts) {
  if (!notice) return [];
  const told = (key, name) => quoted(key, texts.notice(name), "long", texts.mark);
  const date = dayInWords(notice.retention), link = texts.notice("link");
  return [
    told("told.purpose", "purpose"), told("told.basis", "legal_basis"),
    told("told.sees", "who_sees"),
    fact(words("told.until"), words("told.erased", { date }), "long"),
    ...(notice.text ? [told("told.notice", "text")] : []),
    ...(link ? [quoted("told.notice", linked(link), "long")] : []),
  ];
}

/* The step at which people agree: whether the box is ticked, after telling why it must be. */
function agreement(study, texts) {
  if (!study.consent) return { read: () => true, first: null };
  tell(at("told"), () => [...organiserFacts(study), ...noticeFacts(study, texts)]);
  const { version } = study.consent, box = at("consent");
  tell(at("consent-text"), texts.consent);
  tell(at("consent-version"), because("told.version", { version }));
  const read = () => {
    const said = box.checked ? [true, null] : [undefined, because("told.missing")];
    return judged(at("consent-box"), at("consent-hint"), () => "", said);
  };
  return { read, first: box };
}

/* Withdrawal codes are shown in fours, and typed with or without what stands between. */
const spaced = (code) => code.match(/.{4}/g).join("-");
const codeIn = (text) => {
  const plain = text.toLowerCase().replace(/[\s-]/g, "");
  return /^[0-9a-f]{32}$/.test(plain) ? plain : null;
};

/* null once the server confirms that the report of this code is erased, else why it is not. */
async function takeBack(study, code) {
  const [status, answer] = await ask("withdrawals", JSON.stringify({ code }));
  if (status === 200 && answer?.id === (await reportId(code))) return null;
  const clear = status >= 400 && status < 500, problem = clear ? codeOf(status, answer) : "";
  const until = study.notice?.retention;
  if (problem === "frozen") {
    const still = () => (until ? ` ${words("withdraw.until", { date: dayInWords(until) })}` : "");
    return () => words("withdraw.frozen") + still();
  }
  return because(problem === "withdrawal_unknown" ? "withdraw.unknown" : "withdraw.unclear");
}

/* With the receipt's code alone, on whatever device. */
function offerWithdrawal(study, withdrawn) {
  at("code").addEventListener("keydown", ({ key }) => key === "Enter" && at("by-code").click());
  at("by-code").addEventListener("click", async () => {
    const code = codeIn(at("code").value);
    const why = code ? await takeBack(study, code) : because("withdraw.unknown");
    say("by-code-said", why ?? because("withdraw.done"));
    if (why) return;
    at("code").value = "";
    withdrawn(code);
  });
}
