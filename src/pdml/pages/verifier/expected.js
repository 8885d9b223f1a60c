/* What a model of sums expects of itself: six pairs of halves of the noise, each fitted anew, judge
   the model without bias. */

import { Double } from "./bytes.js";
import { normalNumbers, normalPoints } from "./numerics/draws.js";
import { LOSSES } from "./events.js";
import {
  cholesky,
  column,
  combine,
  dot,
  inner,
  matrix,
  product,
  squareSum,
  symmetricRoot,
  timesVector,
  total,
  trace,
  transpose,
} from "./numerics/matrix.js";
import { fitMoments } from "./moments.js";
import { interpolate, linspace } from "./profiles.js";
import { phi, phiInverse } from "./numerics/special.js";

const PAIRS = 6;
const PART = 0.25;
const NODES = [-2.8569700138728056, -1.3556261799742659, 0, 1.3556261799742659, 2.8569700138728056];
const NODE_WEIGHTS = [
  0.011257411327720689, 0.22207592200561265, 0.53333333333333333, 0.22207592200561265,
  0.011257411327720689,
];

const clip = (x, low, high) => Math.min(high, Math.max(low, x));
const indices = (n) => Array.from({ length: n }, (_, k) => k);
const mean = (list) => total(list) / list.length;
const largestOf = (list) => list.reduce((most, x) => Math.max(most, x), -Infinity);
const lengthOf = (x) => Math.sqrt(dot(x, x));
const learnt = (rho) => 4 * Math.exp(-0.5 * (rho / 0.1) ** 2) + (rho > 0 ? 1 : 0);

/* What one half of the noise gives, and what the other half says. */
function halvesOf(M, s) {
  const C = M.q.length;
  const d = s.length;
  const covariance = matrix(d, d, (i, k) => M.report * s[i][k] + (i === k ? M.label ** 2 : 0));
  const across = transpose(cholesky(covariance));
  const draw = normalNumbers();
  const louder = 1 + PART ** 2;
  return indices(PAIRS).map(() => {
    const z = matrix(C, d, draw);
    const toSize = Math.sqrt((C * d) / squareSum(z));
    const label = product(z.map((row) => row.map((x) => x * toSize)), across);
    const raw = matrix(d, d, draw);
    const even = matrix(d, d, (i, k) => (raw[i][k] + raw[k][i]) / 2);
    const size = Math.sqrt((d * (d + 1)) / 2 / squareSum(even)) * M.square;
    const fresh = even.map((row) => row.map((x) => x * size));
    const first = {
      ...M,
      q: combine(M.q, label, (x, y) => x + PART * y),
      s: combine(M.s, fresh, (x, y) => x + PART * y),
      label: M.label * Math.sqrt(louder),
      square: M.square * Math.sqrt(louder),
      report: M.report * louder,
    };
    return {
      weights: fitMoments(first).weights,
      q: combine(M.q, label, (x, y) => x - y / PART),
      s: combine(M.s, fresh, (x, y) => x - y / PART),
    };
  });
}

/* 80%: the mean and, from it, the quantiles at 10% and 90%, widened by `beyond`. */
function interval(values, chance, beyond) {
  const order = Uint32Array.from(values.keys()).sort((i, k) => values[i] - values[k]);
  const sorted = Float64Array.from(order, (k) => values[k]);
  let sum = 0;
  const below = Float64Array.from(order, (k) => (sum += chance[k]));
  const middle = dot(values, chance);
  return [
    Math.max(0, middle - Math.hypot(middle - interpolate(0.1, below, sorted), beyond)),
    middle,
    Math.min(1, middle + Math.hypot(interpolate(0.9, below, sorted) - middle, beyond)),
  ];
}

/* Measured and typical, weighed by precision. */
function both(value, deviation, typical, spread) {
  const trust = spread ** 2 / (spread ** 2 + deviation ** 2);
  return [typical + trust * (value - typical), Math.sqrt(trust) * deviation];
}

