/* What a server's releases spend: events follow from its records, its epsilons and the plan. */

import { demand, isInteger, isNumber, numeric } from "./bytes.js";
import { countedEpsilon, perServer, sumDeviations } from "./plan.js";
import { reportWeight } from "./study.js";

const LOSSES = { // label weight c, sup|g'|, sup g''
  logistic: { c: 0.5, steepest: 0.5, bend: 0.25 },
  square: { c: 2, steepest: Infinity, bend: 2 },
  matsushita: { c: 1, steepest: 1, bend: 1 },
  softmax: { c: 1, steepest: 1, bend: 0.5 },
};
const REQUIRED = Symbol("required");
const FIELDS = {
  ObjectiveNoised: {
    kind: REQUIRED,
    bound: REQUIRED,
    stddev: REQUIRED,
    size: REQUIRED,
    n_servers: REQUIRED,
    label_shift: REQUIRED,
    fixed_shift: null,
    encoding: "",
    report_epsilon: 0,
  },
  IterateReleased: {
    t: REQUIRED,
    stddev: REQUIRED,
    label_sensitivity: REQUIRED,
    record_sensitivity: REQUIRED,
    solver_slack: null,
    report_epsilon: 0,
  },
  SumsReleased: {
    label_stddev: REQUIRED,
    square_stddev: REQUIRED,
    label_shift: REQUIRED,
    record_shift: REQUIRED,
    square_shift: REQUIRED,
    fixed_shift: REQUIRED,
    epsilon: REQUIRED,
    hidden_among: 1,
    encoding: "",
    report_epsilon: 0,
  },
};
const TEXTS = ["kind", "encoding"];
const INTEGERS = ["size", "n_servers", "t", "hidden_among"];
const MOST_RATIO = 1e150;

const lossOf = (plan, K) => (K === 2 ? plan.loss : "softmax");
const ratio = (moved, noise) => (moved === 0 ? 0 : Math.min(MOST_RATIO, moved / noise));
const root = (square) => (square > MOST_RATIO ? Infinity : Math.sqrt(square));

function isClose(a, b, relative, absolute = 0) {
  if (a === b) return true;
  if (!Number.isFinite(a) || !Number.isFinite(b)) return false;
  const far = Math.abs(a - b);
  return far <= relative * Math.max(Math.abs(a), Math.abs(b)) || far <= absolute;
}

/* An event with all its fields, numbers plain. */
function readEvent(values) {
  const need = (condition) => demand(condition, "statement", [], "it holds what is no event");
  const kind = values.get("event");
  need(typeof kind === "string" && Object.hasOwn(FIELDS, kind));
  const fields = FIELDS[kind];
  for (const key of values.keys()) need(key === "event" || Object.hasOwn(fields, key));
  const event = { event: kind };
  for (const [key, usual] of Object.entries(fields)) {
    const x = values.has(key) ? values.get(key) : usual;
    if (!values.has(key)) {
      need(usual !== REQUIRED);
      event[key] = x;
    } else if (TEXTS.includes(key)) {
      need(typeof x === "string");
      event[key] = x;
    } else if (x === null) {
      need(usual === null);
      event[key] = null;
    } else {
      need((INTEGERS.includes(key) ? isInteger(x) : isNumber(x)) && numeric(x) >= 0);
      event[key] = numeric(x);
    }
  }
  return event;
}

/* Doubles may differ by a billionth; an encoding may be left out. */
function sameEvents(claims, planned) {
  const sameField = (key, a, b) => {
    if (key === "encoding" && a === "") return true;
    if (typeof a === "number" && typeof b === "number" && !INTEGERS.includes(key)) {
      return isClose(a, b, 1e-9);
    }
    return a === b;
  };
  const sameEvent = (a, b) =>
    a.event === b.event && Object.keys(a).every((key) => sameField(key, a[key], b[key]));
  return claims.length === planned.length && claims.every((x, i) => sameEvent(readEvent(x), planned[i]));
}

/* How far a reported label moves m times q. */
function labelShift(epsilon, loss, K) {
  if (K === 2) return (2 * LOSSES[loss].c) / Math.tanh(epsilon / 2);
  return Math.SQRT2 * reportWeight(epsilon, K);
}

/* How far a record moves m times the gradient. */
function recordShift(epsilon, loss, K) {
  if (K === 2) {
    const { c, steepest } = LOSSES[loss];
    return 2 * (steepest + c / Math.tanh(epsilon / 2));
  }
  const low = -1 / Math.expm1(epsilon);
  const top = reportWeight(epsilon, K) + low;
  return 2 * Math.sqrt(top ** 2 + (1 - low) ** 2 + (K - 2) * low ** 2);
}

