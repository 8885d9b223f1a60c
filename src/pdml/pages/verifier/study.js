/* The study: its one spelling, its hash, and what a row has ("The study"). */

import {
  Double,
  Refusal,
  asciiJson,
  canonicalJson,
  demand,
  doubleText,
  numberText,
  numeric,
  readUtf8,
  sameBytes,
  sha256,
  utf8,
} from "./bytes.js";

const words = (text) => text.split(" ");
const MENU = words("menu default accept_weak");
const LIMIT = words("epsilon delta");
const TABLES = { // in the order of the file
  study: words("id title min_records description language replaces opens closes"),
  organiser: words("name address contact data_protection_contact"),
  notice: words("purpose legal_basis who_sees retention text link"),
  consent: words("text version"),
  label: words("question classes epsilon"),
  encoder: words("missing_values"),
  attributes: words(
    "kind name range levels whole average spread missing bins epsilon label help",
  ),
  maps: words("map pairs columns count edges scale seed keep"),
  languages: words("code title description question classes attributes notice consent"),
  servers: words("name url signing_key sealing_key"),
  topology: words("edges"),
  budget: words("colluding features labels"),
  plan: words(
    "rounds regularization penalty objective_bound objective_noise noise_scale " +
      "noise_decay tolerance loss method label_noise square_noise colluding epsilon_cap",
  ),
  relay: words("address fingerprint"),
};
const INNER = { // tables in one line
  "label.epsilon": MENU,
  "attributes.epsilon": MENU,
  "languages.attributes": words("name label help levels"),
  "languages.notice": words("purpose legal_basis who_sees text link"),
  "languages.consent": words("text"),
  "budget.features": LIMIT,
  "budget.labels": LIMIT,
};
const MANY = ["attributes", "maps", "languages", "servers"];
const TIMES = ["opens", "closes", "retention"];
const NO_ANSWER = "prefer not to say";
const CONSTANT = 0.2;
const MARGIN = 1 - 2 ** -20;

const refuse = (sentence) => {
  throw new Refusal("study", [], `study.toml ${sentence}`);
};

/* Only the spelling that a result has needs to be read: every other text is refused anyway. */
function parseStudy(text) {
  const document = {};
  let name = "";
  let table = null;
  for (const line of text.split("\n")) {
    const header = /^\[(\[)?([a-z]+)\]\]?$/.exec(line);
    if (header) {
      name = header[2];
      const many = MANY.includes(name);
      if (!(name in TABLES) || many !== Boolean(header[1]) || (!many && name in document)) {
        refuse(`has a table that no result has: ${line}`);
      }
      table = {};
      if (many) (document[name] ??= []).push(table);
      else document[name] = table;
    } else if (line) {
      const [, key, rest] = /^([a-z_]+) = (.*)$/.exec(line) ?? refuse(`cannot be read: ${line}`);
      if (table === null || key in table) refuse(`cannot be read: ${line}`);
      table[key] = TIMES.includes(key) ? time(rest) : readValue(rest);
    }
  }
  return document;
}

function time(text) {
  if (!/^\d{4}-\d\d-\d\d([T ][0-9:.]+(Z|[-+]\d\d:\d\d)?)?$/.test(text)) {
    refuse(`has no time where one is due: ${text}`);
  }
  return text;
}

function readValue(line) {
  let at = 0;
  const take = (pattern) => {
    pattern.lastIndex = at;
    const match = pattern.exec(line);
    if (!match) refuse(`cannot be read: ${line}`);
    at += match[0].length;
    return match[0];
  };
  function several(close, one) {
    if (line.startsWith(close, at)) {
      at += close.length;
      return;
    }
    do one();
    while (take(close === "]" ? /, |\]/y : /, | \}/y) === ", ");
  }
  function value(depth) {
    if (depth > 20) refuse("is nested too deeply");
    if (line[at] === '"') {
      const quoted = take(/"(?:[^"\\\x7f]|\\.)*"/y);
      return JSON.parse(quoted);
    }
    if (line[at] === "[") {
      const list = [];
      at += 1;
      several("]", () => list.push(value(depth + 1)));
      return list;
    }
    if (line[at] === "{") {
      const table = {};
      take(/\{ /y);
      several(" }", () => {
        const key = take(/[a-z_]+ = /y).slice(0, -3);
        if (key in table) refuse(`says ${key} twice: ${line}`);
        table[key] = value(depth + 1);
      });
      return table;
    }
    const word = take(/[-+.\w]+/y);
    if (word === "true" || word === "false") return word === "true";
    if (/^-?inf$/.test(word)) return new Double(word === "inf" ? Infinity : -Infinity);
    if (/^-?\d+$/.test(word)) {
      return Number.isSafeInteger(Number(word)) ? Number(word) : BigInt(word);
    }
    if (/^-?\d+(\.\d+)?([eE][-+]?\d+)?$/.test(word)) return new Double(Number(word));
    return refuse(`cannot be read: ${line}`);
  }
  const whole = value(0);
  if (at !== line.length) refuse(`cannot be read: ${line}`);
  return whole;
}

