/* Sentences of a page: every one of the page's own comes from a catalogue, one for each language,
   with numbers as the language writes them, and is written again when somebody chooses another.
   Nothing that is sent depends on the language. */

let language = "en", locale = "en"; // whose words, and whose way to write numbers and dates

const languageOf = (tag) => tag.toLowerCase().split("-")[0];
const direction = () => CATALOGUES[language]["language.direction"];

/* A number for people: all its digits, ungrouped, because answers are typed without groups. */
function number(value) {
  const all = { useGrouping: false, maximumFractionDigits: 20 };
  return new Intl.NumberFormat(locale, all).format(String(value));
}

/* What stands in for a placeholder; other people's words keep their own direction. */
function filled(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    if (typeof value === "number") return number(value);
    return direction() === "rtl" ? `\u2068${value}\u2069` : value;
  });
}

/* A sentence's text; where it has forms for numbers, {count} decides. */
function template(key, { count }) {
  const found = CATALOGUES[language][key];
  if (typeof found === "string") return found;
  return found[new Intl.PluralRules(locale).select(count)] ?? found.other;
}

const words = (key, values = {}) => filled(template(key, values), values);

/* 73.1%, of tenths; neither 0% nor 100%, which would be promises. */
function shareInWords(tenths) {
  const digits = { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const share = (some) => new Intl.NumberFormat(locale, digits).format(some / 1000);
  if (tenths < 1) return words("share.under", { share: share(1) });
  return tenths > 999 ? words("share.over", { share: share(999) }) : share(tenths);
}

const hasSentence = (key) => Object.hasOwn(CATALOGUES.en, key);

/* The same as nodes, with *strong words* and `code`. */
function marked(key, values = {}) {
  const pieces = template(key, values).split(/(\*[^*]+\*|`[^`]+`)/);
  return pieces.map((piece) => {
    const tag = { "*": "strong", "`": "code" }[piece[0]];
    return tag ? make(tag, {}, filled(piece.slice(1, -1), values)) : filled(piece, values);
  });
}

const sentences = new Map(); // by element, what it says: to be written in another language

/* `sentence` gives text, or nodes; it is asked again whenever the language changes. */
function setText(element, sentence) {
  sentences.set(element, sentence);
  renderText(element, sentence);
  return element;
}

/* What the study says may be in another language than what the page says of itself. */
function renderText(element, sentence) {
  element.replaceChildren(...[sentence()].flat());
  if (sentence.study) sentence.study.mark(element);
}

/* Everything on the page in this language. */
function setLanguage(code) {
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
  for (const [element, sentence] of sentences) {
    if (element.isConnected) renderText(element, sentence);
    else sentences.delete(element);
  }
}

/* What somebody chose, or the first of the browser's languages that the study has, or at least the
   page. The choice stands in the address's fragment (#l=de), which no server sees; the page stores
   nothing of it. */
function preferredLanguage({ study: { language: own }, languages = [] }) {
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
    setLanguage(target.value);
    history.replaceState(history.state, "", `#l=${language}`);
  });
  at("language").parentElement.hidden = false;
}
