/* The plan of a job and the terms that all parties agreed on. */

import {
  Double,
  Refusal,
  asciiJson,
  demand,
  isInteger,
  isNumber,
  numeric,
  sha256,
  utf8,
} from "./bytes.js";

const SETTINGS = { // of: the methods that write it
  rounds: { of: ["rounds"], usual: 40 },
  regularization: { of: ["rounds"], usual: new Double(0.01) },
  penalty: { of: ["rounds"], usual: new Double(0.1) },
  objective_bound: { of: ["rounds"], usual: new Double(1) },
  objective_noise: { of: ["rounds"], usual: "truncated_gaussian" },
  noise_scale: { of: ["rounds"], usual: new Double(0.3) },
  noise_decay: { of: ["rounds"], usual: new Double(0.95) },
  tolerance: { of: ["rounds"], usual: null },
  loss: { of: ["rounds", "sums"], usual: "logistic" },
  method: { of: ["sums"], usual: "rounds" },
  label_noise: { of: ["sums"], usual: new Double(1.1) },
  square_noise: { of: ["sums"], usual: new Double(1.9) },
  colluding: { of: ["sums"], usual: null },
  epsilon_cap: { of: ["sums"], usual: null }, // not written where it is null
};
const NOISES = ["truncated_gaussian", "uniform_box", "uniform_ball", "none"];
const MOST_ROUNDS = 20_000;
const LONGEST_SUMS = 2 ** 19; // numbers in a row of sums
const FINEST = 15 * 2 ** -24; // the smallest deviation of masked noise that is not 0

function sameSetting(a, b) {
  if (isNumber(a) && isNumber(b)) return numeric(a) === numeric(b);
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((x, i) => sameSetting(x, b[i]));
  }
  return a === b;
}

const samePlan = (a, b) => Object.keys(SETTINGS).every((name) => sameSetting(a[name], b[name]));

/* All settings of a plan; refused where no such plan exists. */
function readPlan(values, study) {
  const need = (condition, name) =>
    demand(condition, "statement", [], `no plan can have this ${name}`);
  for (const name of values.keys()) need(Object.hasOwn(SETTINGS, name), name);
  const plan = {};
  for (const [name, { usual }] of Object.entries(SETTINGS)) {
    plan[name] = values.has(name) ? values.get(name) : usual;
  }
  const inside = (name, test) => {
    const several = Array.isArray(plan[name]) ? plan[name] : [plan[name]];
    need(several.every((x) => isNumber(x) && test(numeric(x))), name);
  };
  need(["rounds", "sums"].includes(plan.method), "method");
  const sums = plan.method === "sums";
  for (const [name, { of, usual }] of Object.entries(SETTINGS)) {
    const foreign = !of.includes(plan.method) && name !== "rounds";
    if (foreign) need(sameSetting(plan[name], usual), name);
    const perServer = name === "noise_scale" || name === "tolerance";
    if (Array.isArray(plan[name])) need(perServer && [1, study.servers.length].includes(plan[name].length), name);
  }
  need(isInteger(plan.rounds) && plan.rounds >= 1 && plan.rounds <= MOST_ROUNDS, "rounds");
  if (sums) {
    need(plan.rounds === 1 || plan.rounds === 40, "rounds");
    plan.rounds = 1;
  }
  inside("regularization", (x) => x > 0 && x <= 1e9);
  inside("penalty", (x) => x > 0 && x <= 1e9);
  inside("objective_bound", (x) => x >= 0 && x <= 1e9);
  inside("noise_scale", (x) => x >= 0 && x <= 1e9);
  inside("noise_decay", (x) => x > 0 && x < 1);
  if (plan.tolerance !== null) inside("tolerance", (x) => x > 0);
  inside("label_noise", (x) => x >= 0 && x <= 2 ** 22);
  inside("square_noise", (x) => x >= 0 && x <= 2 ** 22);
  if (plan.epsilon_cap !== null) inside("epsilon_cap", (x) => x > 0 && x <= 1e9);
  need(NOISES.includes(plan.objective_noise), "objective_noise");
  const losses = study.K === 2 ? ["logistic", "square", "matsushita"] : ["logistic"];
  need(losses.includes(plan.loss), "loss");
  if (plan.colluding !== null) {
    need(isInteger(plan.colluding), "colluding");
    need(plan.colluding >= 1 && plan.colluding < study.servers.length, "colluding");
    for (const deviation of sumDeviations(plan, study.servers.length)) {
      need(deviation === 0 || deviation >= FINEST, "noise");
    }
  }
  return plan;
}

