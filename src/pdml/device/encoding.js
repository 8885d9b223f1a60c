/* 2 Encoding: a person's answers as float32 entries of norm at most 1. Only + - * / and square
   roots of doubles, each rounded alike on every machine, in the order of the Python package. An attribute with a menu of ε is sensitive: of its answer a row
   holds a code of the randomised level, after the entries of all others. */

const NO_ANSWER = "prefer not to say";
const LIMIT = 3, SIZE = 1.5, CONSTANT = 0.2, MARGIN = 1 - 2 ** -20;
const NUMBER_MASS = 1, NO_ANSWER_MASS = 0.1;
const FAR = 1e-6; // what is so close to three spreads may be farther away

/* A number as people type it: [number], or [undefined, a sentence on what is wrong with it]. */
function readNumber(text, { range: [low, high], whole }) {
  const wrong = (what) =>
    [undefined, () => words(`number.${what}${whole ? ".whole" : ""}`, { low, high })];
  if (text === "") return wrong("empty");
  const western = (digit) => digit.charCodeAt() & 15;
  const plain = text.replace(/[٠-٩۰-۹]/g, western).replace(/٫/g, ".");
  const typed = /^[-+]?(\d+([.,]\d*)?|[.,]\d+)$/.test(plain);
  const number = typed ? Number(plain.replace(",", ".")) : NaN;
  if (Number.isNaN(number)) return wrong("digits");
  if (whole && /[.,]/.test(plain)) return wrong("fraction"); // 34,000: to some a thousand times 34
  return number < low || number > high ? wrong("outside") : [number];
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const limited = (entry) => clamp(entry, -LIMIT, LIMIT) + 0; // + 0 turns -0 into 0
const choicesOf = ({ levels, missing }) => (missing ? [...levels, NO_ANSWER] : levels);
/* Of how many answers a sensitive question has one; a number's are its bins. */
const countOf = ({ levels, bins, missing }) =>
  (bins ? bins.length + 1 : levels.length) + (missing ? 1 : 0);
const menuOf = ({ menu }) => menu.map((epsilon) => Math.round(epsilon * 1e6)); // in millionths
const centred = (chosen, count) =>
  Array.from({ length: count }, (_, k) => (k === chosen ? 1 - 1 / count : 0 - 1 / count) + 0);
const levelMass = (count) => (count - 1) / (count * count);

/* [average, spread]: most people lie within both. */
function scaleOf({ range: [low, high], average, spread }) {
  return average === undefined ? [low / 2 + high / 2, high / 6 - low / 6] : [average, spread];
}

/* The entries of one answer; null is no answer. */
function entriesOf(attribute, answer) {
  if (attribute.kind === "number") {
    const [low, high] = attribute.range, inside = clamp(answer, low, high);
    const [average, spread] = scaleOf(attribute), silent = answer === null;
    const entry = limited(((silent ? average : inside) - average) / spread);
    return attribute.missing ? [entry, silent ? 1 : 0] : [entry];
  }
  const { levels } = attribute, count = choicesOf(attribute).length;
  return centred(answer === null ? levels.length : levels.indexOf(answer), count);
}

/* Knots, and of the hats about them the mean and the variance for standard normal entries. */
const HATS = [[-2, 77, 48], [-1, 246, 105], [0, 378, 120], [1, 246, 105], [2, 77, 48]]
  .map(([knot, mean, mass]) => [knot, mean / 1024, mass / 1024]);

/* What maps make of the entries e: `used` are positions among them. */
const MAPS = {
  squares: (e, { used }) => used.map((k) => limited((e[k] * e[k] - 1) * Math.sqrt(0.5))),
  products: (e, { used }) =>
    used.flatMap((k, i) => (i % 2 ? [] : [limited(e[k] * e[used[i + 1]])])),
  splines: (e, { used }) => used.flatMap((k) => HATS.map(([knot, mean]) =>
    Math.max(1 - Math.abs(clamp(e[k], -2, 2) - knot), 0) - mean + 0)),
  bins: (e, { used, inner }) => used.flatMap((k) =>
    centred(inner.filter((edge) => edge <= e[k]).length, inner.length + 1)),
  fourier: (e, { used, count, directions }) => directions.flatMap((w) => {
    let turns = 0;
    used.forEach((k, j) => (turns += e[k] * w[j]));
    return [wave(turns) * Math.sqrt(2), wave(turns - 0.25) * Math.sqrt(2)];
  }).slice(0, count),
};
const MASSES = {
  squares: ({ used }) => used.map(() => 1),
  products: ({ used }, masses) =>
    used.flatMap((k, i) => (i % 2 ? [] : [masses[k] * masses[used[i + 1]]])),
  splines: ({ used }) => used.flatMap(() => HATS.map(([, , mass]) => mass)),
  bins: ({ used, inner }) => used.flatMap(() =>
    Array(inner.length + 1).fill(levelMass(inner.length + 1))),
  fourier: ({ count }) => Array(count).fill(1),
};

/* cos(2π t) by a polynomial: the cosines of browsers differ in their last bits. */
function wave(t) {
  const turn = 6.283185307179586, u = t - Math.floor(t) - 0.5, v = u * u;
  let total = 0;
  for (let k = 11; k > 0; k--) total = (1 + total) * v * (-(turn * turn) / ((2 * k - 1) * (2 * k)));
  return -1 - total;
}

/* Directions from a public seed: sums of the words of hashes, rounded to 1/65536 of a turn. */
function directionsOf({ seed, count, scale, used }) {
  const unit = 75674 * 6.283185307179586 * scale;
  const entry = async (k, j) => {
    const words = (await sha256(`pdml-fourier ${seed} ${k} ${j}`)).match(/.{4}/g);
    const sum = words.reduce((total, word) => total + parseInt(word, 16), 0);
    return Math.floor(((sum - 524280) / unit) * 65536 + 0.5) / 65536;
  };
  const rows = Array.from({ length: Math.ceil(count / 2) }, (_, k) => k);
  return Promise.all(rows.map((k) => Promise.all(used.map((_, j) => entry(k, j)))));
}

/* w = 1 + L/(e^ε - 1), rounded down to a multiple of 2^-40: what de-biases a code. */
function weight(micro, levels) {
  const odds = oddsOf(micro), all = odds + BigInt(levels - 1) * UNIT;
  return Number((all << 40n) / (odds - UNIT)) / 2 ** 40;
}

/* Where the codes of sensitive answers stand, from `start` on, and their scales (coded.py). */
function blocksOf(sensitive, start, mass) {
  return sensitive.map((attribute) => {
    const levels = countOf(attribute), menu = menuOf(attribute.epsilon), own = 1 - 1 / levels;
    const length = MARGIN * Math.sqrt((1 - CONSTANT * CONSTANT) * (own / mass));
    const scale = length / (weight(menu[0], levels) * Math.sqrt(own));
    start += levels;
    return { start: start - levels, levels, menu, length, scale };
  });
}

/* How a study's answers become entries: worked out once. */
async function coderOf({ attributes, maps = [] }) {
  const clear = attributes.filter(({ epsilon }) => !epsilon);
  const sensitive = attributes.filter(({ epsilon }) => epsilon);
  const names = [], masses = [], numbers = [];
  for (const attribute of clear) {
    const number = attribute.kind === "number", choices = number ? [] : choicesOf(attribute);
    if (number) {
      numbers.push(attribute.name);
      names.push(attribute.name);
      masses.push(NUMBER_MASS);
    }
    if (number && attribute.missing) {
      names.push(`${attribute.name}=${NO_ANSWER}`);
      masses.push(NO_ANSWER_MASS);
    }
    for (const level of choices) {
      names.push(`${attribute.name}=${level}`);
      masses.push(levelMass(choices.length));
    }
  }
  const ready = [];
  for (const each of maps) {
    const columns = each.pairs ? each.pairs.flat() : each.columns ?? numbers;
    const one = { ...each, used: columns.map((name) => names.indexOf(name)) };
    const equal = (_, k) => 2 * ((2 * (k + 1)) / each.count - 1);
    const inner = () => each.edges ?? Array.from({ length: each.count - 1 }, equal);
    if (each.map === "bins") one.inner = inner();
    if (each.map === "fourier") one.directions = await directionsOf(one);
    ready.push(one);
  }
  const all = [...masses, ...ready.flatMap((one) => MASSES[one.map](one, masses))];
  const coded = sensitive.map(countOf);
  let mass = 0, left = 1; // summed from left to right, as in Python
  for (const each of all) mass += each;
  for (const count of coded) for (let k = 0; k < count; k++) mass += levelMass(count);
  const blocks = blocksOf(sensitive, all.length, mass);
  for (const { length } of blocks) left -= (length / MARGIN) * (length / MARGIN);
  const factor = mass > 0 ? SIZE / Math.sqrt(mass) : 1;
  const room = MARGIN * Math.sqrt(Math.max(left, 0));
  return { attributes: clear, maps: ready, factor, blocks, room };
}

/* The entries of a code: of the level that is told, and of the others; `loud` is its weight. */
const codeEntries = ({ levels, scale }, level, loud) =>
  centred(level, levels).map((entry) => (entry * loud + 0) * scale);

/* Answers in the clear by name, and [level, weight] of each sensitive one, as a row. */
function rowOf({ attributes, maps, factor, blocks, room }, answers, codes) {
  const entries = attributes.flatMap((one) => entriesOf(one, answers[one.name]));
  const made = maps.flatMap((one) => MAPS[one.map](entries, one));
  const row = [...[...entries, ...made].map((entry) => entry * factor), CONSTANT];
  let squares = 0;
  for (const entry of row) squares += entry * entry;
  const length = Math.max(Math.sqrt(squares), room);
  const clipped = row.map((entry) => entry * (room / length));
  const coded = blocks.flatMap((block, k) => codeEntries(block, ...codes[k]));
  return Float32Array.from([...clipped.slice(0, -1), ...coded, clipped.at(-1)]);
}

/* What a device sends: `drawn` has each sensitive answer randomised, [level, ε in millionths]. No
   true one is looked at. */
function encode(coder, answers, drawn = []) {
  if (drawn.length !== coder.blocks.length) throw new RangeError("drawn");
  const loud = drawn.map(([level, micro], k) => [level, weight(micro, coder.blocks[k].levels)]);
  return rowOf(coder, answers, loud);
}

/* What a reader of the report sees of each sensitive answer: [level, ε in millionths]. */
function drawnIn({ blocks }, features) {
  return blocks.map((block) => {
    const { start, levels, menu } = block, part = features.slice(start, start + levels);
    const level = part.indexOf(Math.max(...part));
    const told = (micro) => Math.fround(codeEntries(block, level, weight(micro, levels))[level]);
    return [level, menu.find((micro) => told(micro) === part[level])];
  });
}

/* The answers in the clear behind a report's features: what a reader of the report sees. */
function decode({ attributes, factor }, features) {
  const constant = features[features.length - 1], unit = CONSTANT / factor;
  const answers = Object.create(null); // any name, even __proto__
  let start = 0;
  for (const attribute of attributes) {
    const wide = attribute.kind === "number"
      ? (attribute.missing ? 2 : 1) : choicesOf(attribute).length;
    const part = Array.from(features.slice(start, start + wide), (x) => (x / constant) * unit);
    answers[attribute.name] = attribute.kind === "number"
      ? numberBehind(attribute, part)
      : attribute.levels[part.indexOf(Math.max(...part))] ?? null;
    start += wide;
  }
  return answers;
}

/* A number to six digits of what can be seen, which is all that float32 carries. */
function numberBehind(attribute, [entry, silent]) {
  if (silent > 0.5) return null;
  const [low, high] = attribute.range, [average, spread] = scaleOf(attribute);
  const far = attribute.average === undefined ? Infinity : LIMIT * spread; // else the whole range
  const least = Math.max(low, average - far), most = Math.min(high, average + far);
  const six = 5 - Math.floor(Math.log10(most - least));
  const digits = attribute.whole ? Math.min(six, 0) : Math.min(six, 100), unit = 10 ** -digits;
  const rounded = (value) =>
    digits < 0 ? Math.round(value / unit) * unit : Number(value.toFixed(digits));
  if (entry >= LIMIT - FAR && most < high) {
    const number = attribute.whole ? Math.ceil(most - FAR) : rounded(most);
    return words("answer.more", { number });
  }
  if (entry <= FAR - LIMIT && least > low) {
    const number = attribute.whole ? Math.floor(least + FAR) : rounded(least);
    return words("answer.less", { number });
  }
  return clamp(rounded(average + entry * spread), least, most) + 0;
}
