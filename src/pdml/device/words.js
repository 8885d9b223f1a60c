/* 5 Words: every sentence of the page's own comes from a catalogue, one for each language, and is
   said again in another when somebody chooses it. What chance means is true at every ε and for any
   number of classes (words.py derives it). Nothing that is sent depends on the language. */

const known = (key) => Object.hasOwn(CATALOGUES.en, key);

/* 2026-03-01T08Z as a date and an hour; UTC, and the calendar of the organiser's papers. */
function hourInWords(text) {
  const moment = new Date(String(text).replace(/T(\d\d)Z$/, "T$1:00Z"));
  const parts = { year: "numeric", month: "long", day: "numeric", hour: "numeric" };
  const read = { ...parts, timeZone: "UTC", timeZoneName: "short", calendar: "gregory" };
  return Number.isNaN(+moment) ? String(text) : moment.toLocaleString(locale, read);
}

/* The same as nodes, with *strong words* and `code`. */
function marked(key, values = {}) {
  const pieces = template(key, values).split(/(\*[^*]+\*|`[^`]+`)/);
  return pieces.map((piece) => {
    const tag = { "*": "strong", "`": "code" }[piece[0]];
    return tag ? make(tag, {}, filled(piece.slice(1, -1), values)) : filled(piece, values);
  });
}

const told = new Map(); // by element, what it says: to be said again in another language

/* `sentence` gives text, or nodes; it is asked again whenever the language changes. */
function tell(element, sentence) {
  told.set(element, sentence);
  retell(element, sentence);
  return element;
}

/* What the study says may be in another language than what the page says of itself. */
function retell(element, sentence) {
  element.replaceChildren(...[sentence()].flat());
  if (sentence.study) sentence.study.mark(element);
}

/* Everything on the page in this language. */
function speak(code) {
  const same = (tag) => languageOf(tag) === code;
  [language, locale] = [code, navigator.languages.find(same) ?? code];
  document.documentElement.lang = code;
  document.documentElement.dir = direction();
  const values = { host: location.host };
  for (const element of document.querySelectorAll("[data-words]")) {
    element.replaceChildren(...marked(element.dataset.words, values));
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", words(element.dataset.label));
  }
  for (const [element, sentence] of told) {
    if (element.isConnected) retell(element, sentence);
    else told.delete(element);
  }
}

/* What somebody chose, or the first of the browser's languages that the study has, or at least the
   page. The choice stands in the address's fragment (#l=de), which no server sees; the page stores
   nothing of it. */
function preferred({ study: { language: own }, languages = [] }) {
  const chosen = /[#&]l=([a-z]+)/.exec(location.hash)?.[1] ?? "";
  const speaks = (code) => Object.hasOwn(CATALOGUES, code);
  const has = (code) => code === own || languages.some((texts) => texts.code === code);
  const wanted = navigator.languages.map(languageOf);
  return speaks(chosen) ? chosen : wanted.find(has) ?? wanted.find(speaks) ?? own ?? "en";
}

function offerLanguages() {
  const option = ([code, own]) => {
    const tongue = { value: code, lang: code, dir: own["language.direction"] };
    return make("option", tongue, own["language.name"]);
  };
  at("language").append(...Object.entries(CATALOGUES).map(option));
  at("language").value = language;
  at("language").addEventListener("change", ({ target }) => {
    speak(target.value);
    history.replaceState(history.state, "", `#l=${language}`);
  });
  at("language").parentElement.hidden = false;
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
      answer: (given) => {
        if (given === null) return words("answer.none");
        if (typeof given === "number") return number(given);
        return levels ? level(levels.indexOf(given)) : given;
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

/* What a map makes of the answers, in words (readable.py says the same). */
function mapInWords({ map, columns, pairs, count, edges }) {
  const named = columns ? columns.join(", ") : words("map.every");
  if (map === "products") {
    const both = pairs.map(([first, second]) => words("map.pair", { first, second }));
    const all = both.reduce((one, pair) => words("map.products.next", { pairs: one, pair }));
    return words("map.products", { pairs: all });
  }
  return words(`map.${map}`, { columns: named, count: edges ? edges.length + 1 : count });
}