function figures(accuracy, auc, confidence) {
  const round = (x) => new Double(Number(x.toFixed(4)));
  const named = ([low, middle, high]) => ({ low: round(low), middle: round(middle), high: round(high) });
  return {
    accuracy: named(accuracy),
    auc: auc === null ? null : named(auc),
    confidence: round(confidence),
  };
}

function expectedOf(M, model) {
  const size = Math.sqrt(inner(model.weights, model.moments, model.weights));
  if (!size) {
    const unknown = [0, 0.5, 1];
    return figures(unknown, M.K > 2 ? null : unknown, 1 / M.K);
  }
  return M.K === 2 ? ofTwoClasses(M, model, size) : ofSeveralClasses(M, model, size);
}

/* Two classes. */

function ofTwoClasses(M, model, size) {
  const measured = measureTwoClasses(M, model);
  const grid = gridOfMargins(measured);
  const { at, factor, log, wide } = grid;
  const weighed = (prior, widest) => {
    const logs = log.map((x, k) => x - 0.5 * (wide[k] / (wide[k] > 0 ? widest : 0.4)) ** 2);
    const top = largestOf(logs);
    const odds = logs.map((x, k) => Math.exp(x - top) * factor[k] * prior[at[k]]);
    const all = total(odds);
    return odds.map((x) => x / all);
  };
  const likely = weighed(grid.correlations.map(learnt), 1.2);
  const even = weighed(grid.slope, 0.4);
  const span = (values) => {
    const [a, b] = [interval(values, likely, 0.025), interval(values, even, 0.025)];
    return [Math.min(a[0], b[0]), (a[1] + b[1]) / 2, Math.max(a[2], b[2])];
  };
  const centre = dot(likely, grid.z);
  const spread = Math.sqrt(Math.max(dot(likely, grid.square) - centre ** 2, 0));
  const sure = mean(
    indices(512).map((k) => {
      const z = centre + spread * phiInverse((k + 0.5) / 512);
      return 1 / (1 + Math.exp(-size * Math.abs(z)));
    }),
  );
  return figures(span(grid.right), span(grid.ranked), sure);
}

/* What the halves measure, each with its deviation; margins have mean square 1 under the model. */
function measureTwoClasses(M, model) {
  const s = model.moments;
  const d = s.length;
  const { c } = LOSSES[M.loss];
  const scale = ([row]) => {
    const square = dot(timesVector(s, row), row);
    return row.map((x) => x / Math.sqrt(Math.max(square, 1e-300)));
  };
  const own = scale(model.weights);
  const unit = Math.sqrt(s[d - 1][d - 1]);
  const measures = halvesOf(M, s).map((half) => {
    const w = scale(half.weights);
    const restQ = combine(M.q, half.q, (x, y) => x - y)[0];
    const restS = combine(M.s, half.s, (x, y) => x - y);
    return {
      product: dot(half.q[0], w) + dot(restQ, own),
      square: dot(timesVector(half.s, w), w) + dot(timesVector(restS, own), own),
      centre: dot(w, column(half.s, d - 1)) + dot(own, column(restS, d - 1)),
    };
  });
  const average = (key) => mean(measures.map((one) => one[key]));
  const length = lengthOf(own);
  const alone = M.square * length ** 2;
  const lastNoise = M.label ** 2 + M.report * s[d - 1][d - 1];
  const [balance, doubt] = both(M.q[0][d - 1] / unit / c, (1.3 * Math.sqrt(lastNoise)) / unit / c, 0, 0.4);
  const norms = trace(s);
  const innerS = matrix(d - 1, d - 1, (i, k) => s[i][k]);
  const many = d > 1 ? trace(innerS) ** 2 / Math.max(squareSum(innerS), 1e-300) : 0;
  return {
    product: [average("product") / c, Math.max((1.3 * M.label * length) / c, 1e-2)],
    report: (1.3 ** 2 * M.report) / c ** 2,
    square: [average("square"), Math.max(1.3 * alone, 1e-2)],
    centre: [average("centre") / unit, ((1.3 * M.square * length) / Math.SQRT2) / unit],
    modelCentre: dot(own, column(s, d - 1)) / unit,
    balance,
    doubt,
    humps: Math.max(0, 2 * norms - 1) * (0.04 + 0.1 / many),
    unseen: alone ** 2 / (1 + alone ** 2),
  };
}

