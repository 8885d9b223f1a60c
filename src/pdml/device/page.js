// 7 The organisation's service: asked first whether it would take a report at all, then sent the same
//   bytes however often, with a sentence for whatever goes wrong; and the way through the steps.

const because = (key, values) => () => words(key, values);
const TRANSIENT = [408, 425, 429]; // not even a 4xx of these says that nothing was stored
const UNREACHED = because("server.unreached"), UNCLEAR = because("server.unclear");

/* [status, answer]: a JSON value, or null where it is none; [0, null] without an answer. */
async function ask(path, body) {
  try {
    const response = await fetch(`v1/${path}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body, credentials: "omit",
      cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(20000),
    });
    const text = await response.text();
    try {
      return [response.status, JSON.parse(text)];
    } catch {
      return [response.status, null];
    }
  } catch {
    return [0, null];
  }
}

/* A problem's code, or the status where there is none. */
function codeOf(status, answer) {
  const code = answer?.code;
  return typeof code === "string" && /^\w{1,40}$/.test(code) ? code : String(status);
}

/* Why a report with this invitation would not be taken, or null. Uses nothing up. */
async function admission(hash, token) {
  if (!/^([0-9a-f]{32})?$/.test(token)) return because("why.token_unknown"); // half a link
  const [status, answer] = await ask("invitations", JSON.stringify({ token }));
  if (status === 200 && answer) return answer.study === hash ? null : because("why.wrong_study");
  const why = `why.${codeOf(status, answer)}`, clear = status >= 400 && status < 500;
  return because(clear && hasSentence(why) ? why : "server.silent");
}

/* {receipt}, or {problem, refused}; refused: it was certainly not stored. */
async function post(text) {
  const [status, answer] = await ask("reports", text);
  if (!status) return { problem: UNREACHED, refused: false };
  if (answer === null) return { problem: UNCLEAR, refused: false };
  if (status === 200 || status === 201) {
    const genuine = answer.id === JSON.parse(text).id && answer.digest === (await sha256(text));
    return genuine ? { receipt: answer } : { problem: UNCLEAR, refused: false };
  }
  const code = codeOf(status, answer);
  const refused = status >= 400 && status < 500 && !TRANSIENT.includes(status);
  const why = `why.${code}`, later = `later.${code}`;
  if (!refused) return { problem: hasSentence(later) ? because(later) : UNCLEAR, refused };
  const reason = hasSentence(why) ? because(why) : because("server.refused", { code });
  return { problem: () => `${reason()} ${words("server.not_stored")}`, refused };
}

/* The state of the page, handed to every function below: the study and its texts, whose memory this
   is (`key`, by `token`), the questions on the screen, the next draw's numbers (`fresh`) and the
   report that is shown (`prepared`). null where nobody can answer here. */
async function loadState() {
  const text = at("study").textContent, study = JSON.parse(text);
  setLanguage(preferredLanguage(study));
  offerLanguages();
  const texts = textsOf(study), secrets = secretsOf(study, texts);
  for (const title of document.querySelectorAll("title, h1")) setText(title, texts.title);
  for (const lead of document.querySelectorAll(".lead")) setText(lead, texts.description);
  if (!window.crypto?.subtle) return showText("notice", because("insecure")), null;
  const hash = await sha256(text), everybody = at("study").dataset.memory; // in all revisions
  const isForgotten = location.hash.startsWith("#forgotten");
  const token = invitation(everybody), key = await memoryKey(everybody, token);
  try {
    recall(key);
  } catch {
    return showText("notice", because("unreadable")), null;
  }
  study.coder = await coderOf(study);
  study.secrets = secrets;
  study.memory = key;
  const agreed = await consentOf(study), agreement = agreementOf(study, texts);
  at("hash").textContent = hash;
  return {
    study, texts, secrets, hash, everybody, token, key, isForgotten, agreed, agreement,
    fresh: await drawNumbers(), prepared: "", ...showQuestions(study, texts, secrets),
  };
}

/* The questions as elements: `fields` of what is sent as it is, `asked` of what is randomised, and
   `menus` of how strongly. */
function showQuestions(study, texts, secrets) {
  const fields = study.attributes.flatMap((attribute, i) => {
    const fieldOf = attribute.kind === "number" ? numberField : choiceField;
    return attribute.epsilon ? [] : [fieldOf(`a${i}`, texts.attributes[i], attribute)];
  });
  const several = secrets.length > 1, boxes = (all) => all.map(({ box }) => box);
  const asked = secrets.map(secretField), menus = secrets.map((one) => menuField(one, several));
  at("attributes").append(...boxes(fields));
  at("sensitive").append(...boxes(asked.slice(0, -1)));
  at("label").append(asked.at(-1).box);
  at("menu").append(...boxes(menus));
  const showTogether = () => {
    const all = menus.reduce((sum, menu) => sum + menu.read(), 0), epsilon = all / 1e6;
    const sentence = () => words("privacy.together", { epsilon, between: keptShare(all, 2) });
    showText("together", several && sentence);
  };
  at("menu").addEventListener("change", showTogether);
  showTogether();
  return { fields, asked, menus };
}

const forgetChoices = ({ asked }) => asked.forEach(({ forget }) => forget());
const leaveTab = ({ everybody }) => tab.removeItem(invitationIn(everybody));
const warnOfMemory = ({ key }) =>
  showText("notice", memory.forgets(`pdml ${key}`) && because("forgetful"));

/* Every way to another step: the choice is forgotten, and what was drawn before is shown. */
function goTo(page, step, ...how) {
  const memo = recall(page.key), drawn = memo && !memo.sent && !memo.withdrawn;
  forgetChoices(page);
  at("someone").hidden = !drawn || Boolean(page.token); // a link is another person anyway
  showText("drawn", drawn && (() => drawInWords(page.secrets, memo)));
  show(step, ...how);
}

/* Every answer, or null after showing what is wrong with the first that is none. */
function readAll(all) {
  const answers = all.map((one) => one.read()), wrong = answers.indexOf(undefined);
  if (wrong >= 0) all[wrong].first.focus();
  return wrong < 0 ? answers : null;
}

function showPrepared({ study, texts, prepared }) {
  showReport(study, texts, prepared);
}

function finish(page) {
  const memo = recall(page.key);
  showReport(page.study, page.texts, memo.sent);
  showReceipt(page.study, memo, page.token);
  goTo(page, "done");
}

/* A report was withdrawn, by the code of whoever it was: if it is this person's, it is shown so. */
function afterWithdrawal(page, code) {
  const own = recall(page.key)?.code === code;
  forgetReport(page.everybody, code);
  if (!own) return;
  leaveTab(page);
  page.prepared = "";
  for (const form of document.forms) form.reset();
  finish(page);
}

/* The report for what was drawn, shown before it can be sent. */
function check(page, memo, answers) {
  if (memo.receipt || memo.withdrawn) return finish(page); // from another tab meanwhile
  if (!page.agreement.read()) return goTo(page, "agree");
  const { study: { coder }, hash, token, agreed } = page;
  const named = Object.fromEntries(coder.attributes.map(({ name }, i) => [name, answers[i]]));
  const build = () => reportText(hash, memo, encode(coder, named, memo.answers), token, agreed);
  page.prepared = memo.sent ?? build();
  showPrepared(page);
  showText("problem", null);
  at("refused").hidden = true;
  warnOfMemory(page);
  goTo(page, "check");
}

const keepDraw = ({ key }, { id, nonce, epsilon, label, answers, code }, more) =>
  remember(key, { id, nonce, epsilon, label, ...(answers ? { answers } : {}), code, ...more });

function submitAbout(page) {
  const answers = readAll(page.fields), memo = recall(page.key);
  if (answers) memo ? check(page, memo, answers) : goTo(page, "privacy");
}

function submitQuestion(page) {
  const { fields, asked, menus, secrets, key } = page;
  const answers = readAll(fields);
  if (!answers) return goTo(page, "about");
  const chosen = readAll(asked);
  if (!chosen) return;
  if (!page.agreement.read()) return goTo(page, "agree"); // before anything is drawn
  const toDraw = chosen.map((level, k) => [level, menus[k].read(), secrets[k].levels.length]);
  const label = toDraw.pop();
  check(page, drawOnce(key, page.fresh, ...label, toDraw), answers);
  drawNumbers().then((numbers) => (page.fresh = numbers));
}

async function submitReport(page) {
  const { key, token } = page, memo = recall(key), shown = JSON.parse(page.prepared);
  if (memo?.receipt) return finish(page);
  if (memo?.sent && memo.sent !== page.prepared) { // nothing is sent that was not shown
    page.prepared = memo.sent;
    showPrepared(page);
    return showText("problem", because("server.elsewhere"));
  }
  if (memo?.id !== shown.id) return location.reload(); // forgotten in another tab: begin again
  const sent = page.prepared;
  keepDraw(page, memo, { sent }); // kept before it leaves
  at("send").disabled = true;
  showText("problem", null);
  const { receipt, problem, refused } = await post(sent);
  at("send").disabled = false;
  if (recall(key)?.id !== memo.id) return location.reload(); // forgotten meanwhile: it stays so
  if (receipt) {
    keepDraw(page, memo, { sent, receipt });
    return finish(page);
  }
  if (refused) keepDraw(page, memo, {}); // may be corrected, but is not drawn again
  showPrepared(page);
  at("refused").hidden = !refused || Boolean(token);
  showText("problem", problem);
  setText(at("send"), because("check.again"));
  at("send").focus();
}

async function sendAgain({ key }) {
  showText("again-problem", null);
  const { receipt, problem } = await post(recall(key).sent);
  if (receipt) showText("done-text", because("done.once_more"));
  else showText("again-problem", problem);
}

function saveReceipt({ study, key }) {
  const { sent, receipt, code } = recall(key), { title } = study.study;
  const { name, address: place, contact } = study.organiser ?? {};
  const who = name ? { organiser: name, address: place, contact } : {};
  const head = { version: 1, title, ...who, url: location.origin + location.pathname };
  const saved = JSON.stringify({ ...head, receipt, report: sent, code }, null, 1);
  const address = URL.createObjectURL(new Blob([saved], { type: "application/json" }));
  make("a", { href: address, download: `receipt-${receipt.id}.json` }).click();
  URL.revokeObjectURL(address);
}

async function withdrawHere(page) {
  showText("withdraw-problem", null);
  const { code } = recall(page.key), why = await takeBack(page.study, code);
  if (why) showText("withdraw-problem", why);
  else afterWithdrawal(page, code);
}

/* Somebody else without an invitation gets a number and a draw of their own. */
function forgetPerson({ key }) {
  const memo = recall(key);
  // In doubt since, from another tab: these bytes must not be lost.
  if (!memo?.sent || memo.receipt) memory.removeItem(`pdml ${key}`);
  location.reload();
}

function forgetEverything() {
  for (const [store, name] of remembered()) store.removeItem(name);
  const stays = location.hash.replace("#", "&"); // the language
  history.replaceState(null, "", `${location.pathname}${location.search}#forgotten${stays}`);
  location.reload(); // nothing of anybody stays in the page either
}

function listenToForms(page) {
  const on = (step, act) =>
    at(step).addEventListener("submit", (event) => (event.preventDefault(), act(page)));
  const agree = ({ agreement }) =>
    agreement.read() ? goTo(page, "about") : agreement.first.focus();
  if (page.study.consent) on("agree", agree);
  on("about", submitAbout);
  on("privacy", () => goTo(page, "question"));
  on("question", submitQuestion);
  on("check", submitReport);
  for (const button of document.querySelectorAll("[data-back]")) {
    button.addEventListener("click", () => goTo(page, button.dataset.back));
  }
}

function listenToButtons(page) {
  const acts = {
    again: sendAgain, save: saveReceipt, "withdraw-now": withdrawHere, knock: begin,
    forget: forgetEverything, print: () => window.print(),
  };
  for (const [id, act] of Object.entries(acts)) at(id).addEventListener("click", () => act(page));
  for (const button of document.querySelectorAll("[data-forget]")) {
    button.addEventListener("click", () => forgetPerson(page));
  }
  offerWithdrawal(page.study, (code) => afterWithdrawal(page, code));
}

/* What the browser does by itself: its Back, other tabs, and pages that it brings up again. */
function listenToBrowser(page) {
  const { everybody, token, key } = page;
  window.addEventListener("popstate", ({ state }) => {
    const step = state?.step ?? STEPS[0], memo = recall(key);
    const over = memo?.sent || memo?.withdrawn || linkedInvitation() !== undefined;
    if (over || at("steps").hidden || !STEPS.slice(0, -1).includes(step)) return;
    goTo(page, memo && step !== "agree" ? "about" : step, true, false);
  });
  /* A link pasted into the open page changes the fragment alone. Another one is another person's,
     for whom the page is loaded anew. */
  window.addEventListener("hashchange", () => {
    if (linkedInvitation() === undefined) return;
    if (linkedInvitation() !== token) return location.reload();
    invitation(everybody);
    if (!recall(key)?.sent) begin(page);
  });
  /* What another tab, or another person in this one, made the browser forget is not shown here. */
  window.addEventListener("storage", ({ key: name }) => {
    if (name !== null && name !== `pdml ${key}`) return;
    const memo = recall(key);
    if (!memo || memo.withdrawn) (leaveTab(page), location.reload());
  });
  const state = () => `${tab.getItem(invitationIn(everybody))} ${memory.getItem(`pdml ${key}`)}`;
  let left = "";
  window.addEventListener("pagehide", () => {
    forgetChoices(page); // what is kept for Back keeps no choice
    left = state();
  });
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted && state() !== left) location.reload();
  });
}

