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

function say(id, text) {
  at(id).hidden = !text;
  at(id).textContent = text;
}

/* Tells under a question what is wrong with its answer, and returns the answer if nothing is. */
function judged(box, note, hint, [answer, mistake]) {
  box.classList.toggle("wrong", Boolean(mistake));
  note.textContent = mistake || hint;
  for (const input of box.querySelectorAll("input, select")) {
    if (mistake) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
  return mistake ? undefined : answer;
}

/* One question: a text field for numbers, radio buttons for few levels, a list for many.
   read() gives the answer, or undefined after telling why there is none. */
function field(name, words, hint, kind, levels, parse) {
  const described = { "aria-describedby": `${name}-hint` };
  const note = make("p", { class: "hint", id: `${name}-hint` }, hint);
  let box, first, value;
  if (kind === "radio") {
    const radio = (i) => make("input", { type: "radio", name, value: i });
    const said = (level) => make("span", {}, level);
    const choice = (level, i) => make("label", { class: "choice" }, radio(i), said(level));
    const choices = levels.map(choice);
    const legend = make("legend", {}, words);
    box = make("fieldset", { class: "field", ...described }, legend, note, ...choices);
    first = box.querySelector("input");
    value = () => box.querySelector(":checked")?.value ?? "";
  } else {
    const options = levels?.map((level, i) => make("option", { value: i }, level));
    const text = { type: "text", class: "short", id: name, inputmode: kind, spellcheck: "false" };
    const none = make("option", { value: "" }, "Choose …");
    first = options
      ? make("select", { id: name, ...described }, none, ...options)
      : make("input", { ...text, ...described });
    box = make("div", { class: "field" }, make("label", { for: name }, words), note, first);
    value = () => first.value.trim();
  }
  return { box, first, read: () => judged(box, note, hint, parse(value())) };
}

const SKIP = NO_ANSWER[0].toUpperCase() + NO_ANSWER.slice(1);

/* A level's name, or null for the choice of those who prefer not to say. */
function choiceField(name, words, hint, attribute) {
  const { levels, missing } = attribute, shown = missing ? [...levels, SKIP] : levels;
  const parse = (text) =>
    text === "" ? [undefined, "Please choose one."] : [levels[Number(text)] ?? null, ""];
  return field(name, words, hint, levels.length <= 5 ? "radio" : "list", shown, parse);
}

function numberField(name, words, help, attribute) {
  const [low, high] = attribute.range, kind = attribute.whole ? "A whole number from" : "From";
  const hint = `${help ? help + " " : ""}${kind} ${low} to ${high}.`;
  const keys = low < 0 ? "text" : attribute.whole ? "numeric" : "decimal";
  const made = field(name, words, hint, keys, null, (text) =>
    skip.checked ? [null, ""] : readNumber(text, attribute));
  const skip = make("input", { type: "checkbox", id: `${name}-skip` });
  skip.addEventListener("change", () => (made.first.disabled = skip.checked));
  const said = make("span", {}, SKIP);
  if (attribute.missing) made.box.append(make("label", { class: "choice skip" }, skip, said));
  return made;
}

/* The secret question. Its choices are buttons, because browsers store what is entered into fields
   (to restore a session, to fill in forms). The choice is forgotten when it leaves the screen. */
function secretField(words, classes) {
  const note = make("p", { class: "hint", id: "answer-hint" });
  const kind = { type: "button", class: "choice", "aria-pressed": "false" };
  const button = (name, i) => make("button", { ...kind, value: i }, make("span", {}, name));
  const buttons = classes.map(button);
  const group = { class: "field asked", "aria-describedby": "answer-hint" };
  const box = make("fieldset", group, make("legend", {}, words), note, ...buttons);
  const press = (one) => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each === one));
  };
  for (const one of buttons) one.addEventListener("click", () => press(one));
  const chosen = () => buttons.findIndex((one) => one.getAttribute("aria-pressed") === "true");
  const parse = (i) => (i < 0 ? [undefined, "Please choose one."] : [i, ""]);
  const read = () => judged(box, note, "", parse(chosen()));
  return { box, first: buttons[0], read, forget: () => press(null) };
}

