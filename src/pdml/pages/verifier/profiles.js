/* How likely a release tells more than epsilon: functions delta(epsilon) of one kind of person, and
   their inverses ("The ledger"). */

import { logPhi, phi, phiInverse } from "./numerics/special.js";

/* Of Gaussian noise that hides a move of mu deviations. */
function gaussian(mu) {
  if (!(mu > 0)) return () => 0;
  if (mu === Infinity) return (epsilon) => (epsilon === Infinity ? 0 : 1);
  return (epsilon) => {
    if (epsilon === Infinity) return 0;
    const far = Math.min(epsilon, 1e308) / mu;
    const second = Math.exp(Math.min(0, epsilon + logPhi(-mu / 2 - far)));
    return Math.max(1e-300, phi(mu / 2 - far) - second);
  };
}

/* Of a Gaussian that is cut to a box: mass `outside` is lost, `edge` on one side; beside it `flat`. */
function truncated({ mu, edge, outside, flat }) {
  const inside = gaussian(mu);
  const possible = outside >= 0 && outside < 1;
  let lowest = Infinity;
  if (outside !== 0 && mu !== Infinity) {
    lowest = Math.max(0, -mu * phiInverse(outside) - (mu * mu) / 2);
  }
  return (epsilon) => {
    if (epsilon === Infinity) return 0;
    const least = Math.min(epsilon, lowest);
    const tail = Math.exp(Math.min(least, 700)) * outside;
    const cut = Math.min(inside(epsilon) + edge, inside(least) + tail) / (1 - outside);
    return Math.min(1, (possible ? Math.min(1, cut) : 1) + flat);
  };
}

const nothingHides = (epsilon) => (epsilon === Infinity ? 0 : 1);

/* Randomised response with epsilon `flip` among K classes, then `profile`. */
function afterResponse(flip, profile, K = 2) {
  const others = (K - 1) * Math.exp(-flip);
  return (target) => {
    if (!(target < flip)) return 0;
    const ahead = -Math.expm1(target - flip) / (1 + others);
    const inner = target + Math.log1p(((1 - ahead) * -Math.expm1(-target)) / ahead);
    return ahead * profile(Math.max(0, inner));
  };
}

const leastOf = (profiles) => (epsilon) => Math.min(...profiles.map((profile) => profile(epsilon)));

/* The bound with randomised response: what a record's label part reveals through the response. */

const LEVELS = 128;
const tables = new Map();

function linspace(first, last, count) {
  const step = (last - first) / (count - 1);
  return Array.from({ length: count }, (_, k) => (k === count - 1 ? last : first + k * step));
}

/* Up to eleven bits, so that tables are found again. */
function roundUp(x) {
  if (x === Infinity || x === 0) return x;
  let power = Math.floor(Math.log2(x)) + 1; // x = digits 2^power, digits in [0.5, 1)
  while (x / 2 ** power >= 1) power += 1;
  while (x / 2 ** power < 0.5) power -= 1;
  return Math.ceil((2048 * x) / 2 ** power) * 2 ** (power - 11);
}

function countRounding({ label, rest, square, rounding }) {
  const size = Math.max(1e-3, Math.hypot(label, square));
  if (size + rounding === Infinity) return [Infinity, rest, square];
  const longer = Math.sqrt(1 + rounding / size);
  const added = Math.sqrt(3 * rounding * (rounding + size));
  return [Math.hypot(longer * label, added), Math.hypot(longer * rest, added), longer * square];
}

function withoutResponse(label, rest, square) {
  if (Math.max(label, rest, square) > 1e150) return Infinity;
  const a = label ** 2;
  const b = 4 * square ** 2;
  const sine = b > 0 ? Math.min(1, (a + b) / (2 * b)) : 1;
  return Math.hypot(rest, Math.sqrt(sine * (a + b * (1 - sine))));
}

function responseProfile(moved) {
  const counted = countRounding(moved);
  const alone = gaussian(withoutResponse(...counted));
  const { levels, bounds } = tableOf([moved.epsilon, ...counted].map(roundUp));
  const ends = levels.map(Math.exp);
  const last = levels.length - 1;
  return (epsilon) => {
    const at = Math.exp(Math.min(epsilon, levels[last]));
    return Math.min(alone(epsilon), interpolate(at, ends, bounds));
  };
}