/* The posterior's cells: correlation of y and margin z, the logarithm of E[z^2], E[y], E[z]. */
function gridOfMargins({ product: shared, report, square, centre, modelCentre, balance, doubt, humps, unseen }) {
  const correlations = linspace(-0.3, 0.97, 52);
  const most = Math.max(square[0] + 4 * square[1], (Math.abs(centre[0]) + 4 * centre[1]) ** 2);
  const [low, high] = [square[0] - 4 * square[1], most].map((x) => clip(Math.log(Math.max(x, 1e-9)), -2, 3));
  const sizes = linspace(low, Math.max(high, low + 0.1), 36).map(Math.exp);
  const balances = NODES.map((node) => clip(balance + doubt * node, -0.95, 0.95));
  const usual = Math.max(1 - modelCentre ** 2, 0.02);
  const typicalAt = (rho) => usual * (1 + (unseen * rho ** 2) / (1 - rho ** 2));
  const count = correlations.length * sizes.length * balances.length * 2 * NODES.length;
  const names = ["at", "factor", "log", "wide", "z", "square", "right", "ranked"];
  const grid = Object.fromEntries(names.map((name) => [name, new Float64Array(count)]));
  let cell = 0;
  correlations.forEach((rho, at) => {
    const rest = 1 - rho ** 2;
    const typical = typicalAt(rho);
    for (const z2 of sizes) {
      const wider = Math.sqrt((Math.max(z2 - modelCentre ** 2, 0.02) * rest) / usual);
      const places = placesOfCentre(wider, centre, modelCentre);
      balances.forEach((b, node) => {
        for (const { z, weight } of places) {
          const within2 = Math.max(z2 - z ** 2, 0.02 * z2);
          const mixed = 1 - b ** 2;
          const together = rho * Math.sqrt(within2 * mixed);
          const blur = Math.sqrt(shared[1] ** 2 + report * z2);
          const misfit =
            ((shared[0] - together - b * z) / blur) ** 2 + ((square[0] - z2) / square[1]) ** 2;
          const possible = z2 > z ** 2;
          const positive = (1 + b) / 2;
          const gap = (2 * together) / mixed;
          const within = Math.sqrt(within2 * (1 - (1 - humps) * rho ** 2));
          const above = positive * phi((z + gap * (1 - positive)) / within);
          grid.at[cell] = at;
          grid.factor[cell] = NODE_WEIGHTS[node] * weight;
          grid.log[cell] = possible ? Math.log(z2 / within2 / blur) - 0.5 * misfit : -Infinity;
          grid.wide[cell] = Math.log(within2 / typical) - 0.05;
          grid.z[cell] = z;
          grid.square[cell] = within2 + z ** 2;
          grid.right[cell] = above + (1 - positive) * phi(-(z - gap * positive) / within);
          grid.ranked[cell] = phi(gap / (Math.SQRT2 * within));
          cell += 1;
        }
      });
    }
  });
  const slope = gradient(correlations.map((rho) => rho * Math.sqrt(typicalAt(rho))), correlations);
  return { ...grid, correlations, slope };
}

function placesOfCentre(wider, centre, modelCentre) {
  const away = (centre[0] - modelCentre) / wider;
  return [[0.7, 0.4], [0.3, 1]].flatMap(([chance, drift]) => {
    const [middle, deviation] = both(away, centre[1] / wider, 0, drift);
    const far = Math.hypot(drift * wider, centre[1]);
    const likely = Math.exp(-0.5 * ((centre[0] - modelCentre) / far) ** 2);
    return NODES.map((node, k) => ({
      z: modelCentre + wider * (middle + deviation * node),
      weight: ((NODE_WEIGHTS[k] * chance) / far) * likely,
    }));
  });
}