function levelName(position, levels) {
  if (levels === 1) return "Fixed by the study";
  if (position === 0) return "Most private of these";
  if (position === levels - 1) return "Most useful to the study";
  return levels === 3 ? "In between" : `Level ${position + 1} of ${levels}`;
}

function menuChoice(micro, position, menu, chosen, classes) {
  const flip = Number((1000n * threshold(micro, classes.length)) / WORD) / 1000;
  const bars = classes.map(() => make("i", {})), others = classes.length - 1;
  bars.forEach((bar, i) => (bar.style.flexGrow = i ? flip / others : 1 - flip));
  const shares = make("span", { class: "shares", "aria-hidden": "true" }, ...bars);
  const level = make("small", {}, `ε = ${micro / 1e6}`);
  const heading = make("b", {}, levelName(position, menu.length), level);
  const said = make("em", {}, meaning(micro, classes).replace(WEAK, ""));
  if (isWeak(micro)) said.append(make("strong", {}, WEAK));
  const radio = make("input", { type: "radio", name: "epsilon", value: micro, checked: chosen });
  return make("label", { class: "choice" }, radio, make("span", {}, heading, shares, said));
}

function fact(name, value, style = "") {
  const code = style.includes("code") ? "code" : "";
  const said = make("dd", { class: code }, String(value));
  return make("div", { class: style }, make("dt", {}, name), said);
}

const STEPS = ["about", "privacy", "question", "check"];

/* One step on the screen; its heading takes the focus, so that screen readers say where we are. */
function show(step, focus = true, entry = focus) {
  if (entry) history.pushState({ step }, ""); // so that the browser's own Back goes one step back
  at("gate").hidden = true;
  at("steps").hidden = at("foot").hidden = false; // together, so that nothing moves later
  for (const form of document.forms) form.hidden = form.id !== step;
  const position = STEPS.indexOf(step);
  at("where").textContent = position < 0 ? "Done" : `Step ${position + 1} of ${STEPS.length}`;
  const past = (bar, i) => bar.classList.toggle("past", position < 0 || i <= position);
  document.querySelectorAll(".track i").forEach(past);
  for (const lead of document.querySelectorAll(".lead")) lead.hidden = position !== 0;
  if (!focus) return;
  window.scrollTo(0, 0);
  at(step).querySelector("h2").focus({ preventScroll: true });
}

/* A report in words, read back from its own bytes. */
function showReport(study, text) {
  const report = JSON.parse(text), answers = decode(study.coder, unpack(report.features));
  const made = study.coder.maps.map(mapInWords).join("; ");
  const answer = study.label.classes[report.label];
  for (const list of document.querySelectorAll("[data-report]")) {
    list.replaceChildren(
      ...study.attributes.map(({ name, label }) => fact(label || name, answers[name] ?? NO_ANSWER)),
      ...(made ? [fact("Also sent, made of these answers", made, "long")] : []),
      fact(study.label.question, answer, "drawn"),
      fact("Privacy of the last answer", `ε = ${report.epsilon / 1e6}`),
      fact("Report number", report.id, "long code"),
      ...(report.token ? [fact("Invitation", report.token, "long code")] : []),
    );
  }
  for (const box of document.querySelectorAll("[data-bytes]")) box.textContent = text;
  at("back").hidden = Boolean(recall(report.study)?.sent); // what has left can only be sent again
  const often = keptShare(report.epsilon, study.label.classes.length);
  at("chance").textContent =
    `“${answer}” is what chance made of your answer. It may or may not be the true one: ` +
    `chance lets a true answer stand with ${often}. ${isWeak(report.epsilon) ? `${WEAK} ` : ""}` +
    "Going back does not draw again.";
}

function showReceipt(receipt) {
  at("receipt").replaceChildren(
    fact("Stored by", receipt.server),
    fact("Hour", String(receipt.hour).replace(/T(\d\d)Z$/, ", $1 h UTC")),
    fact("Report number", receipt.id, "long code"),
    fact("SHA-256 of the report", receipt.digest, "long code"),
  );
}
