/* Sentences of a page: from a catalogue for each language, with numbers as the language writes
   them. */

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
