/* Who can learn what: from the events of all statements to the rows of the ledger. */

import { Double, numeric } from "./bytes.js";
import { ratio, readEvent, root, sizesOf } from "./events.js";
import {
  afterResponse,
  certaintyAt,
  epsilonsAt,
  leastOf,
  nothingHides,
  responseProfile,
  truncated,
} from "./profiles.js";
import { betaInc, expit, logPhi, phi } from "./numerics/special.js";
import { reportWeight } from "./study.js";

const DELTA = 1e-6;
const OWN = "own server";
const OTHERS = "other servers";
const TOGETHER = "own and others together";
const ALL_ANSWERS = "label and randomised answers";
const WORST = ["devices", "elsewhere", "", "operator"]; // who randomised, the worst last
const TRUE_LABEL_KNOWN = {
  "": "nobody recorded who randomised it: the collecting organisation may have had the true label",
  operator:
    "the collecting organisation had the true label and randomised it itself: no protection",
};
const RANDOMISED = {
  devices: "randomised on the device; training cannot weaken it",
  elsewhere: "randomised on a device, as its server declares; training cannot weaken it",
};

const sumOf = (list, of) => list.reduce((sum, x) => sum + of(x), 0);

/* What a server has released, in earlier jobs and in this one. */
function releasesOf(statement, study) {
  const before = statement.earlierJobs.flatMap(({ events }) => events);
  const events = [...before, ...statement.events].map(readEvent);
  const only = (kind) => events.filter(({ event }) => event === kind);
  return {
    epsilons: sizesOf(statement, study).epsilons,
    by: statement.randomisedBy,
    events,
    noised: only("ObjectiveNoised"),
    released: only("IterateReleased"),
    sums: only("SumsReleased"),
  };
}

/* How far a label moves the objective: with the label's weight, and whatever it weighs. */
function objectiveShifts({ label_shift: label, fixed_shift: known, n_servers: n }) {
  const fixed = Math.min(known ?? label, label);
  return { label: n * (label - fixed), fixed: n * fixed };
}

/* A label of this weight, hidden by the noise of the objective alone. */
function throughObjective(events, weight) {
  let square = 0;
  let edge = 0;
  let flat = events.length ? 0 : 1;
  let kept = 1;
  for (const event of events) {
    const { label, fixed } = objectiveShifts(event);
    const { kind, bound: R, size: N, stddev } = event;
    const far = weight * label + fixed;
    if (R === 0 || kind === "none") {
      flat += 1;
    } else if (kind === "truncated_gaussian") {
      const moved = far / stddev;
      const reach = R / stddev;
      square += moved * moved;
      const tail = Math.exp(logPhi(-reach));
      const strip = Math.sqrt(N) * Math.max(0, phi(moved - reach) - tail);
      edge += moved <= reach ? strip : Infinity;
      kept *= 2 * tail >= 1 ? 0 : 1 + Math.expm1(N * Math.log1p(-2 * tail));
    } else if (kind === "uniform_box") {
      const share = Math.min(0.5, far / (2 * R)) / Math.sqrt(N);
      flat += far <= R ? -Math.expm1(N * Math.log1p(-share)) : 1;
    } else {
      flat += betaInc(0.5, (N + 1) / 2, Math.min(1, far / (2 * R)) ** 2);
    }
  }
  return { mu: Math.sqrt(square), edge, outside: 1 - kept, flat: Math.min(1, flat) };
}

const isGaussian = (noised) =>
  noised.length > 0 && noised.every(({ kind, bound }) => kind === "truncated_gaussian" && bound > 0);

