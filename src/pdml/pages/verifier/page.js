/* The page itself. The same script runs in a worker, so that long computations do not stop the
   page; where there is neither a page nor a worker, it does nothing. */

import { folderOf, pathsOfDrop, pathsOfInput } from "./folder.js";
import { summarise, unable } from "./summary.js";
import { canCheckSignatures, verifyResult } from "./verify.js";

async function check({ paths, agreed }, tell) {
  if (!(await canCheckSignatures())) return unable();
  return summarise(await verifyResult(folderOf(paths), { agreed, tell }));
}

function startWorker() {
  self.onmessage = async ({ data }) => {
    const tell = async (part) => self.postMessage({ part });
    try {
      self.postMessage({ summary: await check(data, tell) });
    } catch (error) {
      self.postMessage({ failure: String(error.message ?? error) });
    }
  };
}

function askWorker(question, tell) {
  const source = new Blob([document.querySelector("script").textContent]);
  const address = URL.createObjectURL(source);
  const policy = globalThis.trustedTypes?.createPolicy("verifier", { createScriptURL: (x) => x });
  askWorker.policy ??= policy;
  return new Promise((resolve, reject) => {
    const worker = new Worker(askWorker.policy?.createScriptURL(address) ?? address);
    const finish = (settle, value) => {
      worker.terminate();
      URL.revokeObjectURL(address);
      settle(value);
    };
    worker.onmessage = ({ data }) => {
      if (data.part) tell(data.part);
      else if (data.summary) finish(resolve, data.summary);
      else finish(reject, new Error(data.failure));
    };
    worker.onerror = (event) => finish(reject, new Error(event.message ?? "the check stopped"));
    worker.postMessage(question);
  });
}

const find = (selector) => document.querySelector(selector);

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.map((child) => child ?? ""));
  return made;
}

function show(id, visible) {
  find(id).hidden = !visible;
}

function list(id, sentences) {
  show(`${id}-part`, sentences.length);
  find(id).replaceChildren(...sentences.map((sentence) => element("li", {}, sentence)));
}

/* Columns are [title, text of a row, class]; the first one names the row. */
function table(id, columns, rows) {
  const heads = columns.map(([title, , kind]) => element("th", { scope: "col", class: kind ?? "" }, title));
  const lines = rows.map((row) =>
    element(
      "tr",
      {},
      ...columns.map(([title, text, kind], k) => {
        const attributes = { class: kind ?? "", "data-name": title };
        return k ? element("td", attributes, text(row)) : element("th", { scope: "row" }, text(row));
      }),
    ),
  );
  find(id).replaceChildren(
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...lines),
  );
}

const digits = (x) => Number(x.toPrecision(6)).toString();
const tiny = (x) => (x > 0 && x < 1e-3 ? x.toExponential() : String(x));
const percent = (x) => `${(100 * x).toFixed(1)}%`;
const count = (x) => x.toLocaleString("en");

function draw(summary) {
  show("#result", true);
  const verdict = find("#verdict");
  verdict.className = summary.state;
  verdict.textContent = summary.verdict;
  const drawn = summary.state !== "unable";
  list("#problems", (summary.problems ?? []).map(({ sentence }) => `${sentence}.`));
  list("#checked", summary.checked ?? []);
  list("#unchecked", summary.notChecked ?? []);
  show("#study-part", drawn && summary.study);
  show("#statements-part", drawn && summary.statements.length);
  show("#ledger-part", Boolean(summary.ledger));
  show("#model-part", Boolean(summary.model));
  if (drawn && summary.study) drawStudy(summary);
  if (drawn && summary.statements.length) drawStatements(summary);
  if (summary.ledger) drawLedger(summary.ledger);
  show("#simulated", summary.statements?.some(({ source }) => source === "simulated") ?? false);
  if (summary.model) drawModel(summary);
  verdict.focus();
}

function drawStudy({ study, job, method }) {
  find("#study-title").textContent = study.title;
  find("#study-hash").textContent = study.hash;
  const ways = { sums: "one exchange of sums", rounds: "rounds" };
  find("#study-job").textContent = job ? `Job ${job}, by ${ways[method]}.` : "";
}