/* The one text of a document. */
function spellStudy(document) {
  const texts = [];
  for (const [name, keys] of Object.entries(TABLES)) {
    if (!(name in document)) continue;
    const many = MANY.includes(name);
    for (const table of many ? document[name] : [document[name]]) {
      const lines = inOrder(table, keys).map(
        ([key, item]) => `${key} = ${TIMES.includes(key) ? item : spell(name, key, item)}\n`,
      );
      texts.push(`${many ? `[[${name}]]` : `[${name}]`}\n${lines.join("")}`);
    }
  }
  return texts.join("\n");
}

function inOrder(table, keys) {
  const isEmpty = (item) =>
    item === "" || item === false || (typeof item === "object" && !Object.keys(item).length);
  for (const [key, item] of Object.entries(table)) {
    if (!keys.includes(key) || (isEmpty(item) && !(item instanceof Double))) {
      refuse(`is not written as a result writes it: ${key}`);
    }
  }
  return keys.filter((key) => key in table).map((key) => [key, table[key]]);
}

function spell(name, key, item) {
  if (typeof item === "string" || typeof item === "boolean") return JSON.stringify(item);
  if (Array.isArray(item)) return `[${item.map((x) => spell(name, key, x)).join(", ")}]`;
  if (item instanceof Double) {
    const whole = Number.isInteger(item.value) && Math.abs(item.value) < 2 ** 53;
    return whole ? String(item.value) : doubleText(item.value).replace("Infinity", "inf");
  }
  if (typeof item !== "object") return numberText(item);
  const keys = INNER[`${name}.${key}`] ?? refuse(`has a table in ${key}`);
  const items = inOrder(item, keys).map(([k, x]) => `${k} = ${spell(name, k, x)}`);
  return `{ ${items.join(", ")} }`;
}

/* What a row is. */

const exactText = (x) => doubleText(numeric(x)).replace(/\.0$/, "");

function levelsOf(attribute) {
  const missing = "missing" in attribute ? [NO_ANSWER] : [];
  if (attribute.kind === "category") return [...attribute.levels, ...missing];
  const [low, high] = attribute.range;
  const ends = [low, ...attribute.bins, high].map(exactText);
  const last = ends.length - 2;
  const between = (end, k) => `${end} to ${k === last ? "" : "below "}${ends[k + 1]}`;
  return [...ends.slice(0, -1).map(between), ...missing];
}

/* The features of an answer, each with its name and expected square. */
function featuresOf(attribute) {
  const { name } = attribute;
  if (attribute.kind === "number" && !("epsilon" in attribute)) {
    const alone = [{ name, square: 1 }];
    return "missing" in attribute ? [...alone, { name: `${name}=${NO_ANSWER}`, square: 0.1 }] : alone;
  }
  const levels = levelsOf(attribute);
  const square = (levels.length - 1) / levels.length ** 2;
  return levels.map((level) => ({ name: `${name}=${level}`, square }));
}

function featuresOfMap(map, inputs, numbers) {
  const squareOf = (wanted) => inputs.find(({ name }) => name === wanted).square;
  const columns = map.columns ?? numbers;
  const counted = (count) => Array.from({ length: count }, (_, k) => k + 1);
  if (map.map === "squares") return columns.map((name) => ({ name: `${name}^2`, square: 1 }));
  if (map.map === "products") {
    return map.pairs.map(([a, b]) => ({ name: `${a}*${b}`, square: squareOf(a) * squareOf(b) }));
  }
  if (map.map === "splines") {
    const hats = [[-2, 48], [-1, 105], [0, 120], [1, 105], [2, 48]];
    return columns.flatMap((name) =>
      hats.map(([knot, mass]) => ({ name: `${name} near ${knot}`, square: mass / 1024 })),
    );
  }
  if (map.map === "bins") {
    const count = "edges" in map ? map.edges.length + 1 : map.count;
    const square = (count - 1) / count ** 2;
    return columns.flatMap((name) =>
      counted(count).map((k) => ({ name: `${name} bin ${k}`, square })),
    );
  }
  return counted(map.count).map((k) => ({ name: `fourier ${k}`, square: 1 }));
}

/* The encoder as model.json has it: measures are doubles, counts integers. */
function encoderOf(document) {
  const double = (x) => new Double(numeric(x));
  const doubles = (list) => list.map(double);
  function attribute(one) {
    const { label, help, ...kept } = one;
    for (const key of ["range", "bins"]) if (key in kept) kept[key] = doubles(kept[key]);
    for (const key of ["average", "spread"]) if (key in kept) kept[key] = double(kept[key]);
    if (kept.epsilon) {
      const { menu, default: usual, accept_weak: weak } = kept.epsilon;
      kept.epsilon = { menu: doubles(menu), default: double(usual) };
      if (weak !== undefined) kept.epsilon.accept_weak = true;
    }
    return kept;
  }
  function map(one) {
    const kept = { ...one };
    if ("edges" in kept) kept.edges = doubles(kept.edges);
    if ("scale" in kept) kept.scale = double(kept.scale);
    return kept;
  }
  const encoder = { attributes: document.attributes.map(attribute) };
  if (document.encoder) encoder.missing_values = document.encoder.missing_values;
  if (document.maps) encoder.maps = document.maps.map(map);
  return encoder;
}

