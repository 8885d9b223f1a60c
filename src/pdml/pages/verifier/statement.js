/* What one server signed: its signature, its form, and what it can have said. */

import {
  Double,
  Refusal,
  concatenate,
  demand,
  fromHex,
  hex,
  isInteger,
  isNumber,
  mark,
  numeric,
  sameBytes,
  sha256,
  startsWith,
} from "./bytes.js";
import {
  labelShift,
  lossOf,
  mergeRounds,
  plannedEvents,
  recordShift,
  sameEvents,
  sizesOf,
  sumShifts,
} from "./events.js";
import { pack, unpack } from "./messagepack.js";
import {
  LONGEST_SUMS,
  MOST_ROUNDS,
  countedEpsilon,
  neighboursOf,
  perServer,
  readPlan,
  samePlan,
  sumDeviations,
  termsDigest,
  termsOf,
} from "./plan.js";
import { reportWeight } from "./study.js";

const STATEMENT_MARK = mark("statement");
const UNIT = 2 ** -24; // of a sum
const GRID = 2 ** 40; // steps of noise from "secure"
const SMALL_ORDER = [ // keys that sign nothing
  "00".repeat(32),
  "01" + "00".repeat(31),
  "ec" + "ff".repeat(30) + "7f",
  "ed" + "ff".repeat(30) + "7f",
  "ee" + "ff".repeat(30) + "7f",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
];

async function isSigned(key, message, signature) {
  if (!/^[0-9a-f]{64}$/.test(key) || signature.length !== 64) return false;
  const raw = fromHex(key);
  const point = raw.slice();
  point[31] &= 127;
  if (SMALL_ORDER.includes(hex(point))) return false;
  try {
    const imported = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", imported, signature, message);
  } catch (error) {
    if (error.name === "NotSupportedError") throw error; // the page asks before it starts
    return false; // no point of the curve
  }
}

/* The types of fields. */

const text = (x) => typeof x === "string";
const integer = (x) => isInteger(x);
const double = (x) => x instanceof Double;
const bytes = (x) => x instanceof Uint8Array;
const listOf = (inner, most) => (x) => Array.isArray(x) && x.length <= most && x.every(inner);
const tableOf = (inner) => (x) => x instanceof Map && [...x.values()].every(inner);
const setting = (x) => x === null || isNumber(x) || text(x) || listOf(isNumber, 1000)(x);
const cell = (x) => isNumber(x) || listOf((y) => isNumber(y) || text(y), 8)(x);
const eventPart = (x) => x === null || typeof x === "boolean" || text(x) || isNumber(x) || listOf(cell, 1000)(x);
const settings = tableOf(setting);
const events = listOf(tableOf(eventPart), 20_001);
const recordOf = (fields) => (x) =>
  x instanceof Map &&
  sameList([...x.keys()], Object.keys(fields)) &&
  Object.entries(fields).every(([key, good]) => good(x.get(key)));

const EARLIER_JOB = { job: text, terms: text, study: text, plan: settings, rounds: integer, events };
const NEIGHBOUR_RELEASES = {
  sender: text,
  digests: bytes,
  distances: listOf(double, 20_000),
  dataset: text,
  earlier_releases: integer,
};
const STATEMENT = {
  version: integer,
  terms: text,
  study: text,
  job: text,
  plan: settings,
  server: text,
  dataset: text,
  records: integer,
  epsilon: double,
  label_epsilon: double,
  randomised_by: text,
  source: text,
  sent: bytes,
  received: listOf(recordOf(NEIGHBOUR_RELEASES), 1000),
  release: bytes,
  events,
  earlier_jobs: listOf(recordOf(EARLIER_JOB), 1000),
};

const sameList = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
const earlierReleases = (statement) => statement.earlierJobs.reduce((sum, { rounds }) => sum + rounds, 0);