/* The settings of its method, in their order. */
function settingsOf(plan) {
  const isWritten = (name) => name !== "epsilon_cap" || plan[name] !== null;
  const own = Object.entries(SETTINGS).filter(([, { of }]) => of.includes(plan.method));
  return Object.fromEntries(own.map(([name]) => [name, plan[name]]).filter(([name]) => isWritten(name)));
}

/* What each server adds to every number of Q, and to S's diagonal. */
function sumDeviations(plan, n) {
  const share = plan.colluding === null ? 1 : 1 / Math.sqrt(n - plan.colluding);
  return [share * numeric(plan.label_noise), share * numeric(plan.square_noise)];
}

/* The largest epsilon that counts in full, where the largest in use is `high`. */
const countedEpsilon = (plan, high) =>
  plan.epsilon_cap === null ? high : Math.min(numeric(plan.epsilon_cap), high);

function perServer(setting, i) {
  if (!Array.isArray(setting)) return numeric(setting);
  return numeric(setting.length > 1 ? setting[i] : setting[0]);
}

function termsDigest(study, plan, job, hash = study.hash) {
  const terms = {
    job,
    study: hash,
    plan: settingsOf(plan),
    servers: study.servers,
    edges: study.edges,
    classes: study.K,
    width: study.width,
    epsilon: new Double(Math.min(...study.menu)),
    norm_bound: new Double(1),
  };
  return sha256(utf8(asciiJson(terms)));
}

async function termsOf(study, values, job) {
  const plan = readPlan(values, study);
  const named = /^[0-9A-Za-z_-]{1,64}$/.test(job) && /[0-9A-Za-z]/.test(job);
  demand(named, "statement", [], "no job can have this name");
  const { C, width } = study;
  const sums = plan.method === "sums";
  const length = C * width + (width * (width + 1)) / 2 + 1;
  demand(!sums || length <= LONGEST_SUMS, "statement", [], "no sums can have so many numbers");
  return {
    study,
    plan,
    job,
    sums,
    masked: plan.colluding !== null,
    shape: sums ? [1, length] : [C, width],
    digest: await termsDigest(study, plan, job),
  };
}

/* Those whose releases a server receives, in the study's order. */
function neighboursOf(terms, name) {
  const { servers, edges } = terms.study;
  const i = servers.indexOf(name);
  const linked = (k) => edges.some(([a, b]) => a === Math.min(i, k) && b === Math.max(i, k));
  return servers.filter((_, k) => k !== i && (terms.sums || linked(k)));
}

/* Whether the study's budget ends some day: without an end no job may start. */
function budgetEnds(study) {
  const { features, labels } = study.budget ?? {};
  const floors = [study.menu[0], ...study.leastAnswers];
  if (features) {
    const least = study.answersInClear ? Infinity : floors.reduce((sum, x) => sum + x, 0);
    const epsilon = numeric(features.epsilon);
    let leaked = 1;
    if (least !== Infinity) {
      leaked = epsilon >= least ? 0 : -Math.expm1(epsilon - least) / (1 + Math.exp(-least));
    }
    if (leaked > numeric(features.delta)) return true;
  }
  if (study.plan && labels) {
    const response = Math.exp(study.menu[0]);
    const above = response - Math.exp(numeric(labels.epsilon));
    return Math.max(0, above / (response + study.K - 1)) > numeric(labels.delta);
  }
  return false;
}

/* The terms that a signed statement gives. */
async function termsOfStatement(study, statement) {
  const about = (error) => new Refusal("statement", [statement.server], error.message);
  try {
    demand(budgetEnds(study), "statement", [], "the study's budget never ends: no job may start");
    const terms = await termsOf(study, statement.plan, statement.job);
    const agreed = !study.plan || samePlan(readPlan(study.plan, study), terms.plan);
    demand(agreed, "statement", [], "its plan is not the one that the study fixes");
    return terms;
  } catch (error) {
    throw about(error);
  }
}

export {
  LONGEST_SUMS,
  MOST_ROUNDS,
  countedEpsilon,
  neighboursOf,
  perServer,
  readPlan,
  samePlan,
  settingsOf,
  sumDeviations,
  termsDigest,
  termsOf,
  termsOfStatement,
};