/* Sums over rounds of squares and products of a label's part and of the rest, in deviations. */
function throughIterates(released, K) {
  const label = [0, 0, 0];
  const record = [0, 0, 0];
  let whole = 0;
  const c2 = 1 - 1 / K;
  const spread = Math.sqrt(2 * c2);
  const add = (sums, a, b) => {
    sums[0] += a * a;
    sums[1] += a * b;
    sums[2] += b * b;
  };
  for (const event of released) {
    const { stddev, label_sensitivity: moved, record_sensitivity: both } = event;
    const fixed = Math.min(event.solver_slack ?? moved, moved);
    const separable = moved > fixed;
    const part = separable ? moved - fixed : 0;
    const share = separable ? (both - fixed) / part : 0;
    let rest = both;
    if (separable && share > 0) {
      const inside = Math.max(0, 1 / K ** 2 + c2 * (share ** 2 / 2 - c2));
      const inverse = Math.max(0, Math.sqrt(inside) - 1 / K) / c2;
      rest = spread * part * inverse + fixed;
    }
    add(label, ratio(part, stddev), ratio(fixed, stddev));
    add(record, spread * ratio(part, stddev), ratio(rest, stddev));
    whole += ratio(both, stddev) ** 2;
  }
  return { label, record, whole };
}

const atWeight = (weight, [xx, xy, yy]) => weight ** 2 * xx + 2 * weight * xy + yy;

/* The best share of a label's part through the objective's noise; the rest through iterates. */
function splitLabel(noised, weight, sums, spread = 1) {
  if (!isGaussian(noised)) return throughObjective([], weight);
  const moves = noised.map((event) => {
    const { label, fixed } = objectiveShifts(event);
    return { label: ratio(spread * label, event.stddev), fixed: ratio(fixed, event.stddev) };
  });
  const steep = weight * sumOf(moves, ({ label }) => label ** 2) + weight * sums[0];
  const crossed = sumOf(moves, ({ label, fixed }) => label * fixed);
  const best = (weight * sums[0] + sums[1] - crossed) / steep;
  const share = steep > 0 ? Math.min(1, Math.max(0, best)) : 1;
  const bound = throughObjective(noised, share * spread * weight);
  return { ...bound, mu: root(bound.mu ** 2 + atWeight((1 - share) * weight, sums)) };
}

/* Bounds for each kind of person of a server: one for each label epsilon in use. */
function lossesOf(server, K, colluding) {
  const least = reportWeight(server.epsilons[0], K);
  const iterates = throughIterates(server.released, K);
  return server.epsilons.map((epsilon) =>
    lossOfPerson(server, epsilon, reportWeight(epsilon, K) / least, iterates, K, colluding),
  );
}

function lossOfPerson({ noised, released, sums }, epsilon, weight, iterates, K, colluding) {
  const hidden = isGaussian(noised) || !released.length;
  const exchanges = sums.map((event) => sumsMove(event, epsilon, K, colluding));
  const all = (part) => sumOf(exchanges, (one) => one[part]);
  const [label, record] = [all("qLabel"), all("qRecord") + all("square")];
  const moves = exchanges.map(({ own }) => own);
  for (const event of hidden ? noised : []) {
    const { label: far, fixed } = objectiveShifts(event);
    moves.push({
      encoding: event.encoding,
      label: (weight * ratio(far, event.stddev)) ** 2,
      square: 0,
      rounding: ratio(fixed, event.stddev) ** 2,
    });
  }
  const alone = (square) => ({ mu: root(square), edge: 0, outside: 0, flat: 0 });
  const withSums = (bound, more) => ({ ...bound, mu: root(bound.mu ** 2 + more) });
  const objective = throughObjective(noised, weight);
  const { angle, follows, apart } = angles(moves);
  const spread = Math.sqrt(2 * (1 - 1 / K));
  return {
    epsilon,
    K,
    theta: alone(atWeight(weight, iterates.label) + label),
    eta: withSums(objective, label),
    both: withSums(splitLabel(noised, weight, iterates.label), label),
    whole: alone(Math.min(atWeight(weight, iterates.record), iterates.whole) + record),
    once: withSums(splitLabel(noised, weight, iterates.record, spread), record),
    response: {
      label: root(angle),
      rest: root(iterates.record[2] + apart),
      square: root(follows),
      rounding: root(sumOf(moves, ({ rounding }) => rounding)),
      edge: 2 * objective.edge,
      outside: objective.outside,
      flat: K > 2 || !hidden ? 1 : 0,
    },
  };
}