/* Signature and form. */
async function readStatement(data, server, study) {
  const need = (condition, sentence) =>
    demand(condition, "statement", [server], `the statement of ${server} ${sentence}`);
  need(startsWith(data, STATEMENT_MARK), "does not begin as one of version 1 does");
  const head = STATEMENT_MARK.length;
  const signature = data.slice(head, head + 64);
  const content = data.slice(head + 64);
  const signed = concatenate(STATEMENT_MARK, content);
  need(study.keys.has(server), "has no key in the study");
  need(await isSigned(study.keys.get(server), signed, signature), "is not signed by its key");
  let values;
  try {
    values = unpack(content);
  } catch (error) {
    throw new Refusal("statement", [server], `the statement of ${server} cannot be read: ${error.message}`);
  }
  need(recordOf(STATEMENT)(values), "has other fields than one of version 1");
  need(sameBytes(pack(values), content), "is not written in the one spelling");
  need(values.get("version") === 1, "is of another version");
  need(values.get("server") === server, `is of ${values.get("server")}`);
  return {
    terms: values.get("terms"),
    study: values.get("study"),
    job: values.get("job"),
    plan: values.get("plan"),
    server,
    dataset: values.get("dataset"),
    records: values.get("records"),
    epsilon: numeric(values.get("epsilon")),
    labelEpsilon: numeric(values.get("label_epsilon")),
    randomisedBy: values.get("randomised_by"),
    source: values.get("source"),
    sent: values.get("sent"),
    received: values.get("received").map((other) => ({
      sender: other.get("sender"),
      digests: other.get("digests"),
      distances: other.get("distances").map(numeric),
      dataset: other.get("dataset"),
      earlierReleases: other.get("earlier_releases"),
    })),
    release: values.get("release"),
    events: values.get("events"),
    earlierJobs: values.get("earlier_jobs").map((job) => Object.fromEntries(job)),
  };
}

/* The most bytes that a statement can have. */
function mostBytes([rows, columns], rounds, peers, n) {
  const perRound = 32 + (32 + 9) * peers + 256;
  const plan = 1024 + 20 * n;
  const own = 4096 + 512 * peers + perRound * (rounds + 1) + 8 * rows * columns + plan;
  return 17 + 64 + own + 1000 * (4 * 256 + plan);
}

/* The same before the job is known, under this study. */
function largestStatement(study, name) {
  const { C, width, servers, plan } = study;
  const n = servers.length;
  const degree = study.degrees[servers.indexOf(name)];
  const length = C * width + (width * (width + 1)) / 2 + 1;
  const rounds = plan?.get("rounds") ?? (plan ? 40 : MOST_ROUNDS);
  const method = plan ? (plan.get("method") ?? "rounds") : "";
  const ofRounds = mostBytes([C, width], rounds, degree, n);
  const ofSums = length <= LONGEST_SUMS ? mostBytes([1, length], 1, n - 1, n) : 0;
  return Math.max(method === "sums" ? 0 : ofRounds, method === "rounds" ? 0 : ofSums);
}

/* The last release: doubles of rounds, or BigInts of sums. */
function releaseOf(statement, terms) {
  const raw = statement.release.slice().buffer;
  const view = new DataView(raw);
  const read = (k) => {
    if (!terms.sums) return view.getFloat64(8 * k, true);
    return terms.masked ? view.getBigUint64(8 * k, true) : view.getBigInt64(8 * k, true);
  };
  return Array.from({ length: raw.byteLength / 8 }, (_, k) => read(k));
}

/* A length that no honest release of rounds exceeds. */
function longestRelease({ study, plan, shape }) {
  const n = study.servers.length;
  const loss = lossOf(plan, study.K);
  const root = Math.sqrt(shape[0] * shape[1]);
  const least = Math.min(...study.menu);
  let slope = recordShift(least, loss, study.K) / 2;
  if (slope === Infinity) slope = labelShift(least, loss, study.K);
  slope += (numeric(plan.objective_bound) * root) / n;
  const scale = Math.max(...study.servers.map((_, i) => perServer(plan.noise_scale, i)));
  return 10 * ((n * slope) / numeric(plan.regularization) + 6 * scale * root);
}

const loudest = ({ plan, study }) => 10 * Math.max(...sumDeviations(plan, study.servers.length));

/* Whether so many people can have these sums, a server's or all servers'. */
function arePlausible(sums, terms, everySizes) {
  const { study, plan } = terms;
  let far = 0;
  let least = 0;
  let most = 0;
  for (const { records, low, high } of everySizes) {
    const counted = countedEpsilon(plan, high);
    const shifts = sumShifts(counted, lossOf(plan, study.K), study.K);
    far += records * Math.max(shifts.record / 2, shifts.square / Math.SQRT2, 1) + loudest(terms);
    least += records / reportWeight(Math.min(low, counted), study.K) ** 2;
    most += records / reportWeight(counted, study.K) ** 2;
  }
  const slack = UNIT * everySizes.length;
  const values = sums.map((unit) => Number(unit) * UNIT);
  const weight = values.at(-1);
  return (
    (1 - 1e-6) * least - slack <= weight &&
    weight <= (1 + 1e-6) * most + slack &&
    values.every((x) => Math.abs(x) <= (1 + 1e-6) * far + slack)
  );
}

