/* All checks of a result's folder, in their order ("All together"). */

import {
  Double,
  Refusal,
  demand,
  indentedJson,
  numeric,
  readJson,
  readUtf8,
  sameBytes,
  sha256,
  utf8,
} from "./bytes.js";
import { checkEvidence, compareStatements, totalOf } from "./comparison.js";
import { expectedOf } from "./expected.js";
import { isBudgetKept, privacyOf } from "./ledger.js";
import { fitMoments, gridOf, momentsOf, onGrid } from "./moments.js";
import { settingsOf, termsOfStatement } from "./plan.js";
import { checkStatement, earlierReleases, isSigned, largestStatement, readStatement, releaseOf } from "./statement.js";
import { readStudy } from "./study.js";

const LONGEST_STUDY = 2 ** 22;
const LONGEST_EVIDENCE = 2 ** 20;
const LONGEST_PAGE = 2 ** 24;
const LONGER = 1024; // bytes by which another model.json is read all the same
const MOST_CLASSES_EXPECTED = 50;
const SEEN = "every server's own sums are seen, each with all of the noise";
const MASKED = "masked by each pair of servers, so that nothing but the total of all sums can be read";

/* A published signature (RFC 8032, 7.1): whether this browser can check any, and refuses others. */
async function canCheckSignatures() {
  if (!globalThis.crypto?.subtle) return false;
  const key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
  const signature =
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac" +
    "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
  const bytes = Uint8Array.from(signature.match(/../g), (pair) => parseInt(pair, 16));
  try {
    const good = await isSigned(key, new Uint8Array(), bytes);
    bytes[0] ^= 1;
    return good && !(await isSigned(key, new Uint8Array(), bytes));
  } catch {
    return false;
  }
}

/* A folder is `names`, all paths in it, and `read(path)`: its size and a promise of its bytes, null
   where no ordinary file is. `tell` hears what is being checked. */
async function verifyResult({ names, read }, { agreed = "", tell = async () => {} } = {}) {
  const report = { problems: [], near: [], checked: {}, statements: [], agreed: Boolean(agreed) };
  const keep = async (check) => {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      report.problems.push(error);
      return null;
    }
  };
  const file = async (path, most, kind = "file") => {
    const found = read(path);
    demand(found, kind, [], `${path} is missing`);
    demand(found.size <= most, kind, [], `${path} has more bytes than it can have`);
    return new Uint8Array(await found.bytes());
  };

  await tell("the study");
  const study = await keep(async () => readStudy(await file("study.toml", LONGEST_STUDY), agreed));
  if (!study) return report;
  report.study = study;
  checkNames(names, study, report.problems);

  await tell("signatures and statements");
  const files = new Map();
  for (const name of study.servers) {
    const path = `statements/${name}.statement`;
    const data = await keep(() => file(path, largestStatement(study, name)));
    if (data) files.set(name, data);
  }
  const { terms, unreadable } = await firstTerms(study, files);
  report.terms = terms;
  const statements = new Map();
  if (!terms) report.problems.push(...unreadable);
  for (const [name, data] of terms ? files : []) {
    const statement = await keep(() => checkStatement(data, name, terms));
    if (statement) statements.set(name, statement);
  }
  report.statements = [...statements.values()];

  const guilty = [];
  for (const name of study.servers) {
    const path = `evidence/${name}.evidence`;
    if (!names.includes(path)) continue;
    await keep(async () => {
      const data = await file(path, LONGEST_EVIDENCE + 2 * largestStatement(study, name));
      await checkEvidence(data, name, study, terms?.digest ?? "", statements);
      guilty.push(name);
      throw new Refusal("equivocation", [name], `${name} signed two different things`);
    });
  }
  if (!terms) return report;
  report.problems.push(...compareStatements(terms, statements, guilty));
  if (statements.size < study.servers.length) return report;

  await tell("the budget and the ledger");
  if (!isBudgetKept(terms, statements)) {
    report.problems.push(new Refusal("budget", [], "a data set has spent more than the study allows"));
  }
  if (report.problems.length) return report;
  report.total = terms.sums ? totalOf(terms, statements) : null;
  const expected = await modelOf(terms, statements, files, report.total, tell);
  report.model = expected;
  await tell("model.json");
  const spelling = utf8(indentedJson(expected));
  const most = spelling.length * (terms.sums ? 2 : 1) + LONGER;
  const model = await keep(() => file("model.json", most, "model"));
  const verdict = model && compareModel(model, spelling, expected);
  if (verdict === "near") report.near.push("model.json");
  if (verdict === "wrong") {
    report.problems.push(new Refusal("model", [], "model.json is not what the statements give"));
  }
  await keep(() => file("report.html", LONGEST_PAGE, "page"));
  return report;
}

