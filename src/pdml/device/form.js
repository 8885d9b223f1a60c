// 6 The form, made from the study.

const at = (id) => document.getElementById(id);

/* make("p", {id: "x"}, "text", child, ...): text is always text. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/* A sentence (a function that gives its text), or nothing. */
function showText(id, sentence) {
  at(id).hidden = !sentence;
  setText(at(id), sentence || (() => ""));
}

/* Tells under a question what is wrong with its answer, and returns the answer if nothing is. */
function showMistake(box, note, hint, [answer, mistake]) {
  box.classList.toggle("wrong", Boolean(mistake));
  setText(note, mistake || hint);
  for (const input of box.querySelectorAll("input, select")) {
    if (mistake) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
  return mistake ? undefined : answer;
}

const textElement = (tag, sentence, attributes = {}) => setText(make(tag, attributes), sentence);

/* One question: a text field for numbers, radio buttons for few levels, a list for many.
   read() gives the answer, or undefined after telling why there is none. */
function field(name, asked, hint, kind, levels, parse) {
  const described = { "aria-describedby": `${name}-hint` };
  const note = textElement("p", hint, { class: "hint", id: `${name}-hint` });
  let box, first, value;
  if (kind === "radio") {
    const radio = (i) => make("input", { type: "radio", name, value: i });
    const choice = (level, i) =>
      make("label", { class: "choice" }, radio(i), textElement("span", level));
    const choices = levels.map(choice);
    const legend = textElement("legend", asked);
    box = make("fieldset", { class: "field", ...described }, legend, note, ...choices);
    first = box.querySelector("input");
    value = () => box.querySelector(":checked")?.value ?? "";
  } else {
    const options = levels?.map((level, i) => textElement("option", level, { value: i }));
    const text = { type: "text", class: "short", id: name, inputmode: kind, spellcheck: "false" };
    const none = textElement("option", () => words("field.choose"), { value: "" });
    first = options
      ? make("select", { id: name, ...described }, none, ...options)
      : make("input", { ...text, ...described });
    box = make("div", { class: "field" }, textElement("label", asked, { for: name }), note, first);
    value = () => first.value.trim();
  }
  return { box, first, read: () => showMistake(box, note, hint, parse(value())) };
}

const skipped = () => words("field.skip"), unanswered = () => words("field.none");

/* A level's name, or null for the choice of those who prefer not to say. */
function choiceField(name, { asked, help, levels: named }, { levels, missing }) {
  const shown = missing ? [...named, skipped] : named;
  const parse = (text) => (text === "" ? [undefined, unanswered] : [levels[Number(text)] ?? null]);
  return field(name, asked, help, levels.length <= 5 ? "radio" : "list", shown, parse);
}

function numberField(name, { asked, help }, attribute) {
  const [low, high] = attribute.range, { whole } = attribute;
  const range = () => words(whole ? "number.hint.whole" : "number.hint", { low, high });
  const hint = () => (help() ? [textElement("span", help), " ", range()] : range());
  const keys = low < 0 ? "text" : whole ? "numeric" : "decimal";
  const made = field(name, asked, hint, keys, null, (text) =>
    skip.checked ? [null] : readNumber(text, attribute));
  const skip = make("input", { type: "checkbox", id: `${name}-skip` });
  skip.addEventListener("change", () => (made.first.disabled = skip.checked));
  const label = textElement("span", skipped);
  if (attribute.missing) made.box.append(make("label", { class: "choice skip" }, skip, label));
  return made;
}

/* The questions whose answers are randomised: the sensitive attributes, and the label. Their answers
   in words are `levels`, and on the buttons `choices`. */
function secretsOf({ attributes, label }, texts) {
  const silent = () => words("answer.none");
  const secret = ({ epsilon, missing }, i) => {
    const { asked, help, levels } = texts.attributes[i], id = `a${i}`;
    const [choices, named] = [skipped, silent].map((last) => (missing ? [...levels, last] : levels));
    return { id, asked, help, choices, levels: named, epsilon };
  };
  const last = { id: "answer", asked: texts.question, help: () => "", epsilon: label.epsilon };
  const own = attributes.map((one, i) => one.epsilon && secret(one, i)).filter(Boolean);
  return [...own, { ...last, choices: texts.named, levels: texts.named }];
}

/* A secret question. Its choices are buttons, because browsers store what is entered into fields
   (to restore a session, to fill in forms). The choice is forgotten when it leaves the screen. */
function secretField({ id, asked, help, choices }) {
  const hint = () => (help() ? textElement("span", help) : "");
  const note = textElement("p", hint, { class: "hint", id: `${id}-hint` });
  const kind = { type: "button", class: "choice", "aria-pressed": "false" };
  const button = (name, i) => make("button", { ...kind, value: i }, textElement("span", name));
  const buttons = choices.map(button);
  const options = make("div", { class: choices.length > 6 ? "dense" : false }, ...buttons);
  const group = { class: "field asked", id, "aria-describedby": `${id}-hint` };
  const box = make("fieldset", group, textElement("legend", asked), note, options);
  const press = (one) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === one));
    showMistake(box, note, hint, [true]); // nothing is wrong any more
  };
  for (const one of buttons) one.addEventListener("click", () => press(one));
  const chosen = () => buttons.findIndex((one) => one.getAttribute("aria-pressed") === "true");
  const parse = (i) => (i < 0 ? [undefined, unanswered] : [i]);
  const read = () => showMistake(box, note, hint, parse(chosen()));
  return { box, first: buttons[0], read, forget: () => press(null) };
}