/* How far one exchange of sums moves, in deviations of the noise that hides it. */
function sumsMove(event, epsilon, K, colluding) {
  const kappa = reportWeight(event.epsilon, K);
  const weight = (kappa / reportWeight(Math.min(epsilon, event.epsilon), K)) ** 2;
  const loud = (weight * reportWeight(epsilon, K)) / kappa;
  const many = colluding === null ? 1 : Math.max(1, event.hidden_among - colluding);
  const move = (shift, noise, factor) => {
    const fixed = Math.min(event.fixed_shift, shift);
    const own = factor * (shift - fixed);
    const stddev = Math.sqrt(many) * noise;
    return {
      all: ratio(own + fixed, stddev) ** 2,
      own: ratio(own, stddev) ** 2,
      fixed: ratio(fixed, stddev) ** 2,
    };
  };
  const label = move(event.label_shift, event.label_stddev, loud);
  const record = move(event.record_shift, event.label_stddev, loud);
  const square = move(event.square_shift, event.square_stddev, weight);
  return {
    qLabel: label.all,
    qRecord: record.all,
    square: square.all,
    own: {
      encoding: event.encoding,
      label: record.own,
      square: square.own,
      rounding: record.fixed + square.fixed,
    },
  };
}

/* Releases with one encoding move along the same row. */
function angles(moves) {
  const groups = new Map();
  moves.forEach(({ encoding, label, square }, number) => {
    const group = groups.get(encoding || number) ?? { label: 0, square: 0 };
    groups.set(encoding || number, { label: group.label + label, square: group.square + square });
  });
  const list = [...groups.values()];
  const angle = sumOf(list, ({ label }) => label);
  const square = sumOf(list, (group) => group.square);
  const follows = list.reduce((least, group) => {
    const share = group.label / angle;
    return share > 0 ? Math.min(least, group.square / share) : least;
  }, square);
  return { angle, follows, apart: Math.max(0, square - follows) };
}

/* Profiles of all kinds of people, by the name of the bound. */
function closedForms(data, people) {
  const each = (of) => people.map(of);
  if (data === "features") {
    return {
      "every round": each((one) => truncated(one.whole)),
      "label part once": each((one) => truncated(one.once)),
    };
  }
  const response = (of) => each((one) => afterResponse(one.epsilon, of(one), one.K));
  return {
    "response alone": response(() => nothingHides),
    theta: response((one) => truncated(one.theta)),
    eta: response((one) => truncated(one.eta)),
    "both noises": response((one) => truncated(one.both)),
  };
}

const bestForms = (forms, i) => leastOf(Object.values(forms).map((profiles) => profiles[i]));

function profilesOf(data, people) {
  const forms = closedForms(data, people);
  const best = people.map((_, i) => bestForms(forms, i));
  const helped = people.map((_, i) => i).filter((i) => data === "features" && responseHelps(people[i]));
  const columns = coveringColumns(
    helped.map((i) => {
      const { label, rest, square, rounding, edge, outside } = people[i].response;
      return [people[i].epsilon, label, rest, square, rounding, edge, outside];
    }),
  );
  helped.forEach((i, k) => {
    const [epsilon, label, rest, square, rounding, edge, outside] = columns[k];
    const profile = responseProfile({ epsilon, label, rest, square, rounding });
    const bound = (target) => Math.min(1, (profile(target) + edge) / (1 - outside));
    best[i] = leastOf([best[i], bound]);
  });
  return best;
}

function responseHelps({ response, whole, once }) {
  const other = once.flat < 1 ? once.mu : Infinity;
  const beside = Math.hypot(response.rest, response.square);
  const helps = beside < 0.98 * Math.min(whole.mu, other);
  return helps && response.flat < 1 && Number.isFinite(response.label);
}

/* Fewer different columns, none of them smaller: those that no other one exceeds; at most 16. */
function coveringColumns(columns) {
  const ascending = (a, b) => {
    const k = a.findIndex((x, at) => x !== b[at]);
    return k < 0 ? 0 : a[k] - b[k] || (a[k] < b[k] ? -1 : 1);
  };
  const different = (list) => {
    const sorted = [...list].sort(ascending);
    return sorted.filter((column, k) => !k || ascending(sorted[k - 1], column) !== 0);
  };
  const isBelow = (a, b) => a.every((x, k) => x <= b[k]);
  const all = different(columns);
  const front = all.filter((a) => all.filter((b) => isBelow(a, b)).length === 1);
  const above = columns.map((column) => front.find((one) => isBelow(column, one)));
  const kinds = different(above);
  const parts = Math.min(16, kinds.length);
  const covers = new Map();
  let at = 0;
  for (let part = 0; part < parts; part += 1) { // the first ones longer by one
    const size = Math.floor(kinds.length / parts) + (part < kinds.length % parts ? 1 : 0);
    const group = kinds.slice(at, at + size);
    const cover = group[0].map((_, k) => Math.max(...group.map((column) => column[k])));
    for (const column of group) covers.set(column.join(), cover);
    at += size;
  }
  return above.map((column) => covers.get(column.join()));
}

