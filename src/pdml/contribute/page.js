"use strict";
/* The contributor's page. Everything that happens to an answer before it leaves this device is in this file:
   1 chance, 2 encoding, 3 the report, 4 what this device remembers, 5 the form, 6 sending.
   The Python package does the same to the bit; shared test vectors hold both to it. */

// 1 Chance: exact integers, never a pseudo-random generator, never a comparison of floats.

const WORD = 1n << 64n;
const randomWord = () => crypto.getRandomValues(new BigUint64Array(1))[0];

/* P = ceil(2^64 (K-1)/(e^ε + K-1)), ε in millionths; e^ε = Σ ε^j/j! in units of 2^-256. */
function threshold(micro, classes) {
  const unit = 1n << 256n, others = BigInt(classes - 1);
  let odds = 0n;
  for (let term = unit, j = 1n; term > 0n; j++) {
    odds += term;
    term = (term * BigInt(micro)) / (1000000n * j);
  }
  const all = odds + others * unit;
  return (others * unit * WORD + all - 1n) / all;
}

/* Another class, each equally likely: words that would favour some are drawn again. */
function otherClass(label, classes, word) {
  const others = BigInt(classes - 1), top = WORD - (WORD % others);
  let drawn = word();
  while (drawn >= top) drawn = word();
  return (label + 1 + Number(drawn % others)) % classes;
}

function randomise(label, micro, classes, word = randomWord) {
  return word() < threshold(micro, classes) ? otherClass(label, classes, word) : label;
}

// 2 Encoding: declared ranges to [0, 1], one-hot levels, a constant 1, the whole scaled to a norm just below 1, as float32.

function encode(attributes, answers) {
  const entries = [];
  for (const attribute of attributes) {
    const answer = answers[attribute.name];
    if (attribute.kind === "number") {
      const [low, high] = attribute.range;
      entries.push((Math.min(Math.max(answer, low), high) - low) / (high - low) + 0); // + 0 turns -0 into 0
    } else {
      for (const level of attribute.levels) entries.push(level === answer ? 1 : 0);
    }
  }
  entries.push(1);
  let squares = 0; // summed from left to right, as in Python
  for (const entry of entries) squares += entry * entry;
  const factor = (1 - 2 ** -20) / Math.sqrt(squares);
  return Float32Array.from(entries, (entry) => entry * factor);
}

/* The answers behind a report's features: what a reader of the report sees. */
function decode(attributes, features) {
  const constant = features[features.length - 1], answers = Object.create(null); // any name, even __proto__
  let start = 0;
  for (const attribute of attributes) {
    if (attribute.kind === "number") {
      const [low, high] = attribute.range;
      const value = low + (features[start++] / constant) * (high - low);
      const digits = 5 - Math.floor(Math.log10(high - low)); // of six digits of the range: float32 carries no more
      const rounded = digits < 0 ? Math.round(value / 10 ** -digits) * 10 ** -digits : Number(value.toFixed(Math.min(digits, 100)));
      answers[attribute.name] = Math.min(Math.max(rounded, low), high);
    } else {
      answers[attribute.name] = attribute.levels.find((_, i) => features[start + i] > 0);
      start += attribute.levels.length;
    }
  }
  return answers;
}

/* base64 of little-endian float32. */
function pack(features) {
  const view = new DataView(new ArrayBuffer(4 * features.length));
  features.forEach((entry, i) => view.setFloat32(4 * i, entry, true));
  return btoa(Array.from(new Uint8Array(view.buffer), (byte) => String.fromCharCode(byte)).join(""));
}

