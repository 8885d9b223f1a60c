/* Texts, numbers and bytes as a result spells them ("Words and bytes" of result-format.md). */

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const utf8 = (text) => new TextEncoder().encode(text);
const readUtf8 = (bytes) =>
  new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);

function sameBytes(one, other) {
  return one.length === other.length && one.every((byte, i) => byte === other[i]);
}

function concatenate(...parts) {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const startsWith = (bytes, start) => sameBytes(bytes.subarray(0, start.length), start);
const mark = (name) => utf8(`pdml ${name} 1\0`);

async function sha256(bytes) {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

/* What makes a result a bad one: its kind, the servers it is about, and a sentence. */
class Refusal extends Error {
  constructor(kind, servers, sentence) {
    super(sentence);
    this.kind = kind;
    this.servers = servers;
  }
}

function demand(condition, kind, servers, sentence) {
  if (!condition) throw new Refusal(kind, servers, sentence);
}

/* A number that is written as a double: in JavaScript alone 1 and 1.0 would be the same. */
class Double {
  constructor(value) {
    this.value = value;
  }
}

const isInteger = (x) => Number.isInteger(x) || typeof x === "bigint";
const isNumber = (x) => x instanceof Double || isInteger(x);
const numeric = (x) => (x instanceof Double ? x.value : Number(x));

/* A double by the fewest digits that read back as it; an exponent below 1e-4 and from 1e16 on. */
function doubleText(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "Infinity" : "-Infinity";
  const sign = x < 0 || Object.is(x, -0) ? "-" : "";
  const [mantissa, power] = Math.abs(x).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const tail = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits[0]}${tail}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

const numberText = (x) => (x instanceof Double ? doubleText(x.value) : String(x));

const escapeAll = (text) =>
  JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/* JSON on one line with sorted keys; `quote` writes texts, `write` numbers. */
function sortedJson(value, quote, write) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quote(value);
  if (isNumber(value)) return write(value);
  if (Array.isArray(value)) {
    return `[${value.map((item) => sortedJson(item, quote, write)).join(",")}]`;
  }
  const items = Object.keys(value)
    .sort()
    .map((key) => `${quote(key)}:${sortedJson(value[key], quote, write)}`);
  return `{${items.join(",")}}`;
}

const asciiJson = (value) => sortedJson(value, escapeAll, numberText);

/* Of a study: not escaped, and doubles that are whole as integers. */
const canonicalJson = (value) => sortedJson(value, JSON.stringify, shortestNumber);

function shortestNumber(x) {
  const whole = x instanceof Double && Number.isInteger(x.value) && Math.abs(x.value) < 2 ** 53;
  return whole ? String(x.value) : numberText(x);
}

/* model.json: one space of indentation, keys in their order. */
function indentedJson(value, depth = 0) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (isNumber(value)) return numberText(value);
  const list = Array.isArray(value);
  const items = list
    ? value.map((item) => indentedJson(item, depth + 1))
    : Object.keys(value).map(
        (key) => `${JSON.stringify(key)}: ${indentedJson(value[key], depth + 1)}`,
      );
  const [open, close] = list ? "[]" : "{}";
  if (!items.length) return open + close;
  const inner = "\n" + " ".repeat(depth + 1);
  return `${open}${inner}${items.join(`,${inner}`)}\n${" ".repeat(depth)}${close}`;
}

/* JSON that keeps integers and doubles apart. Malformed text throws. */
function readJson(text) {
  let at = 0;
  const fail = () => {
    throw new SyntaxError(`no JSON at ${at}`);
  };
  const skip = () => {
    while (" \n\r\t".includes(text[at] ?? "x")) at += 1;
  };
  const take = (pattern) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) at += match[0].length;
    return match?.[0];
  };
  const string = () => JSON.parse(take(/"(?:[^"\\]|\\.)*"/sy) ?? fail());
  function several(close, one) {
    at += 1;
    skip();
    if (text[at] === close) {
      at += 1;
      return;
    }
    for (;;) {
      skip();
      one();
      skip();
      const next = text[at];
      at += 1;
      if (next === close) return;
      if (next !== ",") fail();
    }
  }
  function value(depth) {
    if (depth > 100) fail();
    skip();
    const first = text[at];
    if (first === '"') return string();
    if (first === "[") {
      const list = [];
      several("]", () => list.push(value(depth + 1)));
      return list;
    }
    if (first === "{") {
      const table = Object.create(null); // no key of a file is one of JavaScript's own
      several("}", () => {
        const key = string();
        skip();
        if (key in table || text[at] !== ":") fail();
        at += 1;
        table[key] = value(depth + 1);
      });
      return table;
    }
    const word = take(/true|false|null/y);
    if (word) return JSON.parse(word);
    const number = take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y) ?? fail();
    if (/[.eE]/.test(number)) return new Double(Number(number));
    return Number.isSafeInteger(Number(number)) ? Number(number) : BigInt(number);
  }
  const whole = value(0);
  skip();
  if (at < text.length) fail();
  return whole;
}

export {
  Double,
  Refusal,
  asciiJson,
  canonicalJson,
  concatenate,
  demand,
  doubleText,
  fromHex,
  hex,
  indentedJson,
  isInteger,
  isNumber,
  mark,
  numberText,
  numeric,
  readJson,
  readUtf8,
  sameBytes,
  sha256,
  startsWith,
  utf8,
};