function interpolate(x, xs, ys) {
  const last = xs.length - 1;
  if (x >= xs[last]) return ys[last];
  if (x <= xs[0]) return ys[0];
  let low = 0;
  let high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return ys[low] + ((ys[high] - ys[low]) / (xs[high] - xs[low])) * (x - xs[low]);
}

function tableOf(moves) {
  const key = moves.join();
  if (!tables.has(key)) tables.set(key, makeTable(...moves));
  return tables.get(key);
}

/* 128 levels of epsilon from 0 on, and a bound on delta at each. */
function makeTable(epsilon, givenLabel, rest, square) {
  const label = Math.max(1e-3, givenLabel);
  const plain = withoutResponse(label, rest, square);
  if (!(plain <= 20) || epsilon > 30) return { levels: [0], bounds: [1] };
  const largest = 2 ** (Math.ceil(4 * Math.log2(plain)) / 4);
  const most = (largest * largest) / 2 + 8 * largest;
  const levels = linspace(0, 1, LEVELS).map((x) => most * x ** 1.5);
  const edges = Array.from({ length: LEVELS + 1 }, (_, k) => ((Math.PI / 2) * k) / LEVELS);
  const groups = new Map(); // arcs of angles by what hides the rest of the record
  for (let k = 0; k < LEVELS; k += 1) {
    const arc = throughResponse(
      epsilon,
      (label / 2) * Math.cos(edges[k]),
      (label / 2) * Math.sin(edges[k + 1]),
      levels,
    );
    const turned = Math.sin((Math.PI * Math.min(k + 1, LEVELS - k)) / LEVELS);
    const beside = Math.max(1e-3 * label, Math.hypot(rest, square * turned));
    groups.set(beside, [...(groups.get(beside) ?? []), arc]);
  }
  const bounds = levels.map(() => 0);
  for (const [beside, arcs] of groups) {
    const these = andRest(arcs, beside, levels);
    for (let k = 0; k < LEVELS; k += 1) bounds[k] = Math.max(bounds[k], these[k]);
  }
  return { levels, bounds: bounds.map((bound) => Math.min(1, (1 + 1e-6) * bound)) };
}

function throughResponse(epsilon, side, shift, levels) {
  const odds = linspace(1, -1, 64).map((x) => -epsilon - 2 * side * x * (8 + side));
  const { one, other } = atoms(-epsilon, 2 * side, odds);
  const share = 1 + Math.exp(-epsilon);
  const responses = [Infinity, ...odds.map(Math.abs), Infinity];
  const hidden = gaussian(2 * shift);
  const found = new Float64Array(levels.length);
  responses.forEach((response, node) => {
    const mass = (one[node] + other[node]) / share;
    const noisy = afterResponse(response, hidden);
    for (let k = 0; k < levels.length && levels[k] < response; k += 1) {
      found[k] += mass * noisy(levels[k]);
    }
  });
  return found;
}

/* A Gaussian of mu = rest beside it. */
function andRest(arcs, rest, levels) {
  const back = levels.slice(1).reverse();
  const nodes = [...back.map((x) => -x), ...levels];
  const rows = arcs.map((arc) => {
    const turned = Array.from(arc.subarray(1)).reverse();
    const below = back.map((x, k) => Math.exp(-x) * turned[k] - Math.expm1(-x));
    return Float64Array.from([1, ...below, ...arc, 0]);
  });
  return levels.map((level) => {
    const { one } = atoms(level, rest, nodes);
    let most = -Infinity;
    for (const row of rows) {
      let sum = 0;
      for (let k = 0; k < one.length; k += 1) sum += row[k] * one[k];
      most = Math.max(most, sum);
    }
    return most;
  });
}

