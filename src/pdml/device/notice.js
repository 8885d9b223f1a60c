/* 5 What people read of the study before they answer, what they agree to, and what randomising means
   for their answers: true at every ε and for any number of classes (study_summary.py derives it).
   And how they take a report back. */

/* 2026-03-01T08Z as a date and an hour; UTC, and the calendar of the organiser's papers. */
function hourInWords(text) {
  const moment = new Date(String(text).replace(/T(\d\d)Z$/, "T$1:00Z"));
  const parts = { year: "numeric", month: "long", day: "numeric", hour: "numeric" };
  const read = { ...parts, timeZone: "UTC", timeZoneName: "short", calendar: "gregory" };
  return Number.isNaN(+moment) ? String(text) : moment.toLocaleString(locale, read);
}

const dayInWords = (text) =>
  new Date(text).toLocaleDateString(locale, {
    year: "numeric", month: "long", day: "numeric", timeZone: "UTC", calendar: "gregory",
  });

/* The fields of a report that say what its person agreed to. */
async function consentOf({ consent }) {
  if (!consent) return { consent: "", consent_version: "" };
  return { consent: await sha256(consent.text), consent_version: consent.version };
}

/* Opened beside this page, whose answers would be lost; no site learns where it was opened. */
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
    quoted("notice.organiser", `${name}, ${address}`),
    quoted("notice.contact", contact),
    ...(guard ? [quoted("notice.data_contact", guard)] : []),
  ];
}

function noticeFacts({ notice }, texts) {
  if (!notice) return [];
  const part = (key, name) => quoted(key, texts.notice(name), "long", texts.mark);
  const date = dayInWords(notice.retention), link = texts.notice("link");
  return [
    part("notice.purpose", "purpose"), part("notice.basis", "legal_basis"),
    part("notice.sees", "who_sees"),
    fact(words("notice.until"), words("notice.erased", { date }), "long"),
    ...(notice.text ? [part("notice.notice", "text")] : []),
    ...(link ? [quoted("notice.notice", linked(link), "long")] : []),
  ];
}

/* The step at which people agree: whether the box is ticked, after telling why it must be. */
function agreementOf(study, texts) {
  if (!study.consent) return { read: () => true, first: null };
  setText(at("notice-facts"), () => [...organiserFacts(study), ...noticeFacts(study, texts)]);
  const { version } = study.consent, box = at("consent");
  setText(at("consent-text"), texts.consent);
  setText(at("consent-version"), because("notice.version", { version }));
  const read = () => {
    const result = box.checked ? [true, null] : [undefined, because("notice.missing")];
    return showMistake(at("consent-box"), at("consent-hint"), () => "", result);
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
    showText("by-code-text", why ?? because("withdraw.done"));
    if (why) return;
    at("code").value = "";
    withdrawn(code);
  });
}

/* The bins of a sensitive number as sentences. */
function binsOf([least, most], bins) {
  const ends = [least, ...bins, most], last = bins.length;
  const bin = (low, k) =>
    () => words(k < last ? "bin.below" : "bin.last", { low, high: ends[k + 1] });
  return ends.slice(0, -1).map(bin);
}

/* The study's own texts as sentences, in the page's language if the study has it. */
function textsOf({ study, label, attributes, notice, consent, languages = [] }) {
  const own = { code: study.language, ...study, ...label, attributes, notice, consent };
  const now = () => languages.find(({ code }) => code === language) ?? own;
  const mark = (element) => {
    [element.lang, element.dir] = [now().code ?? "", "auto"];
  };
  const sentence = (text) => Object.assign(() => text(now()), { study: { mark } });
  const attribute = ({ name, levels, range, bins }, i) => {
    const here = (texts) =>
      texts === own ? attributes[i] : texts.attributes.find((one) => one.name === name);
    const level = (k) => here(now()).levels[k];
    return {
      asked: sentence((texts) => here(texts).label || name),
      help: sentence((texts) => here(texts).help || ""),
      levels: levels?.map((_, k) => sentence(() => level(k))) ?? (bins && binsOf(range, bins)),
      answer: (value) => {
        if (value === null) return words("answer.none");
        if (typeof value === "number") return number(value);
        return levels ? level(levels.indexOf(value)) : value;
      },
    };
  };
  return {
    title: sentence((texts) => texts.title),
    description: sentence((texts) => texts.description ?? ""),
    question: sentence((texts) => texts.question),
    classes: () => now().classes,
    named: label.classes.map((_, k) => sentence((texts) => texts.classes[k])),
    attributes: attributes.map(attribute),
    notice: (key) => now().notice[key] ?? notice[key], // a link may be the study's own
    consent: sentence((texts) => texts.consent.text),
    mark,
  };
}

const isWeak = (micro) => 20n * threshold(micro, 2) < WORD; // tells two answers apart with over 95%

const percent = (part, whole) => shareInWords(Number((2000n * part + whole) / (2n * whole)));

/* How often the true answer is sent. */
const keptShare = (micro, classes) => percent(WORD - threshold(micro, classes), WORD);

const epsilonInWords = (micro) => `ε = ${number(micro / 1e6)}`;

/* What one ε of the menu means to the person who chooses it. */
function chanceInWords(micro, classes) {
  const count = classes.length - 1, [no, yes] = classes;
  const sent = keptShare(micro, classes.length), between = keptShare(micro, 2);
  const each = percent(threshold(micro, classes.length), WORD * BigInt(count));
  return count === 1
    ? words("chance.two", { no, yes, sent, each })
    : words("chance.many", { count, classes: classes.length, sent, each, between });
}

/* What a map makes of the answers, in words (study_summary.py says the same). */
function mapInWords({ map, columns, pairs, count, edges }) {
  const named = columns ? columns.join(", ") : words("map.every");
  if (map === "products") {
    const both = pairs.map(([first, second]) => words("map.pair", { first, second }));
    const all = both.reduce((one, pair) => words("map.products.next", { pairs: one, pair }));
    return words("map.products", { pairs: all });
  }
  return words(`map.${map}`, { columns: named, count: edges ? edges.length + 1 : count });
}
