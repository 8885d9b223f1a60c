// 7 The server: asked first whether it would take a report at all, then sent the same bytes however
//   often, with a sentence for whatever goes wrong; and the way through the steps.

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

/* Why the server would not take a report with this invitation, or null. Uses nothing up. */
async function admission(hash, token) {
  if (!/^([0-9a-f]{32})?$/.test(token)) return because("why.token_unknown"); // half a link
  const [status, answer] = await ask("invitations", JSON.stringify({ token }));
  if (status === 200 && answer) return answer.study === hash ? null : because("why.wrong_study");
  const why = `why.${codeOf(status, answer)}`, clear = status >= 400 && status < 500;
  return because(clear && known(why) ? why : "server.silent");
}

/* {receipt}, or {problem, refused}; refused: the server certainly did not store it. */
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
  if (!refused) return { problem: known(later) ? because(later) : UNCLEAR, refused };
  const told = known(why) ? because(why) : because("server.refused", { code });
  return { problem: () => `${told()} ${words("server.not_stored")}`, refused };
}

async function start() {
  const text = at("study").textContent, study = JSON.parse(text);
  speak(preferred(study));
  offerLanguages();
  const texts = textsOf(study), secrets = secretsOf(study, texts);
  for (const title of document.querySelectorAll("title, h1")) tell(title, texts.title);
  for (const lead of document.querySelectorAll(".lead")) tell(lead, texts.description);
  if (!window.crypto?.subtle) return say("notice", because("insecure"));
  const hash = await sha256(text), everybody = at("study").dataset.memory; // in all revisions
  const forgotten = location.hash.startsWith("#forgotten");
  const token = invitation(everybody), key = await memoryKey(everybody, token);
  try {
    recall(key);
  } catch {
    return say("notice", because("unreadable"));
  }
  study.coder = await coderOf(study);
  study.secrets = secrets;
  study.memory = key;
  const agreed = await consentOf(study), agreeing = agreement(study, texts);
  let fresh = await numbered(); // for the next draw
  at("hash").textContent = hash;
  const forgetful = because("forgetful");
  const warn = () => say("notice", memory.forgets(`pdml ${key}`) && forgetful);
  warn();

  const fields = study.attributes.flatMap((attribute, i) => {
    const made = attribute.kind === "number" ? numberField : choiceField;
    return attribute.epsilon ? [] : [made(`a${i}`, texts.attributes[i], attribute)];
  });
  const several = secrets.length > 1, boxes = (all) => all.map(({ box }) => box);
  const asked = secrets.map(secretField), menus = secrets.map((one) => menuField(one, several));
  at("attributes").append(...boxes(fields));
  at("sensitive").append(...boxes(asked.slice(0, -1)));
  at("label").append(asked.at(-1).box);
  at("menu").append(...boxes(menus));
  const together = () => {
    const all = menus.reduce((sum, menu) => sum + menu.read(), 0), epsilon = all / 1e6;
    const said = () => words("privacy.together", { epsilon, between: keptShare(all, 2) });
    say("together", several && said);
  };
  at("menu").addEventListener("change", together);
  together();
  const forgetChoices = () => asked.forEach(({ forget }) => forget());
  tell(at("send"), because("check.send"));

  /* Every way to another step: the choice is forgotten, and what chance has decided is told. */
  const go = (step, ...how) => {
    const memo = recall(key), drawn = memo && !memo.sent && !memo.withdrawn;
    forgetChoices();
    at("someone").hidden = !drawn || Boolean(token); // whoever has a link is another person anyway
    say("settled", drawn && (() => settledInWords(secrets, memo)));
    show(step, ...how);
  };
  const readAll = (all) => {
    const answers = all.map((one) => one.read()), wrong = answers.indexOf(undefined);
    if (wrong >= 0) all[wrong].first.focus();
    return wrong < 0 ? answers : null;
  };
  const on = (step, act) => {
    at(step).addEventListener("submit", (event) => (event.preventDefault(), act()));
  };
  const finish = () => {
    const memo = recall(key);
    showReport(study, texts, memo.sent);
    showReceipt(study, memo, token);
    go("done");
  };
  let prepared = "";
  const leaveTab = () => tab.removeItem(invitationIn(everybody));
  const withdrawn = (code) => {
    const own = recall(key)?.code === code;
    forgetReport(everybody, code);
    if (!own) return;
    leaveTab();
    prepared = "";
    for (const form of document.forms) form.reset();
    finish();
  };

  /* The report for what chance has decided, shown before it can be sent. */
  const check = (memo, answers) => {
    if (memo.receipt || memo.withdrawn) return finish(); // from another tab meanwhile
    if (!agreeing.read()) return go("agree");
    const { coder } = study;
    const named = Object.fromEntries(coder.attributes.map(({ name }, i) => [name, answers[i]]));
    const made = () => reportText(hash, memo, encode(coder, named, memo.answers), token, agreed);
    prepared = memo.sent ?? made();
    showReport(study, texts, prepared);
    say("problem", null);
    at("refused").hidden = true;
    warn();
    go("check");
  };
  const keep = ({ id, nonce, epsilon, label, answers, code }, more) =>
    remember(key, { id, nonce, epsilon, label, ...(answers ? { answers } : {}), code, ...more });
  if (study.consent) on("agree", () => (agreeing.read() ? go("about") : agreeing.first.focus()));
  on("about", () => {
    const answers = readAll(fields), memo = recall(key);
    if (answers) memo ? check(memo, answers) : go("privacy");
  });
  on("privacy", () => go("question"));
  on("question", () => {
    const answers = readAll(fields);
    if (!answers) return go("about");
    const chosen = readAll(asked);
    if (!chosen) return;
    if (!agreeing.read()) return go("agree"); // before chance decides
    const toDraw = chosen.map((level, k) => [level, menus[k].read(), secrets[k].levels.length]);
    const label = toDraw.pop();
    check(settle(key, fresh, ...label, toDraw), answers);
    numbered().then((next) => (fresh = next));
  });
  on("check", async () => {
    const memo = recall(key), shown = JSON.parse(prepared);
    if (memo?.receipt) return finish();
    if (memo?.sent && memo.sent !== prepared) { // nothing is sent that was not shown
      prepared = memo.sent;
      showReport(study, texts, prepared);
      return say("problem", because("server.elsewhere"));
    }
    if (memo?.id !== shown.id) return location.reload(); // forgotten in another tab: begin again
    keep(memo, { sent: prepared }); // kept before it leaves
    at("send").disabled = true;
    say("problem", null);
    const { receipt, problem, refused } = await post(prepared);
    at("send").disabled = false;
    if (recall(key)?.id !== memo.id) return location.reload(); // forgotten meanwhile: it stays so
    if (receipt) {
      keep(memo, { sent: prepared, receipt });
      return finish();
    }
    if (refused) keep(memo, {}); // may be corrected, but is not drawn again
    showReport(study, texts, prepared);
    at("refused").hidden = !refused || Boolean(token);
    say("problem", problem);
    tell(at("send"), because("check.again"));
    at("send").focus();
  });
  for (const button of document.querySelectorAll("[data-back]")) {
    button.addEventListener("click", () => go(button.dataset.back));
  }
  window.addEventListener("popstate", ({ state }) => {
    const step = state?.step ?? STEPS[0], memo = recall(key);
    const over = memo?.sent || memo?.withdrawn || linkedInvitation() !== undefined;
    if (over || at("steps").hidden || !STEPS.slice(0, -1).includes(step)) return;
    go(memo && step !== "agree" ? "about" : step, true, false);
  });
  window.addEventListener("pagehide", forgetChoices); // what is kept for Back keeps no choice
  at("again").addEventListener("click", async () => {
    say("again-problem", null);
    const { receipt, problem } = await post(recall(key).sent);
    if (receipt) say("said", because("done.once_more"));
    else say("again-problem", problem);
  });
  at("save").addEventListener("click", () => {
    const { sent, receipt, code } = recall(key), { title } = study.study;
    const { name, address: place, contact } = study.organiser ?? {};
    const who = name ? { organiser: name, address: place, contact } : {};
    const told = { version: 1, title, ...who, url: location.origin + location.pathname };
    const saved = JSON.stringify({ ...told, receipt, report: sent, code: code ?? "" }, null, 1);
    const address = URL.createObjectURL(new Blob([saved], { type: "application/json" }));
    make("a", { href: address, download: `receipt-${receipt.id}.json` }).click();
    URL.revokeObjectURL(address);
  });
  at("withdraw-now").addEventListener("click", async () => {
    say("withdraw-problem", null);
    const { code } = recall(key), why = await takeBack(study, code);
    if (why) say("withdraw-problem", why);
    else withdrawn(code);
  });
  offerWithdrawal(study, withdrawn);
  at("print").addEventListener("click", () => window.print());
  /* Somebody else without an invitation gets a number and a draw of their own. */
  const forget = () => {
    const memo = recall(key);
    // In doubt since, from another tab: these bytes must not be lost.
    if (!memo?.sent || memo.receipt) memory.removeItem(`pdml ${key}`);
    location.reload();
  };
  for (const button of document.querySelectorAll("[data-forget]")) {
    button.addEventListener("click", forget);
  }
  at("forget").addEventListener("click", () => {
    for (const [store, name] of remembered()) store.removeItem(name);
    const stays = location.hash.replace("#", "&"); // the language
    history.replaceState(null, "", `${location.pathname}${location.search}#forgotten${stays}`);
    location.reload(); // nothing of anybody stays in the page either
  });
  /* A link pasted into the open page changes the fragment alone. Another one is another person's,
     for whom the page is loaded anew. */
  window.addEventListener("hashchange", () => {
    if (linkedInvitation() === undefined) return;
    if (linkedInvitation() !== token) return location.reload();
    invitation(everybody);
    if (!recall(key)?.sent) begin();
  });
  /* What another tab, or another person in this one, made the browser forget is not shown here. */
  window.addEventListener("storage", ({ key: name }) => {
    if (name !== null && name !== `pdml ${key}`) return;
    const memo = recall(key);
    if (!memo || memo.withdrawn) (leaveTab(), location.reload());
  });
  const state = () => `${tab.getItem(invitationIn(everybody))} ${memory.getItem(`pdml ${key}`)}`;
  let left = "";
  window.addEventListener("pagehide", () => (left = state()));
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted && state() !== left) location.reload();
  });

  /* Somebody who lost the link, or somebody else? Chance could decide about one person twice. */
  const unlinked = () => !token && !recall(key) && invited(everybody).length > 0;
  /* Where this device stands; the first step only if the server says it would take a report. */
  const begin = async () => {
    const memo = recall(key);
    if (memo?.receipt || memo?.withdrawn) return finish();
    // In doubt, and for a revision that no server has any more: the draw stays, the bytes do not.
    if (memo?.sent && JSON.parse(memo.sent).study !== hash) return keep(memo, {}), begin();
    if (memo?.sent) {
      prepared = memo.sent;
      showReport(study, texts, prepared);
      go("check");
      return say("problem", UNREACHED);
    }
    forgetChoices();
    at("steps").hidden = at("foot").hidden = at("knock").hidden = true;
    at("gate").hidden = false;
    say("gate-said", because("gate.asking"));
    const why = await admission(hash, token);
    if (recall(key)?.sent) return begin(); // from another tab meanwhile
    if (!why && !unlinked()) return go(STEPS[0], false);
    say("gate-said", why ?? because("gate.link"));
    at("knock").hidden = !why;
    at("foot").hidden = false;
  };
  at("knock").addEventListener("click", begin);
  if (!forgotten || remembered().length) return begin();
  at("gate").hidden = at("foot").hidden = false; // and nobody is asked at once
  say("gate-said", because("forget.done", { host: location.host }));
}

start();