/* Central differences of uneven steps; one-sided at the ends. */
function gradient(y, x) {
  const last = x.length - 1;
  return x.map((_, k) => {
    if (k === 0) return (y[1] - y[0]) / (x[1] - x[0]);
    if (k === last) return (y[last] - y[last - 1]) / (x[last] - x[last - 1]);
    const [h, g] = [x[k] - x[k - 1], x[k + 1] - x[k]];
    return (h ** 2 * y[k + 1] + (g ** 2 - h ** 2) * y[k] - g ** 2 * y[k - 1]) / (h * g * (h + g));
  });
}

/* More classes: scores have an entry for each, taken about their mean. */

function aboutMean(w) {
  const centre = indices(w[0].length).map((k) => mean(column(w, k)));
  return w.map((row) => row.map((x, k) => x - centre[k]));
}

function ofSeveralClasses(M, model) {
  const measured = measureSeveralClasses(M, model);
  const { K } = M;
  const draw = normalNumbers();
  const fresh = indices(3).map(() => indices(2).map(() => indices(K).map(draw)));
  const still = [indices(K).map(() => 0), indices(K).map(() => 0)];
  const turned = fresh.map((pair) => pair.map((list) => list.map((x) => -x)));
  const every = [still, ...fresh, ...turned].map(([share, away]) => {
    const p = share.map((x, k) =>
      Math.max(measured.shares[0][k] + measured.shares[1] * x, 0.02 / K),
    );
    const z = away.map((x, k) => measured.centre[0][k] + measured.centre[1][k] * x);
    const all = total(p);
    const middle = mean(z);
    return possibleScores(measured, p.map((x) => x / all), z.map((x) => x - middle));
  });
  const logs = every.flatMap((one) => one.logs);
  const top = largestOf(logs);
  const odds = logs.map((x) => Math.exp(x - top));
  const all = total(odds);
  const chance = odds.map((x) => x / all);
  const sure = every.flatMap((one) => one.logs.map(() => one.sure));
  return figures(interval(every.flatMap((one) => one.right), chance, 0.1), null, dot(chance, sure));
}

function measureSeveralClasses(M, model) {
  const s = model.moments;
  const { K } = M;
  const last = s.length - 1;
  const scale = (weights) => {
    const w = aboutMean(weights);
    const size = Math.sqrt(Math.max(inner(w, s, w), 1e-300));
    return w.map((row) => row.map((x) => x / size));
  };
  const own = scale(model.weights);
  const unit = Math.sqrt(s[last][last]);
  const measures = halvesOf(M, s).map((half) => {
    const w = scale(half.weights);
    const restQ = combine(M.q, half.q, (x, y) => x - y);
    const restS = combine(M.s, half.s, (x, y) => x - y);
    const ofHalf = timesVector(w, column(half.s, last));
    const ofRest = timesVector(own, column(restS, last));
    return {
      score: total(half.q.map((row, c) => dot(row, w[c]) + dot(restQ[c], own[c]))),
      square: inner(w, half.s, w) + inner(own, restS, own),
      centre: ofHalf.map((x, k) => x + ofRest[k]),
    };
  });
  const more = 1.1 * (1 + 15 * M.report * K);
  const constant = column(s, last).map((x) => x / unit);
  const centred = matrix(s.length, s.length, (i, k) => s[i][k] - constant[i] * constant[k]);
  const noisy = M.label ** 2 * squareSum(own) + M.report * inner(own, s, own);
  const lastNoise = M.label ** 2 + M.report * s[last][last];
  const gram = product(own, transpose(own));
  const beside = own.map((row) => ((more * M.square) / Math.SQRT2 / unit) * lengthOf(row));
  const wanted = timesVector(own, constant);
  const centres = Array.from(wanted, (typical, k) =>
    both(mean(measures.map((one) => one.centre[k])) / unit, beside[k], typical, 0.2 / Math.sqrt(K)),
  );
  const quiet = M.s[last][last] <= 2 * M.square;
  const lasts = column(M.q, last);
  const counted = Array.from(lasts, (x) => 1 / K + (x - mean(lasts)) / unit);
  const blurred = (more * Math.sqrt(lastNoise)) / unit;
  const shares = counted.map((x) => both(x, blurred, 1 / K, 0.6 / K));
  const identityAboutMean = matrix(K, K, (i, k) => (i === k ? 1 : 0) - 1 / K);
  const apart = product(product(aboutMean(model.linear), centred), transpose(own));
  const trusted = trace(apart) > 0.1 * Math.sqrt(squareSum(apart));
  const weights = aboutMean(model.weights);
  return {
    score: [mean(measures.map((one) => one.score)), Math.max(more * Math.sqrt(noisy), 1e-2)],
    square: [
      mean(measures.map((one) => one.square)),
      Math.max(more * M.square * Math.sqrt(squareSum(gram)), 1e-2),
    ],
    centre: [
      centres.map(([x]) => (quiet ? 0 : x)),
      centres.map(([, deviation]) => (quiet ? 0.6 / Math.sqrt(K) : deviation)),
    ],
    shares: [shares.map(([x]) => x), shares[0][1]],
    apart: trusted ? apart : identityAboutMean,
    spread: product(product(own, centred), transpose(own)),
    size: Math.sqrt(inner(weights, s, weights)),
  };
}