/* Rows. */

function rowOf(data, adversary, epsilon, delta, certainty, reason, colluding) {
  const row = {
    data,
    adversary,
    epsilon: epsilon === Infinity ? "inf" : new Double(epsilon),
    delta: new Double(delta),
    certainty: new Double(Math.min(1, Math.ceil(certainty * 1e9) / 1e9)),
    reason,
  };
  return colluding === null ? row : { ...row, colluding };
}

/* The randomised answers of a row, and whether the label is among them; null of other rows. */
function answersOf(data, study) {
  if (data === "label" || (data === "features" && study.answersInClear)) return null;
  if (data === "features" || data === ALL_ANSWERS) return { blocks: study.blocks, label: true };
  return { blocks: study.blocks.filter(({ name }) => data === `answer: ${name}`), label: false };
}

const worstOf = (list) => list.reduce((a, b) => (WORST.indexOf(b) > WORST.indexOf(a) ? b : a));

function againstOwn(data, adversary, servers, study) {
  const answers = answersOf(data, study);
  const isKnown = ({ by }) => by in TRUE_LABEL_KNOWN;
  const labelOf = ({ epsilons }) => Math.max(...epsilons);
  let most = Infinity;
  let reason = "no protection";
  if (answers) {
    const own = sumOf(answers.blocks, ({ epsilon }) => epsilon);
    reason = "the collecting organisation may have had the true answers: no protection";
    if (!servers.some(isKnown)) {
      most = Math.max(...servers.map((server) => own + (answers.label ? labelOf(server) : 0)));
      const responses = answers.blocks.length + (answers.label ? 1 : 0);
      const by = RANDOMISED[worstOf(servers.map((server) => server.by))];
      reason = responses === 1 ? by : `${responses} randomised responses added up, each ${by}`;
    }
  } else if (data === "features") {
    if (adversary === OWN) reason = "the collecting organisation receives them: no protection";
  } else {
    const spent = servers.map((server) => (isKnown(server) ? Infinity : labelOf(server)));
    most = Math.max(...spent);
    const by = worstOf(servers.filter((_, i) => spent[i] === most).map((server) => server.by));
    const back = "back to the randomised response alone";
    reason = TRUE_LABEL_KNOWN[by] ?? (adversary === OWN ? RANDOMISED[by] : back);
  }
  return rowOf(data, adversary, most, 0, expit(most), reason, null);
}

function othersProfiles(data, people, study) {
  const answers = answersOf(data, study);
  if (!answers) return profilesOf(data, people);
  const whole = profilesOf("features", people);
  const responses = sumOf(answers.blocks, ({ epsilon }) => epsilon);
  if (!answers.label) {
    const { levels } = answers.blocks[0];
    return whole.map((profile) => leastOf([profile, afterResponse(responses, profile, levels)]));
  }
  const forms = closedForms("features", people);
  return whole.map((profile, i) => {
    const form = bestForms(forms, i);
    return leastOf([profile, form, afterResponse(people[i].epsilon + responses, form)]);
  });
}

function againstOthers(data, servers, study, colluding) {
  const losses = servers.map((server) => lossesOf(server, study.K, colluding));
  const people = losses.flat();
  const profiles = othersProfiles(data, people, study);
  const epsilons = epsilonsAt(profiles, DELTA);
  const worst = epsilons.indexOf(Math.max(...epsilons));
  const server = servers[losses.findIndex((list) => list.includes(people[worst]))];
  const epsilon = epsilons[worst];
  let reason = answersReason(data, study, server, colluding);
  if (!answersOf(data, study)) {
    const delta = profiles[worst](epsilon);
    const forms = Object.entries(closedForms(data, people));
    const bound = forms.find(([, list]) => list[worst](epsilon) <= delta)?.[0] ?? "response";
    reason = boundReason(data, bound, epsilon, server, colluding);
  }
  const certainty = expit(certaintyAt(profiles, DELTA, epsilons));
  return rowOf(data, OTHERS, epsilon, DELTA, certainty, reason, colluding);
}

