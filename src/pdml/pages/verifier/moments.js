/* The model of sums: from the total of all rows to coefficients ("The model of sums"). */

import { LOSSES, lossOf } from "./events.js";
import { linspace } from "./profiles.js";
import {
  column,
  combine,
  compose,
  diagonal,
  dot,
  eigen,
  inner,
  inverse,
  matrix,
  product,
  solve,
  symmetricRoot,
  timesVector,
  total,
  trace,
  zeros,
} from "./numerics/matrix.js";
import { sumDeviations } from "./plan.js";
import { normalPoints } from "./numerics/draws.js";

const UNITS = 2 ** 24;
const clip = (x, low, high) => Math.min(high, Math.max(low, x));
const mean = (list) => total(list) / list.length;
const indices = (n) => Array.from({ length: n }, (_, k) => k);

/* The variance of a label's code that nobody randomised. */
function codeVariance(loss, K) {
  return K === 2 ? LOSSES[loss].c ** 2 : 1 / K - 1 / K ** 2;
}

/* q and s, and how noisy they are. */
function momentsOf(terms, units) {
  const { study, plan } = terms;
  const { C, width: d, K } = study;
  const n = study.servers.length;
  const values = units.map((unit) => Number(unit) / UNITS);
  const V = values.at(-1);
  const s = zeros(d, d);
  let at = C * d;
  for (let i = 0; i < d; i += 1) {
    for (let k = i; k < d; k += 1) {
      s[i][k] = values[at] / V;
      s[k][i] = s[i][k];
      at += 1;
    }
  }
  const [label, square] = sumDeviations(plan, n).map((deviation) => Math.sqrt(n) * deviation);
  const loss = lossOf(plan, K);
  return {
    q: matrix(C, d, (c, k) => values[c * d + k] / V),
    s,
    label: label / V,
    square: Math.hypot(square / V, Math.sqrt(study.coded / V)),
    report: codeVariance(loss, K) / V,
    constant: study.constant,
    loss,
    K,
  };
}

/* The grid of weights. */
function gridOf(values) {
  const largest = values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  return largest ? 2 ** (Math.ceil(Math.log2(largest)) - 24) : 1;
}