function drawStatements({ statements, total }) {
  const columns = [
    ["Organisation", (row) => row.server],
    ["Records", (row) => count(row.records), "number"],
    ["Label epsilon", (row) => row.epsilon],
    ["Randomised by", (row) => row.randomisedBy],
    ["Noise", (row) => row.source],
    ["Earlier jobs", (row) => row.earlier],
    ["Release, SHA-256", (row) => element("code", {}, `${row.release}…`)],
  ];
  if (total && !total.masked) columns.push(["Weight V", (row) => digits(row.weight), "number"]);
  table("#statements", columns, statements);
  const kind = total?.masked ? "masked rows" : "rows";
  find("#total").textContent = total
    ? `Total: ${statements.length} ${kind} of ${count(total.numbers)} numbers each, added modulo ` +
      `2^64, give V = ${digits(total.weight)}.`
    : "";
}

function drawLedger(rows) {
  const columns = [
    ["What", (row) => row.data],
    ["Against", (row) => row.against],
    ["Epsilon", (row) => (row.epsilon === Infinity ? "no protection" : digits(row.epsilon)), "number"],
    ["Delta", (row) => tiny(row.delta), "number"],
    ["Sure at most", (row) => percent(row.certainty), "number"],
    ["Why", (row) => row.reason],
  ];
  table("#ledger", columns, rows);
}

function drawModel({ model, expected }) {
  const columns = model.heads.map((head, k) => [head, (row) => digits(row.values[k]), "number"]);
  table("#model", [["Feature", (row) => row.name], ...columns], model.rows);
  const parts = [];
  if (model.more) parts.push(`${count(model.more)} more rows were compared and are not shown.`);
  if (expected) {
    const { low, middle, high } = expected;
    const range = `${percent(low)} to ${percent(high)}`;
    parts.push(`Expected accuracy: ${percent(middle)}, 80% interval ${range}.`);
  }
  find("#model-note").textContent = parts.join(" ");
}

let latest = 0; // a later drop replaces an earlier one that is still being checked

async function begin(paths) {
  const number = (latest += 1);
  const status = find("#status");
  const agreed = find("#agreed").value.trim().toLowerCase();
  show("#result", false);
  if (!paths.length) {
    status.textContent = "There is no file in it.";
    return;
  }
  if (agreed && !/^[0-9a-f]{64}$/.test(agreed)) {
    status.textContent = "The hash of a study has 64 hexadecimal digits.";
    return;
  }
  const tell = (part) => {
    if (number === latest) status.textContent = `Checking ${part} …`;
  };
  tell("the files");
  try {
    const summary = await askWorker({ paths, agreed }, tell);
    if (number !== latest) return;
    status.textContent = "";
    draw(summary);
  } catch (error) {
    if (number === latest) status.textContent = `The check stopped, nothing is verified: ${error.message}`;
  }
}

function startPage() {
  const drop = find("#drop");
  for (const id of ["#folder", "#files"]) {
    find(id).addEventListener("change", ({ target }) => {
      const paths = pathsOfInput(target.files);
      target.value = ""; // the same folder may be chosen again
      begin(paths);
    });
  }
  const over = (event, inside) => {
    event.preventDefault();
    drop.classList.toggle("over", inside);
  };
  document.addEventListener("dragover", (event) => over(event, true));
  document.addEventListener("dragleave", (event) => over(event, false));
  document.addEventListener("drop", async (event) => {
    over(event, false);
    try {
      begin(await pathsOfDrop(event.dataTransfer.items));
    } catch (error) {
      const why = "This browser does not open what was dropped. Choose the folder with the button";
      find("#status").textContent = `${why}: ${error.message}`;
    }
  });
  canCheckSignatures().then((able) => {
    if (!able) draw(unable());
  });
}

if (typeof document !== "undefined") startPage();
else if (typeof WorkerGlobalScope !== "undefined") startWorker();

export { check };
