/* Statements against each other, their total, and evidence against a server. */

import {
  Refusal,
  concatenate,
  demand,
  hex,
  isInteger,
  mark,
  sameBytes,
  startsWith,
} from "./bytes.js";
import { isClose, sizesOf } from "./events.js";
import { pack, unpack } from "./messagepack.js";
import { readPlan, samePlan } from "./plan.js";
import { arePlausible, earlierReleases, isSigned, readStatement, releaseOf } from "./statement.js";

/* All problems between statements that have passed; `guilty`: equivocation is proved of them. */
function compareStatements(terms, statements, guilty) {
  const { study } = terms;
  const problems = [];
  const problem = (kind, servers, sentence) => problems.push(new Refusal(kind, servers, sentence));
  for (const [receiver, statement] of statements) {
    for (const { sender, digests } of statement.received) {
      const other = statements.get(sender);
      if (other && !guilty.includes(sender) && !sameBytes(other.sent, digests)) {
        problem("mismatch", [receiver, sender], `${receiver} and ${sender} differ about what ${sender} sent`);
      }
    }
    checkAgainstStudy(statement, study, problem);
  }
  checkSources(statements, problem);
  const pairs = terms.sums ? everyPair(study.servers.length) : study.edges;
  for (const [i, k] of pairs) {
    const [a, b] = [statements.get(study.servers[i]), statements.get(study.servers[k])];
    if (a && b) compareNeighbours(a, b, problem);
  }
  compareEarlierJobs(statements, problem);
  if (terms.masked && statements.size === study.servers.length) {
    const sizes = [...statements.values()].map((statement) => sizesOf(statement, study));
    if (!arePlausible(totalOf(terms, statements), terms, sizes)) {
      problem("total", [], "so many people cannot have this total of masked sums");
    }
  }
  return problems;
}

function checkAgainstStudy(statement, study, problem) {
  const { server, records, epsilon, labelEpsilon, earlierJobs } = statement;
  if (records < study.minRecords) {
    problem("statement", [server], `${server} has fewer than ${study.minRecords} records`);
  }
  for (const one of new Set([epsilon, labelEpsilon])) {
    if (!study.menu.includes(one)) problem("statement", [server], `${server} states an epsilon that is not on the menu`);
  }
  if (!study.plan) return;
  for (const { plan, job } of earlierJobs) {
    if (!samePlan(readPlan(plan, study), readPlan(study.plan, study))) {
      problem("statement", [server], `the earlier job ${job} of ${server} has another plan than the study`);
    }
  }
}

function checkSources(statements, problem) {
  const camps = new Map();
  for (const { source, server } of statements.values()) {
    camps.set(source, [...(camps.get(source) ?? []), server]);
  }
  if (camps.size < 2) return;
  const [smaller] = [...camps.values()].sort((a, b) => a.length - b.length);
  problem("statement", smaller, `${smaller.join(", ")} drew noise from another source than the others`);
}

const everyPair = (n) =>
  Array.from({ length: n }, (_, i) => i).flatMap((i) =>
    Array.from({ length: n - i - 1 }, (_, k) => [i, i + k + 1]),
  );

function compareNeighbours(a, b, problem) {
  const about = (statement, sender) =>
    statement.received.find((other) => other.sender === sender.server);
  for (const [sender, receiver] of [[a, b], [b, a]]) {
    const other = about(receiver, sender);
    if (other.dataset !== sender.dataset || other.earlierReleases > earlierReleases(sender)) {
      problem(
        "statement",
        [sender.server, receiver.server],
        `${receiver.server} knows another data set of ${sender.server} than ${sender.server} states`,
      );
    }
  }
  const [first, second] = [about(a, b), about(b, a)];
  const sameVectors = sameBytes(first.digests, b.sent) && sameBytes(second.digests, a.sent);
  const agree = first.distances.every((x, t) => isClose(x, second.distances[t], 1e-9, 1e-300));
  if (sameVectors && !agree) {
    problem("statement", [b.server, a.server], `${b.server} and ${a.server} measured other distances`);
  }
}

