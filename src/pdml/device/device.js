"use strict";
/* Everything that happens to an answer before it leaves this device:
   1 randomised response, 2 encoding (encoding.js), 3 the report, 4 what this device remembers. What
   people read of it is in notice.js.
   The Python package does and says the same; shared test vectors hold both to it. */

// 1 Randomised response: exact integers, never a pseudo-random generator, never a comparison of floats.

const WORD = 1n << 64n;
const randomWord = () => crypto.getRandomValues(new BigUint64Array(1))[0];

/* e^ε = Σ ε^j/j! in units of 2^-256, ε in millionths. */
const UNIT = 1n << 256n;
function oddsOf(micro) {
  let odds = 0n;
  for (let term = UNIT, j = 1n; term > 0n; j++) {
    odds += term;
    term = (term * BigInt(micro)) / (1000000n * j);
  }
  return odds;
}

/* P = ceil(2^64 (K-1)/(e^ε + K-1)). */
function threshold(micro, classes) {
  const others = BigInt(classes - 1), all = oddsOf(micro) + others * UNIT;
  return (others * UNIT * WORD + all - 1n) / all;
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

// 3 The report: these fields, in this order, and nothing else.

/* base64 of little-endian float32. */
function pack(features) {
  const view = new DataView(new ArrayBuffer(4 * features.length));
  features.forEach((entry, i) => view.setFloat32(4 * i, entry, true));
  const bytes = new Uint8Array(view.buffer);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function unpack(text) {
  const view = new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  return Float32Array.from({ length: view.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async (text) =>
  hex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));

/* `agreed` is what the person has agreed to, {consent, consent_version}; both "" for nothing. */
function reportText(study, { id, nonce, epsilon, label }, entries, token, agreed) {
  const features = pack(entries), { consent, consent_version } = agreed;
  const fields = { study, id, nonce, epsilon, label, features, token, consent, consent_version };
  return JSON.stringify({ version: 1, ...fields });
}

/* What withdraws a report, and the number that follows from it: whoever knows the number does not
   know the code. */
const reportId = async (code) => (await sha256(`pdml withdrawal ${code}`)).slice(0, 32);
/* Whoever does not know it cannot repeat the report, and so cannot ask the server what it says. */
const reportNonce = async (code) => (await sha256(`pdml repetition ${code}`)).slice(0, 32);
async function drawNumbers() {
  const code = hex(crypto.getRandomValues(new Uint8Array(16)));
  return { id: await reportId(code), nonce: await reportNonce(code), code };
}

// 4 What this device remembers of a person in a study, so that an answer is randomised once.
//   One of
//   {…}                 drawn: the randomised answer
//   {…, sent}           left, no clear answer: only these bytes may leave
//   {…, sent, receipt}  stored by the server
//   {withdrawn}         erased by the server, and the rest of it here
//   where … is id, nonce, epsilon, label, code,
//   and, of studies with sensitive attributes, answers: [level, ε] of each, as drawn.
//   Every field but the receipt, which is the server's, and the code, which is drawn before
//   anything else and withdraws the report, stands in the report: whoever reads this memory learns
//   of the person what whoever receives the report learns, and no more.
//   Of a report that was withdrawn only that stays. It is enough: whoever received the report may
//   have kept it, so that a second draw about the same answer would cost its ε again; and no second
//   one can be made, because nothing is asked of a person whose report was withdrawn.
//   The invitation of the person in front of the screen is kept by the tab, for as long as it is
//   open: whoever comes next without a link finds nobody's memory.

function storeIn(place) {
  const kept = new Map(); // what the browser would not store: only until the page is closed
  let store = null;
  try {
    store = place();
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
  const forgets = (key) => kept.has(key) || (full && getItem(key) === null);
  const keys = () => [...kept.keys(), ...Object.keys(store ?? {})];
  return { getItem, setItem, removeItem, forgets, keys };
}
const memory = storeIn(() => localStorage), tab = storeIn(() => sessionStorage);

/* [store, key] of everything: of every study at this address, and of everybody. */
const remembered = () => [memory, tab].flatMap((store) =>
  store.keys().filter((key) => key.startsWith("pdml ")).map((key) => [store, key]));

/* Whose memory it is: another invitation is another person, and all without one are one. Whoever
   reads the names learns which study was answered here and by how many people, and of an invitation
   whether it is one that they know. */
async function memoryKey(study, token) {
  const person = token && (await sha256(`pdml person ${study} ${token}`)).slice(0, 32);
  return token ? `${study} ${person}` : study;
}

/* The keys of all who answered with an invitation. */
const invited = (study) =>
  memory.keys().filter((key) => key.startsWith(`pdml ${study} `)).map((key) => key.slice(5));

/* null if there is nothing. What cannot be read is an error, never a reason to draw again. */
function recall(key) {
  const text = memory.getItem(`pdml ${key}`), memo = text === null ? null : JSON.parse(text);
  const whole = Number.isInteger(memo?.label) || memo?.withdrawn === true;
  if (text !== null && !whole) throw new SyntaxError("not a memo");
  return memo;
}

function remember(key, memo) {
  memory.setItem(`pdml ${key}`, JSON.stringify(memo));
  return memo;
}

/* Whoever's report it was that is withdrawn now: of it nothing stays but that. */
function forgetReport(study, code) {
  for (const key of [study, ...invited(study)]) {
    const text = memory.getItem(`pdml ${key}`) ?? "";
    if (text.includes(`"code":"${code}"`)) remember(key, { withdrawn: true });
  }
}

/* Randomised response for an answer and, by draws of their own, for `others`, [level, ε in
   millionths, levels]: drawn once, kept before anybody sees it. The answers are not. */
function drawOnce(key, { id, nonce, code }, answer, micro, classes, others = []) {
  const earlier = recall(key);
  if (earlier) return earlier;
  const answers = others.map(([level, own, levels]) => [randomise(level, own, levels), own]);
  const label = randomise(answer, micro, classes);
  const drawn = { id, nonce, epsilon: micro, label, ...(answers.length ? { answers } : {}) };
  return remember(key, { ...drawn, code });
}

/* An invitation comes in the address's fragment, which no server sees, and leaves it at once; the
   tab keeps it for when the page is loaded again. Half a link is not the one before. A language
   (#l=de, or #t=...&l=de) stays in the address. */
const invitationIn = (study) => `pdml ${study} invitation`;
const linkedInvitation = () => /^#t=([^&]*)/.exec(location.hash)?.[1];
function invitation(study) {
  const linked = linkedInvitation(), here = location.pathname + location.search;
  const stays = /[#&](l=[a-z]+)$/.exec(location.hash), name = invitationIn(study);
  if (location.hash) history.replaceState(null, "", here + (stays ? `#${stays[1]}` : ""));
  if (linked !== undefined) tab.setItem(name, linked);
  return tab.getItem(name) ?? "";
}