function levelName(position, levels) {
  if (levels === 1) return words("level.only");
  if (position === 0) return words("level.first");
  if (position === levels - 1) return words("level.last");
  if (levels === 3) return words("level.middle");
  return words("level.other", { position: position + 1, levels });
}

function menuChoice({ levels, epsilon }, name, micro, position, menu) {
  const all = levels.length, parts = Math.min(all, 9) - 1; // of more the bars would be too thin
  const flip = Number((1000n * threshold(micro, all)) / WORD) / 1000;
  const bars = Array.from({ length: parts + 1 }, () => make("i", {}));
  bars.forEach((bar, i) => (bar.style.flexGrow = i ? flip / parts : 1 - flip));
  const shares = make("span", { class: "shares", "aria-hidden": "true" }, ...bars);
  const level = textElement("small", () => epsilonInWords(micro));
  const which = textElement("span", () => levelName(position, menu.length));
  const heading = make("b", {}, which, level);
  const weak = () => (isWeak(micro) ? [" ", make("strong", {}, words("chance.weak"))] : []);
  const named = () => levels.map((level) => level());
  const meaning = () => make("span", {}, chanceInWords(micro, named()));
  const note = textElement("em", () => [meaning(), ...weak()]);
  const checked = micro === Math.round(epsilon.default * 1e6);
  const radio = make("input", { type: "radio", name, value: micro, checked });
  return make("label", { class: "choice" }, radio, make("span", {}, heading, shares, note));
}

/* How private the answer to one secret question is; where there are several, it says which. */
function menuField(question, several) {
  const name = question.id === "answer" ? "epsilon" : `epsilon-${question.id}`;
  const legend = several
    ? textElement("legend", question.asked)
    : textElement("legend", () => words("privacy.menu"), { class: "unseen" });
  const choice = (micro, i, menu) => menuChoice(question, name, micro, i, menu);
  const choices = menuOf(question.epsilon).map(choice);
  const box = make("fieldset", { class: several ? "field brief" : false }, legend, ...choices);
  return { box, read: () => Number(box.querySelector(":checked").value) };
}

/* A name and what stands for it; `mark` on those that are the study's words. */
function fact(name, value, style = "", { mark = () => {}, answer = false } = {}) {
  const term = make("dt", {}, name);
  const text = value instanceof Node ? value : String(value);
  const description = make("dd", { class: style.includes("code") ? "code" : false }, text);
  mark(term);
  if (answer) mark(description);
  return make("div", { class: style }, term, description);
}

/* A randomised answer, and what that means. */
function drawnFact({ asked, levels }, [position, micro], mark) {
  const answer = make("span", {}), epsilon = micro / 1e6;
  renderText(answer, levels[position]);
  const chance = words("report.chance", { epsilon, sent: keptShare(micro, levels.length) });
  const weak = isWeak(micro) ? [" ", words("chance.weak")] : [];
  const row = fact(asked(), answer, "drawn", { mark });
  row.append(make("dd", { class: "note" }, chance, ...weak));
  return row;
}

/* The randomised answer to each of the secret questions, [level, ε in millionths]. */
const drawnOf = ({ answers = [], label, epsilon }) => [...answers, [label, epsilon]];

/* What this device remembers of it, to somebody who comes back. */
function drawInWords(secrets, memo) {
  const draws = drawnOf(memo).map(([level, micro], k) => {
    const { asked, levels } = secrets[k];
    return { question: asked(), answer: levels[level](), epsilon: micro / 1e6 };
  });
  if (draws.length === 1) return words("about.drawn", draws[0]);
  const all = draws.map((one) => words("about.drawn.one", one));
  return [words("about.drawn.several"), ...all].join("\n");
}

// The first only in studies that ask for consent.
const STEPS = ["agree", "about", "privacy", "question", "check"].filter((step) => at(step));