/* The weight of a report, w(epsilon, classes). */
const reportWeight = (epsilon, classes) => 1 + classes / Math.expm1(epsilon);

async function readStudy(bytes, agreed) {
  let study;
  try {
    const text = readUtf8(bytes);
    const document = parseStudy(text);
    if (!sameBytes(utf8(spellStudy(document)), bytes)) {
      refuse("is not written as a result writes it: it was changed");
    }
    const hash = await sha256(utf8(canonicalJson(document)));
    if (agreed && agreed !== hash) refuse(`is the study ${hash}, not the one you agreed on`);
    study = await describe(document, hash);
  } catch (error) {
    throw error instanceof Refusal
      ? error
      : new Refusal("study", [], `study.toml cannot be read: ${error.message}`);
  }
  for (const name of study.servers) {
    demand(study.keys.has(name), "study", [name], `the study pins no key of ${name}`);
  }
  const connected = areConnected(study.servers.length, study.edges);
  const different = new Set(study.servers).size === study.servers.length;
  if (study.servers.length < 2 || !different || !connected) {
    refuse("has no two servers of different names that links connect");
  }
  return study;
}

async function describe(document, hash) {
  const servers = document.servers.map(({ name }) => name);
  const withKey = document.servers.filter((server) => "signing_key" in server);
  const edges = document.topology.edges.map((pair) => pair.map((name) => servers.indexOf(name)));
  const clear = document.attributes.filter((one) => !("epsilon" in one));
  const randomised = document.attributes.filter((one) => "epsilon" in one);
  const inputs = clear.flatMap(featuresOf);
  const numbers = clear.filter(({ kind }) => kind === "number").map(({ name }) => name);
  const maps = (document.maps ?? []).flatMap((map) => featuresOfMap(map, inputs, numbers));
  const codes = randomised.flatMap(featuresOf);
  const columns = [...inputs, ...maps];
  const features = [...columns, ...codes];
  const massOf = (list) => list.reduce((sum, { square }) => sum + square, 0);
  const mass = massOf(features);
  const width = features.length + 1;
  const blocks = randomised.map((one) => blockOf(one, mass));
  const free = blocks.reduce((room, { length }) => room - (length / MARGIN) ** 2, 1);
  const typical = Math.sqrt((2.25 / mass) * massOf(columns) + CONSTANT ** 2);
  const coded = blocks.reduce((sum, b) => sum + b.length ** 2 - b.trueLength ** 2, 0);
  const levels = blocks.reduce((sum, b) => sum + b.levels, 0);
  const encoder = encoderOf(document);
  const { classes } = document.label;
  return {
    document,
    hash,
    id: document.study.id,
    title: document.study.title,
    minRecords: document.study.min_records,
    keys: new Map(withKey.map((server) => [server.name, server.signing_key])),
    servers,
    edges,
    degrees: servers.map((_, i) => edges.filter((pair) => pair.includes(i)).length),
    classes,
    K: classes.length,
    C: classes.length === 2 ? 1 : classes.length, // rows of coefficients
    menu: document.label.epsilon.menu.map(numeric),
    features: features.map(({ name }) => name),
    width,
    encoder,
    encoding: (await sha256(utf8(asciiJson(encoder)))).slice(0, 32),
    blocks,
    answersInClear: clear.length > 0,
    leastAnswers: randomised.map((one) => numeric(one.epsilon.menu[0])),
    constant: CONSTANT * Math.min(1, (MARGIN * Math.sqrt(Math.max(free, 0))) / typical),
    coded: blocks.length ? Math.min(1, (4 * Math.max(0, coded)) / levels / width) : 0,
    budget: document.budget,
    plan: document.plan && new Map(Object.entries(document.plan)),
  };
}

/* The columns of a randomised answer. */
function blockOf(attribute, mass) {
  const levels = levelsOf(attribute).length;
  const { menu } = attribute.epsilon;
  const length = MARGIN * Math.sqrt(((1 - CONSTANT ** 2) * (1 - 1 / levels)) / mass);
  const weight = Math.floor(reportWeight(numeric(menu[0]), levels) * 2 ** 40) / 2 ** 40;
  const scale = length / (weight * Math.sqrt(1 - 1 / levels));
  return {
    name: attribute.name,
    levels,
    length,
    trueLength: scale * Math.sqrt(1 - 1 / levels),
    epsilon: numeric(menu.at(-1)),
  };
}

/* Links once each, in order, and a way from every server to every other. */
function areConnected(n, edges) {
  const inside = edges.every(([i, k]) => i >= 0 && i < k && k < n);
  const ascending = edges.every(
    ([i, k], at) => !at || edges[at - 1][0] < i || (edges[at - 1][0] === i && edges[at - 1][1] < k),
  );
  const reached = new Set([0]);
  for (let step = 0; step < n; step += 1) {
    for (const pair of edges) if (pair.some((i) => reached.has(i))) pair.forEach((i) => reached.add(i));
  }
  return inside && ascending && reached.size === n;
}

export { readStudy, reportWeight };