/* N(0, 1) and e^start N(mu, 1) on atoms where the second is 0, e^nodes, infinitely times the first. */
function atoms(start, mu, nodes) {
  const z = Float64Array.from(nodes, (node) => (node - start) / mu + mu / 2);
  const first = between(z, 0);
  const factor = Math.exp(start);
  const second = between(z, mu).map((mass) => mass * factor);
  const ratios = Float64Array.from(nodes, Math.exp);
  const m = nodes.length;
  const one = new Float64Array(m + 2);
  const other = new Float64Array(m + 2);
  for (let k = 0; k <= m; k += 1) {
    let right = 0;
    if (k === 0) right = second[0] / ratios[0];
    else if (k < m) right = (second[k] - ratios[k - 1] * first[k]) / (ratios[k] - ratios[k - 1]);
    right = Math.min(Math.max(right, 0), first[k]);
    one[k + 1] += right;
    one[k] += first[k] - right;
  }
  for (let k = 0; k < m; k += 1) other[k + 1] = one[k + 1] * ratios[k];
  other[m + 1] = Math.max(0, second[m] - first[m] * ratios[m - 1]);
  return { one, other };
}

/* Normal mass from each point, less `shift`, to the next; from and to infinity at the ends. */
function between(points, shift) {
  const masses = new Float64Array(points.length + 1);
  let left = -Infinity;
  let leftTail = 0;
  for (let k = 0; k <= points.length; k += 1) {
    const right = k < points.length ? points[k] - shift : Infinity;
    const rightTail = phi(-Math.abs(right));
    const around = left < 0 && right > 0;
    masses[k] = around ? 1 - leftTail - rightTail : Math.abs(rightTail - leftTail);
    left = right;
    leftTail = rightTail;
  }
  return masses;
}

/* Searches. All people are searched at once, until all are close enough: that fixes last bits. */

const FARTHEST = 1e5;

function epsilonsAt(profiles, delta) {
  const start = profiles.map((profile) => profile(0));
  /* The last end at which delta is too large, and the next one. */
  function bracket(profile, ends) {
    let last = ends.length - 2;
    while (last > 0 && !(profile(ends[last]) > delta)) last -= 1;
    return [ends[last], ends[last + 1]];
  }
  const doublings = [0, ...Array.from({ length: 17 }, (_, k) => 2 ** k), FARTHEST, FARTHEST];
  let spans = profiles.map((profile) => bracket(profile, doublings));
  const lost = spans.map(([low]) => low >= FARTHEST);
  const parts = Math.min(64, Math.max(2, Math.floor(4096 / Math.max(1, profiles.length))));
  const far = ([low, high]) => high - low > 1e-9 * Math.max(1, high);
  while (spans.some(far)) {
    spans = spans.map(([low, high], i) => {
      const ends = Array.from({ length: parts }, (_, k) => low + k * (1 / parts) * (high - low));
      return bracket(profiles[i], [...ends, high]);
    });
  }
  return spans.map(([, high], i) => (start[i] <= delta ? 0 : lost[i] ? Infinity : high));
}

/* How sure somebody at even odds can become but for a chance of delta: the most of all people. */
function certaintyAt(profiles, delta, epsilons) {
  const offsets = [0, ...Array.from({ length: 48 }, (_, k) => 2 ** (k - 30))];
  const least = profiles.map((profile, i) => {
    if (epsilons[i] === Infinity) return Infinity;
    const bound = (epsilon) => epsilon - Math.log1p(-Math.min(1, profile(epsilon) / delta));
    let ends = offsets.map((offset) => epsilons[i] + offset);
    let smallest = Infinity;
    for (let step = 0; step < 11; step += 1) {
      const bounds = ends.map(bound);
      let k = 0;
      bounds.forEach((x, at) => {
        if (x < bounds[k]) k = at;
      });
      smallest = Math.min(smallest, bounds[k]);
      ends = linspace(ends[Math.max(k - 1, 0)], ends[Math.min(k + 1, ends.length - 1)], 9);
    }
    return smallest;
  });
  return Math.max(...least);
}

export {
  afterResponse,
  certaintyAt,
  epsilonsAt,
  interpolate,
  leastOf,
  linspace,
  nothingHides,
  responseProfile,
  truncated,
};