function possibleScores({ score, square, apart, spread, size }, shares, centre) {
  const K = shares.length;
  const width = trace(spread);
  const believed = trace(apart);
  const cells = linspace(-0.3, 0.97, 33).flatMap((rho) =>
    linspace(-1, 1.6, 11).map((log) => ({ rho, log, variance: Math.exp(log) })),
  );
  for (const cell of cells) {
    cell.covariance = cell.rho * Math.sqrt(cell.variance * width * (1 - dot(shares, shares)));
    const misfit =
      ((score[0] - cell.covariance - dot(shares, centre)) / score[1]) ** 2 +
      ((square[0] - cell.variance * width - dot(centre, centre)) / square[1]) ** 2 +
      ((cell.log - Math.log(1.25)) / 0.4) ** 2;
    cell.chance = Math.log(learnt(cell.rho)) - 0.5 * misfit;
  }
  const limit = largestOf(cells.map(({ chance }) => chance)) + Math.log(1e-3);
  const kept = cells.filter(({ chance }) => chance > limit);
  const points = normalPoints(K, Math.max(32, 2 ** Math.floor(Math.log2(512 / K))));
  const scores = kept.map((cell) => scoresOf(cell, points, { apart, spread, width, believed }, shares, centre));
  const logs = scores.map((one) => one.log);
  const likeliest = logs.indexOf(largestOf(logs));
  let sure = 0;
  scores[likeliest].moved.forEach((people, k) => {
    const chances = people.map((z) => {
      const top = largestOf(z);
      return 1 / total(z.map((x) => Math.exp(size * (x - top))));
    });
    sure += shares[k] * mean(chances);
  });
  return { logs, right: scores.map((one) => one.right), sure };
}

/* Scores of people of each class, in one cell of the posterior. */
function scoresOf(cell, points, { apart, spread, width, believed }, shares, centre) {
  const K = shares.length;
  const means = matrix(K, K, (k, j) => ((cell.covariance / believed) * apart[k][j]) / shares[k]);
  const within = matrix(K, K, (i, j) => {
    let between = 0;
    for (let k = 0; k < K; k += 1) between += shares[k] * means[k][i] * means[k][j];
    return cell.variance * spread[i][j] - between;
  });
  const half = symmetricRoot(within);
  const inside = product(points, half);
  const below = squareSum(half) - trace(within);
  const log = cell.chance - 0.5 * (below / (0.1 * cell.variance * width)) ** 2;
  let right = 0;
  const moved = Array.from(means, (row, k) => {
    const people = inside.map((z) => Array.from(z, (x, j) => x + centre[j] + row[j]));
    const hits = people.filter((z) => z.indexOf(largestOf(z)) === k).length;
    right += shares[k] * (hits / people.length);
    return people;
  });
  return { log, right, moved };
}

export { expectedOf };