/* One step on the screen; its heading takes the focus, so that screen readers say where we are. */
function show(step, focus = true, entry = focus) {
  if (entry) history.pushState({ step }, ""); // so that the browser's own Back goes one step back
  at("gate").hidden = true;
  at("steps").hidden = at("foot").hidden = false; // together, so that nothing moves later
  for (const form of document.forms) form.hidden = form.id !== step;
  const position = STEPS.indexOf(step);
  const where = { position: position + 1, steps: STEPS.length };
  setText(at("where"), () => (position < 0 ? words("step.done") : words("step", where)));
  const past = (bar, i) => bar.classList.toggle("past", position < 0 || i <= position);
  const track = document.querySelector(".track");
  track.replaceChildren(...STEPS.map(() => make("i", {})));
  [...track.children].forEach(past);
  for (const lead of document.querySelectorAll(".lead")) lead.hidden = position !== 0;
  if (!focus) return;
  window.scrollTo(0, 0);
  at(step).querySelector("h2").focus({ preventScroll: true });
}

/* A report in words, read back from its own bytes; without any, nothing of one is left. */
function showReport(study, texts, text) {
  const [lists, boxes] = ["[data-report]", "[data-bytes]"].map((css) =>
    document.querySelectorAll(css));
  for (const box of boxes) box.textContent = text ?? "";
  for (const box of [...lists, at("chance")]) setText(box, () => "");
  if (!text) return;
  const report = JSON.parse(text), features = unpack(report.features), { secrets } = study;
  const { mark } = texts, answer = () => texts.classes()[report.label];
  const drawn = drawnOf({ ...report, answers: drawnIn(study.coder, features) });
  const alone = secrets.length === 1; // the label
  const decided = (k) => drawnFact(secrets[k], drawn[k], mark);
  const facts = () => {
    const answers = decode(study.coder, features);
    const made = study.coder.maps.map(mapInWords).join("; ");
    return [
      ...study.attributes.map(({ name, levels, epsilon }, i) => {
        if (epsilon) return decided(secrets.findIndex(({ id }) => id === `a${i}`));
        const { asked, answer } = texts.attributes[i], value = answers[name];
        return fact(asked(), answer(value), "", { mark, answer: levels && value !== null });
      }),
      ...(made ? [fact(words("report.made"), made, "long")] : []),
      ...(alone
        ? [fact(texts.question(), answer(), "drawn", { mark, answer: true }),
          fact(words("report.privacy"), epsilonInWords(report.epsilon))]
        : [decided(secrets.length - 1)]),
      fact(words("report.number"), report.id, "long code"),
      ...(report.token ? [fact(words("report.invitation"), report.token, "long code")] : []),
      ...(report.consent ? [fact(words("report.consent"), report.consent_version)] : []),
    ];
  };
  for (const list of lists) setText(list, facts);
  at("back").hidden = Boolean(recall(study.memory)?.sent); // what has left can only be sent again
  setText(at("chance"), () => {
    if (!alone) return [words("check.drawn.several"), words("check.once")].join(" ");
    const sent = keptShare(report.epsilon, study.label.classes.length);
    const weak = isWeak(report.epsilon) ? [words("chance.weak")] : [];
    const drawn = words("check.drawn", { answer: answer(), sent });
    return [drawn, ...weak, words("check.once")].join(" ");
  });
}

/* The receipt, with whom to write to; what can be withdrawn still is offered to be. Of a report
   that was, nothing is left to show. */
function showReceipt(study, { receipt, code, withdrawn = false }, token) {
  setText(at("done").querySelector("h2"), because(withdrawn ? "withdraw.done.title" : "done.title"));
  const intro = study.secrets.length > 1 ? "done.intro.several" : "done.intro";
  const rest = () => [words("withdraw.done"), words("withdraw.rest")].join(" ");
  showText("done-text", withdrawn ? rest : because(intro));
  const kept = token ? "done.kept.link" : "done.kept";
  showText("kept", !withdrawn && (() => words(kept, { forget: words("forget.title") })));
  at("another").hidden = Boolean(token);
  setText(at("another-text"), because(withdrawn ? "another.draw" : "another.receipt"));
  at("withdraw").hidden = withdrawn;
  for (const id of ["sent", "again-problem", "keep"]) at(id).hidden ||= withdrawn;
  if (withdrawn) return setText(at("receipt"), () => organiserFacts(study));
  setText(at("receipt"), () => [
    ...organiserFacts(study),
    fact(words("receipt.server"), receipt.server),
    fact(words("receipt.hour"), hourInWords(receipt.hour)),
    fact(words("report.number"), receipt.id, "long code"),
    fact(words("receipt.code"), spaced(code), "long code"),
    fact(words("receipt.digest"), receipt.digest, "long code"),
  ]);
}