function unpack(text) {
  const view = new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  return Float32Array.from({ length: view.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

// 3 The report: these fields, in this order, and nothing else.

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async (text) => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));

function reportText(hash, memo, label, features, token) {
  return JSON.stringify({
    version: 1, study: hash, id: memo.id, epsilon: memo.epsilon, label: memo.reported[label], features: pack(features), token,
  });
}

// 4 What this device remembers of a study, so that chance decides once. One of
//   {id, epsilon, reported, token}         drawn: what would be reported for EACH possible answer, so that memory does not hold the true one
//   {id, epsilon, reported, token, sent}   a report left and no clear answer came: only these bytes may leave from now on
//   {sent, receipt}                        stored by the server: the draws are forgotten

const memory = (() => {
  const kept = new Map(); // what the browser would not store: only until the page is closed
  let store = null;
  try {
    store = localStorage;
    store.getItem("pdml");
  } catch {
    store = null;
  }
  const getItem = (key) => kept.get(key) ?? store?.getItem(key) ?? null;
  const removeItem = (key) => (kept.delete(key), store?.removeItem(key));
  const setItem = (key, text) => {
    kept.set(key, text);
    if (!store) return;
    try {
      store.setItem(key, text);
      kept.delete(key);
    } catch {} // full: what it holds already can still be read
  };
  setItem("pdml", "1");
  const full = kept.has("pdml");
  removeItem("pdml");
  return { getItem, setItem, removeItem, forgets: (key) => kept.has(key) || (full && getItem(key) === null) };
})();

function recall(hash) {
  try {
    return JSON.parse(memory.getItem(`pdml ${hash}`));
  } catch {
    return null;
  }
}

function remember(hash, memo) {
  memory.setItem(`pdml ${hash}`, JSON.stringify(memo));
  return memo;
}

/* The draws for this study: made once, kept before anybody sees them. */
function draws(hash, micro, classes) {
  const reported = () => Array.from({ length: classes }, (_, label) => randomise(label, micro, classes));
  return recall(hash) ?? remember(hash, { id: hex(crypto.getRandomValues(new Uint8Array(16))), epsilon: micro, reported: reported() });
}

/* An invitation comes in the address's fragment, which no server sees, and leaves the address bar at once. */
function invitation(hash) {
  const given = /^#t=([0-9a-f]{32})$/.exec(location.hash);
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  if (given) memory.setItem(`pdml ${hash} invitation`, given[1]);
  return given ? given[1] : memory.getItem(`pdml ${hash} invitation`) ?? "";
}

// 5 The form, made from the study.

const at = (id) => document.getElementById(id);

/* make("p", {id: "x"}, "text", child, ...): text is always text. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children);
  return element;
}

function say(id, text) {
  at(id).hidden = !text;
  at(id).textContent = text;
}

/* One question: a text field for numbers, radio buttons for few levels, a list for many.
   read() gives the answer, or undefined after telling why there is none. */
function field(name, words, hint, kind, levels, parse) {
  const described = { "aria-describedby": `${name}-hint` };
  const note = make("p", { class: "hint", id: `${name}-hint` }, hint);
  let box, first, value;
  if (kind === "radio") {
    const radio = (i) => make("input", { type: "radio", name, value: i });
    const choices = levels.map((level, i) => make("label", { class: "choice" }, radio(i), make("span", {}, level)));
    box = make("fieldset", { class: "field", ...described }, make("legend", {}, words), note, ...choices);
    first = box.querySelector("input");
    value = () => box.querySelector(":checked")?.value ?? "";
  } else {
    const options = levels?.map((level, i) => make("option", { value: i }, level));
    first = options
      ? make("select", { id: name, ...described }, make("option", { value: "" }, "Choose …"), ...options)
      : make("input", { type: "text", class: "short", id: name, inputmode: kind, spellcheck: "false", ...described });
    box = make("div", { class: "field" }, make("label", { for: name }, words), note, first);
    value = () => first.value.trim();
  }
  const read = () => {
    const [answer, mistake] = parse(value());
    box.classList.toggle("wrong", Boolean(mistake));
    note.textContent = mistake || hint;
    for (const input of box.querySelectorAll("input, select")) {
      if (mistake) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    return mistake ? undefined : answer;
  };
  return { box, first, read };
}

function choiceField(name, words, hint, levels, short) {
  const parse = (text) => (text === "" ? [undefined, "Please choose one."] : [Number(text), ""]);
  return field(name, words, hint, levels.length <= short ? "radio" : "list", levels, parse);
}

function numberField(name, words, help, [low, high]) {
  const range = `a number from ${low} to ${high}`;
  const parse = (text) => {
    if (text === "") return [undefined, `Please enter ${range}.`];
    const number = /^[-+]?(\d+([.,]\d*)?|[.,]\d+)$/.test(text) ? Number(text.replace(",", ".")) : NaN;
    if (Number.isNaN(number)) return [undefined, `Please enter ${range}, in digits.`];
    if (number < low || number > high) return [undefined, `Please enter ${range}: the study declares no other value.`];
    return [number, ""];
  };
  return field(name, words, `${help ? help + " " : ""}From ${low} to ${high}.`, low < 0 ? "text" : "decimal", null, parse);
}

/* 73.1%, and never 100%. */
function percent(part, whole) {
  const tenths = (2000n * part + whole) / (2n * whole);
  return tenths >= 1000n ? "over 99.9%" : `${tenths / 10n}.${tenths % 10n}%`;
}

/* What one ε of the menu means, in words. */
function meaning(micro, classes) {
  const flip = threshold(micro, classes.length), kept = percent(WORD - flip, WORD);
  if (classes.length === 2) {
    const [no, yes] = classes;
    return (
      `If your answer is “${yes}”, the server sees “${yes}” with ${kept} and “${no}” with ${percent(flip, WORD)}. ` +
      "The same holds the other way round: it can never be sure."
    );
  }
  const others = BigInt(classes.length - 1), each = percent(flip, WORD * others);
  return `The server sees your true answer with ${kept} and each of the ${others} others with ${each}: it can never be sure.`;
}

function levelName(position, levels) {
  if (levels === 1) return "Fixed by the study";
  if (position === 0) return "Most private";
  if (position === levels - 1) return "Most useful to the study";
  return levels === 3 ? "In between" : `Level ${position + 1} of ${levels}`;
}

function menuChoice(micro, position, menu, chosen, classes) {
  const name = levelName(position, menu.length);
  const flip = Number((1000n * threshold(micro, classes.length)) / WORD) / 1000;
  const shares = make("span", { class: "shares", "aria-hidden": "true" }, ...classes.map(() => make("i", {})));
  [...shares.children].forEach((bar, i) => (bar.style.flexGrow = i ? flip / (classes.length - 1) : 1 - flip));
  const heading = make("b", {}, name, make("small", {}, `ε = ${micro / 1e6}`));
  const words = make("span", {}, heading, shares, make("em", {}, meaning(micro, classes)));
  return make("label", { class: "choice" }, make("input", { type: "radio", name: "epsilon", value: micro, checked: chosen }), words);
}

function fact(name, value, style = "") {
  return make("div", { class: style }, make("dt", {}, name), make("dd", { class: style.includes("code") ? "code" : "" }, String(value)));
}

const STEPS = ["about", "privacy", "question", "check"];

/* One step on the screen; its heading takes the focus, so that a screen reader says where we are. */
function show(step, focus = true, entry = focus) {
  if (entry) history.pushState({ step }, ""); // so that the browser's own Back goes one step back
  for (const form of document.forms) form.hidden = form.id !== step;
  const position = STEPS.indexOf(step);
  at("where").textContent = position < 0 ? "Done" : `Step ${position + 1} of ${STEPS.length}`;
  document.querySelectorAll(".track i").forEach((bar, i) => bar.classList.toggle("past", position < 0 || i <= position));
  for (const lead of document.querySelectorAll(".lead")) lead.hidden = position !== 0;
  if (!focus) return;
  window.scrollTo(0, 0);
  at(step).querySelector("h2").focus({ preventScroll: true });
}

/* A report in words, read back from its own bytes. */
function showReport(study, text) {
  const report = JSON.parse(text), answers = decode(study.attributes, unpack(report.features)), classes = study.label.classes;
  for (const list of document.querySelectorAll("[data-report]")) {
    list.replaceChildren(
      ...study.attributes.map((attribute) => fact(attribute.label || attribute.name, answers[attribute.name])),
      fact(study.label.question, classes[report.label], "drawn"),
      fact("Privacy of the last answer", `ε = ${report.epsilon / 1e6}`),
      fact("Report number", report.id, "long code"),
      ...(report.token ? [fact("Invitation", report.token, "long code")] : []),
    );
  }
  for (const box of document.querySelectorAll("[data-bytes]")) box.textContent = text;
  at("back").hidden = Boolean(recall(report.study)?.sent); // what has left can only be sent again
  const untrue = percent(threshold(report.epsilon, classes.length), WORD);
  at("chance").textContent =
    `“${classes[report.label]}” is what chance made of your answer. It may or may not be true: ` +
    `of all reports at this level, ${untrue} are not. Going back does not draw again.`;
}

function showReceipt(receipt) {
  at("receipt").replaceChildren(
    fact("Stored by", receipt.server),
    fact("Hour", String(receipt.hour).replace(/T(\d\d)Z$/, ", $1 h UTC")),
    fact("Report number", receipt.id, "long code"),
    fact("SHA-256 of the report", receipt.digest, "long code"),
  );
}

// 6 Sending: the same bytes however often, and a sentence for whatever goes wrong.

const SENTENCES = {
  wrong_study: "This page belongs to another version of the study than the server. Reload it and try again.",
  token_missing: "This study is by invitation. Open the page with the link you were given.",
  token_unknown: "The server does not know this invitation. Open the page with the whole link you were given.",
  token_used: "This invitation has been used already. If that was you, there is nothing left to do.",
  too_early: "The study has not opened yet. Your report is kept on this device: come back and send it then.",
  closed: "The study is closed. Your report was not stored.",
  frozen: "The study’s data are complete. Your report was not stored.",
  id_conflict: "The server holds another report with the same number. Yours was not stored.",
  too_many_requests: "The server is busy. Please try again in a moment: it will be the same report.",
  storage_unavailable: "The server cannot store anything right now. Please try again later: it will be the same report.",
};
const IN_DOUBT = "so it may or may not hold your report. Please try again: sending the same report twice is safe.";
const UNREACHED = `The server could not be reached, ${IN_DOUBT}`;
const ELSEWHERE = "A report has left this device from another tab. It is shown now, and only it can be sent again.";
const TRANSIENT = [408, 425, 429]; // not even a 4xx of these says that nothing was stored
const UNCLEAR = `The server gave an answer that this page does not understand, ${IN_DOUBT}`;

/* {receipt}, or {problem, refused}; refused: the server certainly did not store it. */
async function post(text) {
  let status, answer;
  try {
    const response = await fetch("v1/reports", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: text,
      credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(20000),
    });
    status = response.status;
    answer = await response.text();
  } catch {
    return { problem: UNREACHED, refused: false };
  }
  try {
    answer = JSON.parse(answer);
  } catch {
    return { problem: UNCLEAR, refused: false };
  }
  if (status === 200 || status === 201) {
    const genuine = answer?.id === JSON.parse(text).id && answer.digest === (await sha256(text));
    return genuine ? { receipt: answer } : { problem: UNCLEAR, refused: false };
  }
  const code = /^\w{1,40}$/.test(answer?.code) ? String(answer.code) : String(status);
  const refused = status >= 400 && status < 500 && !TRANSIENT.includes(status), known = Object.hasOwn(SENTENCES, code);
  if (!refused) return { problem: known && SENTENCES[code].includes("same report") ? SENTENCES[code] : UNCLEAR, refused };
  return { problem: known ? SENTENCES[code] : `The server refused the report (${code}).`, refused };
}

const INSECURE = "This page must be opened over https: without it the browser offers no cryptography, and others could read along.";
const FORGETFUL =
  "This browser does not let the page remember anything. Finish in one go and send once: " +
  "reloading the page would draw chance again, which protects you less.";

/* What a person should know before beginning. */
function warning({ opens, closes }, now, forgetful = false) {
  if (forgetful) return FORGETFUL;
  const refused = "so the server will probably refuse a report.";
  if (closes && now >= new Date(closes)) return `By this device’s clock the study is closed, ${refused}`;
  if (opens && now < new Date(opens)) return `By this device’s clock the study has not opened yet, ${refused}`;
  return "";
}

async function start() {
  if (!window.crypto?.subtle) return say("notice", INSECURE);
  const text = at("study").textContent, study = JSON.parse(text), hash = await sha256(text);
  const classes = study.label.classes;
  let token = invitation(hash);
  at("hash").textContent = hash;
  for (const host of document.querySelectorAll("[data-host]")) host.textContent = location.host;
  const warn = () => say("notice", warning(study.study, new Date(), memory.forgets(`pdml ${hash}`)));
  warn();

  const fields = study.attributes.map((attribute, i) => {
    const words = attribute.label || attribute.name;
    return attribute.kind === "number"
      ? numberField(`a${i}`, words, attribute.help, attribute.range)
      : choiceField(`a${i}`, words, attribute.help || "", attribute.levels, 5);
  });
  at("attributes").append(...fields.map(({ box }) => box));
  const label = choiceField("answer", study.label.question, "", classes, 8);
  label.box.classList.add("asked");
  at("label").append(label.box);
  const menu = study.label.epsilon.menu.map((epsilon) => Math.round(epsilon * 1e6));
  const standard = Math.round(study.label.epsilon.default * 1e6);
  at("menu").append(...menu.map((micro, i) => menuChoice(micro, i, menu, micro === standard, classes)));

  /* Once drawn, the level is settled: changing it after seeing the outcome would let it speak of the answer. */
  const settle = () => {
    const memo = recall(hash);
    for (const input of at("menu").querySelectorAll("input")) {
      input.disabled = Boolean(memo?.reported);
      if (memo?.reported) input.checked = Number(input.value) === memo.epsilon;
      input.closest("label").classList.toggle("off", input.disabled && !input.checked);
    }
    at("someone").hidden = !memo?.reported || Boolean(memo.sent);
    say("settled", memo?.reported ? "This level was settled when chance decided, and stays for this study." : "");
  };
  const readAll = (all) => {
    const answers = all.map((one) => one.read()), wrong = answers.indexOf(undefined);
    if (wrong >= 0) all[wrong].first.focus();
    return wrong < 0 ? answers : null;
  };
  const on = (step, act) => at(step).addEventListener("submit", (event) => (event.preventDefault(), act()));
  const finish = () => {
    const memo = recall(hash);
    showReport(study, memo.sent);
    showReceipt(memo.receipt);
    show("done");
  };

  let prepared = "";
  on("about", () => readAll(fields) && (settle(), show("privacy")));
  on("privacy", () => show("question"));
  on("question", () => {
    const answers = readAll(fields), chosen = readAll([label]);
    if (!answers) return show("about");
    if (!chosen) return;
    const memo = draws(hash, Number(at("menu").querySelector(":checked").value), classes.length);
    if (memo.receipt) return finish(); // sent from another tab meanwhile
    const value = ({ kind, levels }, i) => (kind === "number" ? answers[i] : levels[answers[i]]);
    const named = Object.fromEntries(study.attributes.map((attribute, i) => [attribute.name, value(attribute, i)]));
    prepared = memo.sent ?? reportText(hash, memo, chosen[0], encode(study.attributes, named), token);
    if (!memo.sent) remember(hash, { ...memo, token });
    showReport(study, prepared);
    say("problem", "");
    at("refused").hidden = true;
    settle();
    warn();
    show("check");
  });
  on("check", async () => {
    const memo = recall(hash);
    if (!memo) return location.reload(); // forgotten in another tab: begin again
    if (memo.receipt) return finish();
    if (memo.sent && memo.sent !== prepared) { // nothing is sent that was not shown
      prepared = memo.sent;
      showReport(study, prepared);
      return say("problem", ELSEWHERE);
    }
    if (!memo.sent && JSON.parse(prepared).token !== token) return show("about"); // another link came while the last try was on its way
    remember(hash, { ...memo, sent: prepared }); // kept before it leaves
    at("send").disabled = true;
    say("problem", "");
    const { receipt, problem, refused } = await post(prepared);
    at("send").disabled = false;
    if (receipt) {
      remember(hash, { sent: prepared, receipt });
      at("question").reset();
      return finish();
    }
    if (refused) remember(hash, { ...memo, sent: undefined }); // the draws stay: whatever is corrected, chance does not decide again
    showReport(study, prepared);
    settle();
    at("refused").hidden = !refused;
    say("problem", problem);
    at("send").textContent = "Try again";
    at("send").focus();
  });
  for (const button of document.querySelectorAll("[data-back]")) button.addEventListener("click", () => show(button.dataset.back));
  window.addEventListener("popstate", ({ state }) => {
    const step = state?.step ?? "about";
    if (["about", "privacy", "question"].includes(step) && !recall(hash)?.sent) show(step, true, false);
  });
  at("again").addEventListener("click", async () => {
    say("again-problem", "");
    const { receipt, problem } = await post(recall(hash).sent);
    if (receipt) say("said", "The server gave the receipt once more. It counts your report once.");
    else say("again-problem", problem);
  });
  at("save").addEventListener("click", () => {
    const { sent, receipt } = recall(hash);
    const address = URL.createObjectURL(new Blob([JSON.stringify({ receipt, report: sent }, null, 1)], { type: "application/json" }));
    make("a", { href: address, download: `receipt-${receipt.id}.json` }).click();
    URL.revokeObjectURL(address);
  });
  at("print").addEventListener("click", () => window.print());
  /* Somebody else gets a number and draws of their own; of two reports from the same draws, different labels would tell
     that the true ones differ. An invitation goes with the person who used it, and one that came since stays. */
  const forget = () => {
    const memo = recall(hash), used = memo?.sent ? JSON.parse(memo.sent).token : memo?.token;
    if (memo?.sent && !memo.receipt) return location.reload(); // in doubt since, from another tab: these bytes must not be lost
    memory.removeItem(`pdml ${hash}`);
    if (token === used) memory.removeItem(`pdml ${hash} invitation`);
    location.reload();
  };
  for (const button of document.querySelectorAll("[data-forget]")) button.addEventListener("click", forget);
  /* A link pasted into the open page changes the fragment alone. No reload: it could cost the draws where nothing can be stored. */
  window.addEventListener("hashchange", () => {
    if (!location.hash) return;
    token = invitation(hash);
    if (!recall(hash)?.sent) show("about", true, false); // what was shown holds the invitation before
  });

  at("steps").hidden = at("foot").hidden = false; // together, so that nothing on the screen is moved by what comes later
  const memo = recall(hash);
  if (memo?.receipt) finish();
  else if (memo?.sent) {
    prepared = memo.sent;
    showReport(study, prepared);
    show("check");
    say("problem", UNREACHED);
  } else show("about", false);
  settle();
}

start();