/* Somebody who lost the link, or somebody else? One person could be drawn for twice. */
const isUnlinked = ({ token, key, everybody }) =>
  !token && !recall(key) && invited(everybody).length > 0;

/* Where this device stands; the first step only if the service says it would take a report. */
async function begin(page) {
  const { hash, token, key } = page, memo = recall(key);
  if (memo?.receipt || memo?.withdrawn) return finish(page);
  if (memo?.sent && JSON.parse(memo.sent).study !== hash) {
    // In doubt, and for a revision that no service has any more: the draw stays, the bytes do not.
    keepDraw(page, memo, {});
    return begin(page);
  }
  if (memo?.sent) {
    page.prepared = memo.sent;
    showPrepared(page);
    goTo(page, "check");
    return showText("problem", UNREACHED);
  }
  forgetChoices(page);
  at("steps").hidden = at("foot").hidden = at("knock").hidden = true;
  at("gate").hidden = false;
  showText("gate-text", because("gate.asking"));
  const why = await admission(hash, token);
  if (recall(key)?.sent) return begin(page); // from another tab meanwhile
  if (!why && !isUnlinked(page)) return goTo(page, STEPS[0], false);
  showText("gate-text", why ?? because("gate.link"));
  at("knock").hidden = !why;
  at("foot").hidden = false;
}

async function start() {
  const page = await loadState();
  if (!page) return;
  warnOfMemory(page);
  setText(at("send"), because("check.send"));
  listenToForms(page);
  listenToButtons(page);
  listenToBrowser(page);
  if (!page.isForgotten || remembered().length) return begin(page);
  at("gate").hidden = at("foot").hidden = false; // and nobody is asked at once
  showText("gate-text", because("forget.done", { host: location.host }));
}

start();