/* Every check of one statement by itself. */
async function checkStatement(data, server, terms) {
  const { study, plan } = terms;
  const statement = await readStatement(data, server, study);
  const peers = neighboursOf(terms, server);
  const need = (condition, sentence) =>
    demand(condition, "statement", [server], `the statement of ${server} ${sentence}`);
  const most = mostBytes(terms.shape, plan.rounds, peers.length, study.servers.length);
  need(data.length <= most, "is longer than one of this job can be");
  const sameTerms = statement.terms === terms.digest && statement.job === terms.job;
  need(sameTerms && statement.study === study.hash, "is about other terms than this job's");
  need(samePlan(readPlan(statement.plan, study), plan), "has another plan");
  checkReceived(statement, terms, peers, need);
  checkClaims(statement, study, need);
  await checkRelease(statement, terms, need);
  try {
    await checkEvents(statement, terms, need);
  } catch (error) {
    throw new Refusal("statement", [server], error.message);
  }
  return statement;
}

function checkReceived(statement, terms, peers, need) {
  const { rounds } = terms.plan;
  need(sameList(statement.received.map(({ sender }) => sender), peers), "names other neighbours");
  need(statement.sent.length === 32 * rounds, "has another number of releases");
  const cap = terms.sums ? Infinity : longestRelease(terms);
  for (const other of statement.received) {
    need(other.digests.length === 32 * rounds, "received another number of releases");
    need(other.distances.length === (terms.sums ? 0 : rounds), "has another number of distances");
    need(other.distances.every((gap) => gap >= 0 && gap <= 2 * cap), "has an impossible distance");
  }
}

function checkClaims(statement, study, need) {
  const { records, epsilon, labelEpsilon } = statement;
  need(records >= 1 && records <= 1e8, "has an impossible number of records");
  const ordered = Math.min(...study.menu) <= epsilon && epsilon <= labelEpsilon;
  need(ordered && labelEpsilon < Infinity, "has an impossible epsilon");
  const who = ["devices", "elsewhere", "operator", ""];
  need(who.includes(statement.randomisedBy), "says nothing known of who randomised labels");
  need(["secure", "simulated"].includes(statement.source), "has an unknown source of noise");
  need(/^[0-9a-f]{64}$/.test(statement.dataset), "names no data set");
}

async function checkRelease(statement, terms, need) {
  const { release, sent, source } = statement;
  need(release.length === 8 * terms.shape[0] * terms.shape[1], "has a release of another length");
  const last = hex(sent.slice(-32));
  need((await sha256(release)) === last, "has another last release than it sent");
  const values = releaseOf(statement, terms);
  if (!terms.sums) {
    const length = Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
    need(values.every(Number.isFinite) && length <= longestRelease(terms), "has an impossible release");
    const onGrid = (x) => Number.isInteger(x * GRID) && Math.abs(x) <= 2 ** 13;
    need(source !== "secure" || values.every(onGrid), "has a release off the grid of its noise");
  } else if (!terms.masked) {
    const most = 2 ** 28 + loudest(terms);
    need(values.every((x) => Math.abs(Number(x)) * UNIT <= most), "has impossible sums");
    const sizes = [sizesOf(statement, terms.study)];
    need(arePlausible(values, terms, sizes), "has sums that so many people cannot have");
  }
}

async function checkEvents(statement, terms, need) {
  const { study, plan } = terms;
  const sizes = sizesOf(statement, study);
  const planned = plannedEvents(study, plan, sizes);
  need(sameEvents(statement.events, planned), "has not spent what its plan spends");
  const releases = earlierReleases(statement);
  need(releases >= 0 && releases <= 100_000, "has too many earlier releases");
  for (const job of statement.earlierJobs) {
    const before = await termsOf(study, job.plan, job.job);
    const digest = await termsDigest(study, before.plan, job.job, job.study);
    need(digest === job.terms, `has other terms of the earlier job ${job.job}`);
    need(job.rounds >= 1 && job.rounds <= before.plan.rounds, "has impossible earlier rounds");
    const spent = plannedEvents(study, { ...before.plan, rounds: job.rounds }, sizes);
    need(sameEvents(job.events, mergeRounds(spent)), `has not spent what ${job.job} spends`);
  }
  const names = [...statement.earlierJobs.map(({ job }) => job), terms.job];
  need(new Set(names).size === names.length, "names a job twice");
}

export {
  UNIT,
  arePlausible,
  checkStatement,
  earlierReleases,
  isSigned,
  largestStatement,
  readStatement,
  releaseOf,
};