function checkNames(names, study, problems) {
  const expected = new Set(["study.toml", "model.json", "report.html", "statements", "evidence"]);
  for (const name of study.servers) {
    expected.add(`statements/${name}.statement`);
    expected.add(`evidence/${name}.evidence`);
  }
  for (const name of [...new Set(names)].sort()) {
    if (!expected.has(name)) problems.push(new Refusal("file", [], `${name} is no part of a result`));
  }
  if (names.includes("evidence") && !names.some((name) => name.startsWith("evidence/"))) {
    problems.push(new Refusal("evidence", [], "evidence/ is empty"));
  }
}

/* The terms of the first statement, in the study's order, that is signed and gives any. */
async function firstTerms(study, files) {
  const unreadable = [];
  for (const [name, data] of files) {
    try {
      const statement = await readStatement(data, name, study);
      return { terms: await termsOfStatement(study, statement), unreadable };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      unreadable.push(error);
    }
  }
  return { terms: null, unreadable };
}

/* Every field of model.json. */
async function modelOf(terms, statements, files, units, tell) {
  const { study, plan, sums } = terms;
  const list = [...statements.values()];
  await tell("the ledger");
  const privacy = privacyOf(terms, statements);
  await tell("the model");
  let weights = sums ? null : averageOf(terms, list);
  let expected = null;
  if (sums) {
    const moments = momentsOf(terms, units);
    const model = fitMoments(moments);
    if (study.K <= MOST_CLASSES_EXPECTED) {
      await tell("what the model expects of itself");
      expected = expectedOf(moments, model);
    }
    weights = onGrid(model.weights);
  }
  const doubles = (row) => Array.from(row, (x) => new Double(x));
  const digests = {};
  for (const name of study.servers) digests[name] = await sha256(files.get(name));
  return {
    format: "pdml-model/1",
    classes: study.classes,
    coefficients: weights.map((row) => doubles(row.slice(0, -1))),
    intercepts: doubles(weights.map((row) => row.at(-1))),
    norm_bound: new Double(1),
    fit_intercept: true,
    feature_names: study.features,
    label: null,
    encoder: study.encoder,
    plan: settingsOf(plan),
    privacy,
    provenance: {
      parties: "each organisation's node held its own records",
      study: study.id,
      study_hash: study.hash,
      job: terms.job,
      terms: terms.digest,
      servers: study.servers,
      labels_randomised_by: list.map(({ randomisedBy }) => randomisedBy),
      earlier_releases: list.map(earlierReleases),
      records_per_server: list.map(({ records }) => records),
      ...(sums ? { sums: terms.masked ? MASKED : SEEN } : { links: study.edges }),
      noise_source: list[0].source,
      leaks: [],
      result: "pdml-result/1",
      statements: digests,
    },
    expected,
    local: "",
  };
}

/* The average of the last releases, added in the study's order: to the bit. */
function averageOf(terms, list) {
  const [rows, columns] = terms.shape;
  const releases = list.map((statement) => releaseOf(statement, terms));
  const average = releases[0].map((first, k) => {
    const sum = releases.slice(1).reduce((all, release) => all + release[k], first);
    return sum / terms.study.servers.length;
  });
  return Array.from({ length: rows }, (_, c) => average.slice(c * columns, (c + 1) * columns));
}

/* "equal", "near" or "wrong". */
function compareModel(bytes, spelling, expected) {
  if (sameBytes(bytes, spelling)) return "equal";
  let fields;
  try {
    fields = readJson(readUtf8(bytes));
  } catch {
    return "wrong";
  }
  if (!sameBytes(utf8(indentedJson(fields)), bytes)) return "wrong";
  const steps = { epsilon: 4e-9, certainty: 2e-9 };
  if (expected.plan.method === "sums") {
    const weights = [...expected.coefficients.flat(), ...expected.intercepts].map(numeric);
    Object.assign(steps, { coefficients: gridOf(weights), intercepts: gridOf(weights), expected: 1e-4 });
  }
  return isNear(fields, expected, steps, 0) ? "near" : "wrong";
}

function isNear(a, b, steps, step) {
  if (b instanceof Double) {
    return a instanceof Double && (Object.is(a.value, b.value) || isStepAway(a.value, b.value, step));
  }
  if (Array.isArray(b)) {
    return Array.isArray(a) && a.length === b.length && b.every((x, k) => isNear(a[k], x, steps, step));
  }
  if (b === null || typeof b !== "object") return a === b;
  if (a === null || typeof a !== "object" || a instanceof Double || Array.isArray(a)) return false;
  const keys = Object.keys(b);
  return (
    Object.keys(a).join("\n") === keys.join("\n") &&
    keys.every((key) => isNear(a[key], b[key], steps, Object.hasOwn(steps, key) ? steps[key] : step))
  );
}

function isStepAway(a, b, step) {
  if (!step) return false;
  const far = Math.abs(a - b);
  if (step < 1e-8) return far <= step * Math.max(1, Math.abs(b)); // epsilon and certainty
  return Math.abs(far - step) <= 1e-6 * Math.max(far, step);
}

export { canCheckSignatures, verifyResult };