/* How far a person moves Q by a label, Q by a record, and S. */
function sumShifts(epsilon, loss, K) {
  const w = reportWeight(epsilon, K);
  const square = Math.SQRT2 / w ** 2;
  if (K === 2) {
    const both = (2 * LOSSES[loss].c) / w;
    return { label: both, record: both, square };
  }
  return { label: Math.SQRT2 / w, record: (2 * Math.sqrt(1 - 1 / K)) / w, square };
}

/* What a statement says of its records; each label epsilon between the two is in use. */
function sizesOf(statement, study) {
  const { records, epsilon: low, labelEpsilon: high } = statement;
  const between = study.menu.filter((e) => low <= e && e <= high);
  return {
    i: study.servers.indexOf(statement.server),
    records,
    low,
    high,
    epsilons: [...new Set([low, high, ...between])].sort((a, b) => a - b),
  };
}

function plannedEvents(study, plan, sizes) {
  return plan.method === "sums"
    ? [sumsReleased(study, plan, sizes)]
    : roundsReleased(study, plan, sizes);
}

function sumsReleased(study, plan, { records: m, high }) {
  const counted = countedEpsilon(plan, high);
  const far = sumShifts(counted, lossOf(plan, study.K), study.K);
  const part = 2 ** 15; // rows that are added up at once
  const rounding = (part + m / part + 4) * m * 2 ** -52;
  const fixed =
    rounding * Math.max(far.record, far.square) + study.width * Math.sqrt(study.C) * 2 ** -24;
  const [label, square] = sumDeviations(plan, study.servers.length);
  return {
    event: "SumsReleased",
    label_stddev: label,
    square_stddev: square,
    label_shift: far.label + fixed,
    record_shift: far.record + fixed,
    square_shift: far.square + fixed,
    fixed_shift: fixed,
    epsilon: counted,
    hidden_among: plan.colluding === null ? 1 : study.servers.length,
    encoding: study.encoding,
    report_epsilon: 0,
  };
}

function roundsReleased(study, plan, { i, records: m, low }) {
  const n = study.servers.length;
  const size = study.width * study.C;
  const loss = lossOf(plan, study.K);
  const grid = Math.sqrt(size) * 2 ** -40;
  const farLabel = labelShift(low, loss, study.K);
  const farRecord = recordShift(low, loss, study.K);
  const tolerance =
    plan.tolerance === null
      ? (0.01 * (farRecord === Infinity ? farLabel : farRecord)) / m
      : perServer(plan.tolerance, i);
  const rounding = (farLabel / m) * m ** 2 * 2 ** -52;
  const label = farLabel / m + rounding;
  const record = farRecord / m + rounding;
  const slack = 2 * tolerance;
  const ridge = numeric(plan.regularization) / n + 2 * numeric(plan.penalty) * study.degrees[i];
  const scale = perServer(plan.noise_scale, i);
  const bound = numeric(plan.objective_bound);
  const iterate = (t) => ({
    event: "IterateReleased",
    t,
    stddev: scale * Math.sqrt(numeric(plan.noise_decay) ** (t - 1)),
    label_sensitivity: (label + slack) / ridge + grid,
    record_sensitivity: (record + slack) / ridge + grid,
    solver_slack: (slack + rounding) / ridge + grid,
    report_epsilon: 0,
  });
  const first = {
    event: "ObjectiveNoised",
    kind: plan.objective_noise,
    bound,
    stddev: bound / 6,
    size,
    n_servers: n,
    label_shift: label + grid / n,
    fixed_shift: rounding + grid / n,
    encoding: study.encoding,
    report_epsilon: 0,
  };
  return [first, ...Array.from({ length: plan.rounds }, (_, k) => iterate(k + 1))];
}

/* All iterates of an earlier job as one Gaussian release with the same loss. */
function mergeRounds(events) {
  const rounds = events.filter(({ event }) => event === "IterateReleased");
  const others = events.filter(({ event }) => event !== "IterateReleased");
  if (!rounds.length) return others;
  const together = (key) =>
    root(rounds.reduce((sum, event) => sum + ratio(event[key], event.stddev) ** 2, 0));
  const merged = {
    event: "IterateReleased",
    t: 1,
    stddev: 1,
    label_sensitivity: together("label_sensitivity"),
    record_sensitivity: together("record_sensitivity"),
    solver_slack: together("solver_slack"),
    report_epsilon: 0,
  };
  return [...others, merged];
}

export {
  LOSSES,
  isClose,
  labelShift,
  lossOf,
  mergeRounds,
  plannedEvents,
  ratio,
  readEvent,
  recordShift,
  root,
  sameEvents,
  sizesOf,
  sumShifts,
};