const hidingServers = ({ sums }, colluding) =>
  Math.min(...sums.map((event) => (colluding === null ? 1 : event.hidden_among - colluding)));

function boundReason(data, bound, epsilon, server, colluding) {
  if (epsilon === Infinity) return "no noise hides it";
  if (bound === "response alone") return "randomised response alone";
  const parts = [];
  if (server.released.length) {
    parts.push(
      {
        theta: "iterate noise over all rounds sent",
        "every round": "iterate noise over all rounds sent",
        eta: "objective noise, once for all rounds",
        "both noises": "both noises together",
        "label part once": "label part counted once, the rest in every round",
        response: "label part counted once, with the device's randomised response",
      }[bound],
    );
  }
  const count = server.sums.length;
  if (count) {
    const many = hidingServers(server, colluding);
    const exchanges = count === 1 ? "one exchange of sums" : `${count} exchanges of sums`;
    const alone = bound === "response" && !server.released.length;
    const response = alone ? ", with the device's randomised response" : "";
    const among = many > 1 ? `, hidden in the total of ${many} servers` : "";
    parts.push(`noise on ${exchanges}${response}${among}`);
  }
  return (data === "label" ? "randomised response, then " : "") + parts.join(", and ");
}

function answersReason(data, study, server, colluding) {
  const answers = answersOf(data, study);
  if (!answers) return "";
  const several = answers.blocks.length + (answers.label ? 1 : 0) > 1;
  const text = several ? "all its randomised responses together" : "its randomised response";
  const many = server.sums.length ? hidingServers(server, colluding) : 1;
  const among = many > 1 ? `, in the total of ${many} servers` : "";
  return `${text}, then what hides the record${among}`;
}

/* The `privacy` of model.json. */
function privacyOf(terms, statements) {
  const { study } = terms;
  const different = new Map(); // servers with equal events count once
  for (const statement of statements.values()) {
    const server = releasesOf(statement, study);
    const events = server.events.map((event) => Object.entries(event).flat().map(String));
    different.set(JSON.stringify([server.epsilons, server.by, events]), server);
  }
  const servers = [...different.values()];
  const answers = study.blocks.map(({ name }) => `answer: ${name}`);
  const data = ["label", "features", ...answers, ...(answers.length ? [ALL_ANSWERS] : [])];
  const rows = data.flatMap((one) => [
    againstOwn(one, OWN, servers, study),
    againstOthers(one, servers, study, null),
    againstOwn(one, TOGETHER, servers, study),
  ]);
  const among = Math.max(1, ...servers.flatMap(({ sums }) => sums.map((e) => e.hidden_among)));
  const coalitions = data.flatMap((one) =>
    Array.from({ length: among - 1 }, (_, k) => againstOthers(one, servers, study, k + 1)),
  );
  return {
    source: [...statements.values()][0].source,
    delta: new Double(DELTA),
    rows,
    ...(coalitions.length ? { coalitions } : {}),
    counted: "all jobs on each data set, as the journals of the organisations' nodes have them",
  };
}

function isBudgetKept(terms, statements) {
  const { study } = terms;
  const servers = [...statements.values()].map((statement) => releasesOf(statement, study));
  const people = servers.flatMap((s) => lossesOf(s, study.K, study.budget.colluding ?? null));
  const limits = { features: study.budget.features, label: study.budget.labels };
  return Object.entries(limits).every(([data, limit]) => {
    if (!limit) return true;
    const most = numeric(limit.epsilon) * (1 + 1e-9);
    const profiles = othersProfiles(data, people, study);
    return profiles.every((profile) => !(profile(most) > numeric(limit.delta)));
  });
}

export { OTHERS, OWN, TOGETHER, isBudgetKept, privacyOf };