function roundHalfEven(x) {
  const low = Math.floor(x);
  const rest = x - low;
  if (rest !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

function onGrid(weights) {
  const grid = gridOf(weights.flatMap((row) => [...row]));
  return weights.map((row) => row.map((x) => roundHalfEven(x / grid) * grid));
}

/* s without its noise: the average of three estimates. */
function denoise(noisy, stddev, constant) {
  const d = noisy.length;
  const radius = Math.sqrt(2 * d) * stddev;
  const edge = 1.05 * radius;
  const floorOf = (size) => Math.max(0.2 * Math.min(size / d, radius), (1e-9 * size) / d);
  const precision = 1 / Math.max(d * stddev ** 2, 1e-18);
  const prior = 1 / 0.3 ** 2;
  const size = clip((precision * trace(noisy) + 0.8 * prior) / (precision + prior), 1e-3, 1);
  const entries = diagonal(noisy);
  const centre = mean(entries);
  const variance = mean(entries.map((x) => (x - centre) ** 2));
  const spread = Math.max(variance - stddev ** 2 * (1 - 1 / d), 0);
  const trust = spread ? spread / (spread + stddev ** 2) : 0;
  const least = floorOf(size);
  const tempered = entries.map((x) => Math.max(size / d + trust * (x - centre), least));
  const squares = tempered.map((x) => x * (size / total(tempered)));
  const floor = floorOf(total(squares));
  const positive = (symmetric) => {
    const { values, vectors } = eigen(symmetric);
    return compose(vectors, values.map((x) => Math.max(x, floor)));
  };
  if (stddev === 0) return positive(noisy);

  const entry = positive(shrinkEntries(noisy, squares, stddev));
  const spiked = positive(addFactors(noisy, squares, edge));
  const rotated = rotateAboutBulk(noisy, size, edge, floor);
  const estimate = matrix(d, d, (i, k) => (entry[i][k] + spiked[i][k] + rotated[i][k]) / 3);
  return scaleConstant(estimate, noisy, stddev, constant);
}

/* Entry by entry: those of the constant column apart from the others. */
function shrinkEntries(noisy, squares, stddev) {
  const d = noisy.length;
  const estimate = matrix(d, d, (i, k) => (i === k ? squares[i] : 0));
  const between = indices(d - 1).flatMap((i) => indices(d - 1 - i - 1).map((k) => [i, i + 1 + k]));
  const means = indices(d - 1).map((i) => [i, d - 1]);
  for (const pairs of [between, means]) {
    const values = pairs.map(([i, k]) => noisy[i][k]);
    shrink(values, stddev / Math.SQRT2, mean(squares)).forEach((x, at) => {
      const [i, k] = pairs[at];
      const most = Math.sqrt(squares[i] * squares[k]);
      estimate[i][k] = clip(x, -most, most);
      estimate[k][i] = estimate[i][k];
    });
  }
  return estimate;
}

/* A few factors on top of the diagonal. */
function addFactors(noisy, squares, edge) {
  const beside = matrix(noisy.length, noisy.length, (i, k) => noisy[i][k] - (i === k ? squares[i] : 0));
  const { values, vectors } = eigen(beside);
  const kept = values.map((x) => Math.sign(x) * Math.sqrt(Math.max(x * x - edge * edge, 0)));
  const factors = compose(vectors, kept);
  squares.forEach((x, i) => {
    factors[i][i] = x;
  });
  return factors;
}

/* A few factors about a multiple of the identity. */
function rotateAboutBulk(noisy, size, edge, floor) {
  const d = noisy.length;
  const { values, vectors } = eigen(noisy);
  let bulk = mean(values);
  for (let step = 0; step < 10 * d; step += 1) {
    const below = values.filter((x) => x <= Math.max(bulk + edge, values[0]));
    const lower = mean(below);
    if (lower >= bulk) break;
    bulk = lower;
  }
  const spikes = values.map((x) =>
    x > bulk ? Math.sqrt(Math.max((x - bulk) ** 2 - edge ** 2, 0)) : 0,
  );
  const rest = Math.max((size - total(spikes)) / d, 0);
  return compose(vectors, spikes.map((x) => Math.max(x + rest, floor)));
}

/* The constant's square as measured and as it is typical. */
function scaleConstant(estimate, noisy, stddev, constant) {
  const last = noisy.length - 1;
  const typical = constant ** 2;
  const current = estimate[last][last];
  const trust = 1 / (1 + (stddev / (0.5 * typical)) ** 2);
  const measured = typical + trust * (noisy[last][last] - typical);
  const target = Math.max(measured, 0.2 * Math.min(typical, current));
  const scale = Math.sqrt(target / current);
  const factor = (i) => (i === last ? scale : 1);
  return matrix(last + 1, last + 1, (i, k) => estimate[i][k] * factor(i) * factor(k));
}

/* Posterior means under a mixture of normals, its weights by 30 steps of EM on quantiles. */
function shrink(values, stddev, largest) {
  if (!values.length) return [];
  const scales = [0, ...indices(8).map((k) => largest * 2 ** -k)];
  const noise = Math.max(stddev, 1e-9 * largest) ** 2;
  const variances = scales.map((scale) => scale ** 2 + noise);
  const likely = (square) => {
    const logs = variances.map((v) => -0.5 * (square / v + Math.log(v)));
    const top = Math.max(...logs);
    return logs.map((x) => Math.exp(x - top));
  };
  const squares = values.map((x) => x ** 2).sort((a, b) => a - b);
  const count = Math.min(squares.length, 512);
  const places = count === 1 ? [0] : linspace(0, squares.length - 1, count);
  const chosen = places.map((place) => likely(squares[Math.floor(place)]));
  let weights = scales.map(() => 1 / scales.length);
  for (let step = 0; step < 30; step += 1) {
    const counts = scales.map(() => 0);
    for (const chances of chosen) {
      const all = dot(weights, chances);
      chances.forEach((chance, k) => {
        counts[k] += chance / all;
      });
    }
    const scaledCounts = counts.map((x, k) => weights[k] * x * (squares.length / count) + (k ? 0 : 10));
    weights = scaledCounts.map((x) => x / total(scaledCounts));
  }
  return values.map((x) => {
    const chances = likely(x ** 2);
    const kept = chances.map((chance, k) => (weights[k] * scales[k] ** 2 * chance) / variances[k]);
    return (x * total(kept)) / dot(weights, chances);
  });
}

/* The linear model q = s beta + noise: forty priors, weighed by how well each explains q. */
function posterior(q, { values, vectors }, label, report, deviation) {
  const d = values.length;
  const largest = values[d - 1];
  const along = product(q, vectors);
  const noise = values.map((x) => label ** 2 + report * x);
  const e = vectors[d - 1];
  const priors = [0, 1, 2, 4].flatMap((power) => {
    const shape = values.map((x) => (x / largest) ** power);
    const length = dot(shape, values);
    return indices(10).map((k) => {
      const size = (deviation * 0.05 * (1.2 / 0.05) ** (k / 9)) ** 2;
      return { power, size, prior: shape.map((x) => (size * x) / length) };
    });
  });
  const unit = Math.max(total(e.map((x, k) => x ** 2 * values[k])), 1e-300);
  const constant = values.map((x, k) => x * e[k]);
  const logs = [];
  for (const one of priors) {
    one.free = (0.1 * one.size) / unit;
    const spread = one.prior.map((x, k) => x * values[k] ** 2 + noise[k]);
    const length = total(constant.map((x, k) => x ** 2 / spread[k]));
    const weight = one.free / (1 + one.free * length);
    const terms = along.map((row) => row.map((x, k) => x / spread[k]));
    const offsets = terms.map((row) => dot(row, constant));
    const logSpread = total(spread.map(Math.log)) + Math.log1p(one.free * length);
    const misfit = total(terms.map((row, c) => dot(row, along[c])));
    logs.push(-0.5 * (q.length * logSpread + misfit - weight * total(offsets.map((x) => x ** 2))));
    one.means = terms.map((row, c) =>
      row.map((x, k) => {
        const offset = weight * offsets[c];
        return one.prior[k] * values[k] * (x - (offset * constant[k]) / spread[k]) + offset * e[k];
      }),
    );
  }
  const top = Math.max(...logs);
  const odds = logs.map((x) => Math.exp(x - top));
  const chances = odds.map((x) => x / total(odds));
  const flatOnes = priors.map((one, k) => ({ ...one, chance: chances[k] })).filter(({ power }) => !power);
  const flat = total(flatOnes.map(({ chance }) => chance));
  const average = matrix(q.length, d, (c, k) => total(priors.map((one, p) => chances[p] * one.means[c][k])));
  let answer = average;
  if (flat > 0.02) {
    const scale = new Float64Array(d).fill(total(flatOnes.map((one) => one.chance * one.prior[0])) / flat);
    scale[d - 1] += total(flatOnes.map((one) => one.chance * one.free)) / flat;
    const sparse = product(student(q, values, vectors, noise, scale), vectors);
    answer = matrix(q.length, d, (c, k) => {
      const replaced = total(flatOnes.map((one) => one.chance * one.means[c][k]));
      return average[c][k] + flat * sparse[c][k] - replaced;
    });
  }
  return answer.map((row) => timesVector(vectors, row));
}

/* Where s tells nothing of where the signal lies: Student-t priors by six steps of EM. */
function student(q, values, vectors, noise, scale) {
  const d = values.length;
  const precision = compose(vectors, values.map((x, k) => x ** 2 / noise[k]));
  return q.map((row) => {
    const turned = indices(d).map((k) => (values[k] / noise[k]) * dot(column(vectors, k), row));
    const news = timesVector(vectors, turned);
    let variance = scale.slice();
    let means = new Float64Array(d);
    for (let step = 0; step < 6; step += 1) {
      const r = variance.map(Math.sqrt);
      const back = inverse(matrix(d, d, (i, k) => r[i] * precision[i][k] * r[k] + (i === k ? 1 : 0)));
      means = timesVector(back, news.map((x, k) => r[k] * x)).map((x, k) => r[k] * x);
      variance = variance.map((v, k) => (means[k] ** 2 + v * back[k][k] + 2 * scale[k]) / 3);
      variance[d - 1] = scale[d - 1];
    }
    return means;
  });
}

function aboutClasses(q) {
  if (q.length === 1) return q;
  const centre = indices(q[0].length).map((k) => mean(column(q, k)));
  return q.map((row) => row.map((x, k) => x - centre[k]));
}

function fitMoments(M) {
  const s = denoise(M.s, M.square, M.constant);
  const d = s.length;
  const q = aboutClasses(M.q);
  const spectrum = eigen(s);
  const linear = posterior(q, spectrum, M.label, M.report, Math.sqrt(codeVariance(M.loss, M.K)));
  const doubt = Math.min(1, (Math.sqrt(2 * d) * M.square) / spectrum.values[d - 1]);
  const withoutConstant = (a) => a.map((row) => row.map((x, k) => (k < d - 1 ? x : 0)));
  const lengthOf = (a) => Math.sqrt(inner(withoutConstant(a), s, withoutConstant(a)));
  const news = lengthOf(q);
  const share = (news ? lengthOf(linear) / news : 0) * 0.6 * doubt;
  const direction = withoutConstant(combine(linear, q, (x, y) => x + share * y));
  const unit = Math.sqrt(s[d - 1][d - 1]);
  const constant = column(s, d - 1).map((x) => x / unit);
  const centred = matrix(d, d, (i, k) => s[i][k] - constant[i] * constant[k]);
  const centre = timesVector(direction, constant);
  const moved = product(direction, centred);
  const across = matrix(d, d, (i, k) => total(direction.map((row) => row[i] * row[k])));
  const margins = {
    mean: centre,
    covariance: matrix(q.length, q.length, (a, b) => dot(moved[a], direction[b])),
    noisy: inner(direction, M.s, direction) - dot(centre, centre),
    doubt: M.square * Math.sqrt(total(across.map((row) => dot(row, row)))),
    shared: inner(linear, centred, direction),
    classes: column(q, d - 1).map((x) => x / unit),
    constant: column(linear, d - 1).map((x) => x * unit),
    believed: timesVector(linear, constant),
    blur: Math.hypot(M.label / unit, Math.sqrt(M.report)),
  };
  const { scale, offsets } = scaleAndOffset(margins, M.loss, M.K);
  const weights = direction.map((row) => row.map((x) => scale * x));
  weights.forEach((row, c) => {
    row[d - 1] = offsets[c] / unit;
  });
  return { weights, moments: s, linear };
}

/* The even part of the loss at the margins of one person: value, slope, curvature. */
function evenLoss(loss, z) {
  if (loss === "softmax") {
    const top = Math.max(...z);
    const odds = z.map((x) => Math.exp(x - top));
    const all = total(odds);
    const p = odds.map((x) => x / all);
    const curvature = z.map((_, i) => p.map((y, k) => (i === k ? p[i] : 0) - p[i] * y));
    return { value: top + Math.log(all), slope: p, curvature };
  }
  const [x] = z;
  if (loss === "logistic") {
    const size = Math.abs(x);
    const slope = Math.tanh(x / 2) / 2;
    const value = size / 2 + Math.log1p(Math.exp(-size));
    return { value, slope: [slope], curvature: [[0.25 - slope ** 2]] };
  }
  if (loss === "square") return { value: 1 + x ** 2, slope: [2 * x], curvature: [[2]] };
  const length = Math.sqrt(1 + x ** 2);
  return { value: length, slope: [x / length], curvature: [[length ** -3]] };
}

const evenPoints = new Map(); // of each number of variables

function pointsOf(C) {
  if (!evenPoints.has(C)) evenPoints.set(C, normalPoints(C, 512));
  return evenPoints.get(C);
}

/* The loss is minimised along the direction, on points that stand for Gaussian margins. */
function scaleAndOffset(margins, loss, K) {
  const { c } = LOSSES[loss];
  const C = margins.mean.length;
  const { chance, classes } = unevenClasses(margins, c, K);
  const room = Math.max(C * codeVariance(loss, K) - dot(classes, classes), 1e-2 * c ** 2);
  const wider = widerMargins(margins, room);
  const root = symmetricRoot(margins.covariance.map((row) => row.map((x) => x * wider)));
  const points = product(pointsOf(C), root).map((row) => row.map((x, k) => x + margins.mean[k]));
  const shared = Math.max(margins.shared, 0);
  const moved = (point) => point.map((x, k) => x + margins.constant[k]);
  const believed = dot(margins.believed, moved(margins.mean));
  const [alone] = minimise(points.map((point) => Array.from(moved(point), (x) => [x])), [shared + believed], loss);
  const equal = [1, ...margins.constant].map((x) => Math.max(alone, 0) * x);
  if (chance < 1e-6) return { scale: equal[0], offsets: equal.slice(1) };
  const share = classes.map((x) => x + (C > 1 ? c / K : 0));
  const target = [shared + dot(share, margins.mean), ...share];
  const everyClass = (point) => Array.from(point, (x, i) => [x, ...indices(C).map((k) => (i === k ? 1 : 0))]);
  const other = minimise(points.map(everyClass), target, loss);
  const both = equal.map((x, k) => (1 - chance) * x + chance * other[k]);
  return { scale: Math.max(both[0], 0), offsets: both.slice(1) };
}

function widerMargins(margins, room) {
  const size = trace(margins.covariance);
  if (!size) return 0;
  const steps = linspace(-2.5, 3.5, 121);
  const variances = steps.map((x) => size * Math.exp(x));
  const doubt = Math.max(margins.doubt, 1e-3 * size);
  const logs = steps.map((x, k) => {
    const apart = (margins.noisy - variances[k]) / doubt;
    const shared = margins.shared ** 2 / (variances[k] * room) / 0.2 ** 2;
    return -0.5 * ((x - Math.log(2)) ** 2 + apart ** 2 + shared);
  });
  const top = Math.max(...logs);
  const odds = logs.map((x) => Math.exp(x - top));
  return dot(odds, variances) / total(odds) / size;
}

/* How much the shares of classes count, and what is believed of their codes. */
function unevenClasses(margins, c, K) {
  if (!margins.doubt) return { chance: 0, classes: margins.believed };
  const C = margins.mean.length;
  const blur = margins.blur ** 2 + (0.05 * c) ** 2;
  const spread = (0.6 * c) ** 2;
  const square = dot(margins.classes, margins.classes);
  const logs = [blur, blur + spread].map((v) => -0.5 * (square / v + C * Math.log(v)));
  const top = Math.max(...logs);
  const odds = logs.map((x, k) => Math.exp(x - top) * [20, 1][k]);
  const uneven = odds[1] / total(odds);
  const means = margins.classes.map((x) => (uneven * x * spread) / (spread + blur));
  const size = trace(margins.covariance);
  const chance = (uneven * margins.doubt ** 2) / (margins.doubt ** 2 + (0.5 * size) ** 2);
  if (C === 1) return { chance, classes: means.map((x) => clip(x, -0.96 * c, 0.96 * c)) };
  const shares = means.map((x) => Math.max(x / c + 1 / K, 0.02));
  return { chance, classes: shares.map((x) => c * (x / total(shares) - 1 / K)) };
}

/* The p that minimises the mean of the even loss at people @ p, less p.target: Newton's steps,
   halved until they help. A person is (C, P). */
function minimise(people, target, loss) {
  const m = people.length;
  const P = target.length;
  const square = zeros(P, P);
  for (const person of people) {
    for (const row of person) {
      for (let a = 0; a < P; a += 1) for (let b = 0; b < P; b += 1) square[a][b] += (row[a] * row[b]) / m;
    }
  }
  const tiny = 1e-12 * Math.max(trace(square), 1e-300);
  const ridge = matrix(P, P, (a, b) => 1e-4 * LOSSES[loss].bend * square[a][b] + (a === b ? tiny : 0));
  const marginsAt = (p) => people.map((person) => person.map((row) => dot(row, p)));
  const value = (p) =>
    mean(marginsAt(p).map((z) => evenLoss(loss, z).value)) - dot(p, target) + dot(p, timesVector(ridge, p)) / 2;
  let p = target.map(() => 0);
  let now = value(p);
  for (let turn = 0; turn < 60; turn += 1) {
    const uphill = Array.from(timesVector(ridge, p), (x, a) => x - target[a]);
    const bent = ridge.map((row) => row.slice());
    marginsAt(p).forEach((z, person) => {
      const rows = people[person];
      const { slope, curvature } = evenLoss(loss, z);
      for (let i = 0; i < z.length; i += 1) {
        for (let a = 0; a < P; a += 1) {
          uphill[a] += (rows[i][a] * slope[i]) / m;
          let turned = 0;
          for (let k = 0; k < z.length; k += 1) turned += curvature[i][k] * rows[k][a];
          for (let b = 0; b < P; b += 1) bent[b][a] += (rows[i][b] * turned) / m;
        }
      }
    });
    let step = solve(bent, uphill.map((x) => [x])).map(([x]) => x);
    const moved = () => p.map((x, a) => x - step[a]);
    const largest = (list) => Math.max(...list.map(Math.abs));
    let then = value(moved());
    while (then > now && largest(step) > 1e-15) {
      step = step.map((x) => x / 2);
      then = value(moved());
    }
    p = moved();
    now = Math.min(then, now);
    if (largest(step) <= 1e-10 * (1 + largest(p))) break;
  }
  const steep = Math.sqrt(mean(marginsAt(p).map((z) => dot(z, z))));
  const cut = Math.min(1, 3 / Math.max(steep, 1e-300));
  return p.map((x) => x * cut);
}

export { fitMoments, gridOf, momentsOf, onGrid };
