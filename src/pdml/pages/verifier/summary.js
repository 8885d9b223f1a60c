/* What a person reads of a verification: sentences and tables, as plain values. */

import { numeric, sha256 } from "./bytes.js";
import { OTHERS, OWN, TOGETHER } from "./ledger.js";
import { earlierReleases, releaseOf, UNIT } from "./statement.js";

const UNABLE =
  "This browser cannot check Ed25519 signatures here, so nothing was checked: open this page as a " +
  "file in a newer browser, or use pdml verify.";
const RANDOMISED_BY = {
  devices: "devices",
  elsewhere: "devices, as it declares",
  operator: "the organisation itself",
  "": "nobody recorded it",
};
const WHOM = {
  [OWN]: "the collecting organisation",
  [OTHERS]: "all other servers together",
  [TOGETHER]: "all servers together",
};
const MOST_LISTED = 20; // problems that are shown
const MOST_SHOWN = 400; // coefficients that are shown

const unable = () => ({ state: "unable", verdict: UNABLE });

async function summarise(report) {
  const { problems, near, study, terms } = report;
  const summary = {
    state: problems.length ? "refused" : near.length ? "near" : "accepted",
    verdict: verdictOf(report),
    problems: problems.slice(0, MOST_LISTED).map(({ kind, message }) => ({ kind, sentence: message })),
    more: Math.max(0, problems.length - MOST_LISTED),
    kinds: [...new Set(problems.map(({ kind }) => kind))].sort(),
    near,
    checked: problems.length ? [] : checkedOf(report),
    notChecked: problems.length ? [] : notCheckedOf(report),
    study: study && { id: study.id, title: study.title, hash: study.hash, agreed: report.agreed },
    job: terms?.job ?? "",
    method: terms ? (terms.sums ? "sums" : "rounds") : "",
    statements: await Promise.all(report.statements.map((one) => statementRow(one, terms))),
    total: totalOfRows(report),
  };
  if (!problems.length) {
    summary.ledger = ledgerRows(report.model.privacy);
    summary.model = modelRows(report.model);
    summary.expected = expectedRow(report.model.expected);
  }
  return summary;
}

function verdictOf({ problems, near, terms }) {
  if (problems.length) {
    const [first] = problems;
    const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
    return `Refused: ${first.message}${more}.`;
  }
  if (near.length) {
    return (
      "Neither accepted nor refused: the last digits of model.json are not those that this " +
      "browser computes. Another machine's rounding does that, and so could somebody who " +
      "changed them."
    );
  }
  const all = terms.study.servers;
  const names = `${all.slice(0, -1).join(", ")} and ${all.at(-1)}`;
  return `Accepted: model.json follows from what ${names} signed. report.html was not checked.`;
}

/* The sentences of pdml verify, and what this page has added up. */
function checkedOf({ terms, near, agreed }) {
  const digits = near.length ? " but for last digits" : " to the byte";
  return [
    "study.toml is one study, in the one spelling that a result has" +
      (agreed ? ", and the one that you agreed on." : "."),
    "statements/ holds a statement of every server, signed by the key that the study pins for it.",
    "What each server says it sent is what the others say they heard.",
    "What each server says it spent is the plan's for the records it states, over all jobs it " +
      "states, within the study's budget.",
    terms.sums
      ? "The rows of all statements add up to the total that the model is computed from."
      : "The model is the average of the last releases in the statements.",
    `model.json is what the statements give, compared${digits}: weights, expected accuracy, ` +
      "privacy figures, all of it.",
    "There is no other file, and no evidence/ against anybody.",
  ];
}

function notCheckedOf({ terms, near, agreed }) {
  const sentences = [];
  if (!agreed) {
    sentences.push("whether study.toml is the study you agreed on: compare its hash.");
  }
  if (near.length) {
    sentences.push(
      "the last digits of model.json: numbers differ from what this browser computes by no more " +
        "than rounding can explain.",
    );
  }
  sentences.push(
    "report.html: only pdml verify can draw it again. Do not rely on it.",
    terms.sums
      ? "how each server computed its sums from its records."
      : "how each server computed its releases from its records. Of rounds before the last the " +
          "folder holds digests alone.",
    "what each server claims of itself: how many records it has and whose, who randomised them, " +
      "that it drew its noise, and that it left out no job.",
    "links and empty folders: a browser does not always show them.",
  );
  return sentences;
}

async function statementRow(statement, terms) {
  const { server, records, epsilon, labelEpsilon, randomisedBy, source, earlierJobs } = statement;
  const row = releaseOf(statement, terms);
  return {
    server,
    records,
    epsilon: epsilon === labelEpsilon ? String(epsilon) : `${epsilon} to ${labelEpsilon}`,
    randomisedBy: RANDOMISED_BY[randomisedBy],
    source,
    earlier: earlierJobs.length ? `${earlierJobs.length} (${earlierReleases(statement)} releases)` : "none",
    release: (await sha256(statement.release)).slice(0, 12),
    weight: terms.sums && !terms.masked ? Number(row.at(-1)) * UNIT : null,
  };
}

function totalOfRows({ total, terms }) {
  if (!total) return null;
  return {
    numbers: total.length,
    masked: terms.masked,
    weight: Number(total.at(-1)) * UNIT,
  };
}

function ledgerRows({ rows, coalitions }) {
  return [...rows, ...(coalitions ?? [])].map((row) => ({
    data: row.data,
    against: row.colluding ? `any ${row.colluding} of the other servers` : WHOM[row.adversary],
    epsilon: row.epsilon === "inf" ? Infinity : numeric(row.epsilon),
    delta: numeric(row.delta),
    certainty: numeric(row.certainty),
    reason: row.reason,
  }));
}

function modelRows({ classes, coefficients, intercepts, feature_names: names }) {
  const heads = coefficients.length > 1 ? classes.map(String) : ["coefficient"];
  const rows = names.map((name, k) => ({ name, values: coefficients.map((row) => numeric(row[k])) }));
  rows.push({ name: "intercept", values: intercepts.map(numeric) });
  const shown = Math.max(1, Math.floor(MOST_SHOWN / heads.length));
  return { heads, rows: rows.slice(0, shown), more: Math.max(0, rows.length - shown) };
}

function expectedRow(expected) {
  if (!expected) return null;
  const { low, middle, high } = expected.accuracy;
  return { low: numeric(low), middle: numeric(middle), high: numeric(high) };
}

export { summarise, unable };