function compareEarlierJobs(statements, problem) {
  const known = new Map();
  for (const [name, { earlierJobs }] of statements) {
    for (const { job, terms } of earlierJobs) {
      if (!known.has(job)) known.set(job, { name, terms });
      const other = known.get(job);
      if (other.terms !== terms) {
        problem("statement", [other.name, name], `${other.name} and ${name} state other terms of ${job}`);
      }
    }
  }
}

/* All rows added up modulo 2^64: masks cancel to the last bit. */
function totalOf(terms, statements) {
  const rows = [...statements.values()].map((statement) => releaseOf(statement, terms));
  return rows[0].map((_, k) => BigInt.asIntN(64, rows.reduce((sum, row) => sum + row[k], 0n)));
}

const EVIDENCE_MARK = mark("evidence");
const MESSAGE_MARK = mark("training message");
const DIGEST_FIELDS = ["type", "version", "terms", "round", "sender", "recipient", "digest", "signature"];

/* Refused unless it proves equivocation of `name`. `digest` is of this job's terms, if there is one. */
async function checkEvidence(data, name, study, digest, statements) {
  const need = (condition) =>
    demand(condition, "evidence", [name], `evidence/${name}.evidence proves nothing against ${name}`);
  need(startsWith(data, EVIDENCE_MARK));
  try {
    await proveEquivocation(readEvidence(data, need), name, study, digest, statements, need);
  } catch {
    need(false);
  }
}

function readEvidence(data, need) {
  const values = unpack(data.slice(EVIDENCE_MARK.length));
  need(values instanceof Map && [...values.keys()].join() === "digests,statements");
  const [digests, statements] = [values.get("digests"), values.get("statements")];
  need(Array.isArray(digests) && Array.isArray(statements));
  need(sameBytes(concatenate(EVIDENCE_MARK, pack(values)), data));
  need(digests.length <= 16 && statements.length <= 2);
  need(statements.every((one) => one instanceof Uint8Array));
  for (const one of digests) {
    need(one instanceof Map && [...one.keys()].join() === DIGEST_FIELDS.join());
    need(one.get("type") === "digest" && one.get("signature") instanceof Uint8Array);
    need(["version", "round"].every((key) => isInteger(one.get(key))));
    need(["terms", "sender", "recipient", "digest"].every((key) => typeof one.get(key) === "string"));
  }
  return { digests, statements };
}

async function proveEquivocation({ digests, statements }, name, study, digest, passed, need) {
  if (!digests.length) {
    need(statements.length === 2 && !sameBytes(...statements));
    const [one, other] = await Promise.all(statements.map((data) => readStatement(data, name, study)));
    need(one.terms === other.terms && (!digest || digest === one.terms));
    return;
  }
  need(statements.length < 2);
  const [first] = digests;
  const [terms, sender, round] = ["terms", "sender", "round"].map((key) => first.get(key));
  const about = (one) =>
    one.get("terms") === terms && one.get("sender") === sender && one.get("round") === round;
  need(digests.every(about) && sender === name);
  let sent = passed.get(name)?.sent;
  let job = digest;
  if (statements.length) {
    const statement = await readStatement(statements[0], name, study);
    need(statement.terms === terms);
    job ||= statement.terms;
    sent = statement.sent;
  }
  need(!job || job === terms);
  for (const one of digests) {
    need(one.get("version") === 1);
    const unsigned = new Map(one).set("signature", new Uint8Array());
    const message = concatenate(MESSAGE_MARK, pack(unsigned));
    need(await isSigned(study.keys.get(name), message, one.get("signature")));
  }
  const claims = new Set(digests.map((one) => one.get("digest")));
  if (sent && job && round >= 1 && round <= sent.length / 32) {
    claims.add(hex(sent.slice(32 * (round - 1), 32 * round)));
  }
  need(claims.size > 1);
}

export { checkEvidence, compareStatements, totalOf };
