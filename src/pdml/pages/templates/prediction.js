/* The form: reads answers, says what is wrong with them, shows what the model makes of them. */

const at = (id) => document.getElementById(id);
const percent = (chance) => shareInWords(Math.round(1000 * chance));

const same = (tag) => languageOf(tag) === MODEL.language;
[language, locale] = [MODEL.language, navigator.languages.find(same) ?? MODEL.language];
for (const each of document.querySelectorAll("data.number")) each.textContent = number(each.value);
for (const each of document.querySelectorAll("data.share")) {
  each.textContent = percent(Number(each.value));
}

/* An answer, null for none: [answer], or [undefined, a sentence on what is wrong with it]. */
function given(attribute, i) {
  const name = `q${i}`;
  if (attribute.kind === "number") {
    if (at(`${name}-skip`)?.checked) return [null];
    const [answer, mistake] = readNumber(at(name).value.trim(), attribute);
    const any = attribute.range[1] === Number.MAX_VALUE;
    return [answer, mistake && any ? () => words("number.any") : mistake];
  }
  const button = () => document.querySelector(`[name="${name}"]:checked`);
  const level = at(name) ? at(name).value : button()?.value ?? "";
  if (level === "") return [undefined, () => words("field.none")];
  return [attribute.levels[Number(level)] ?? null];
}

/* Says under a question what is wrong with its answer; returns the answer if nothing is. */
function judged(attribute, i) {
  const [answer, mistake] = given(attribute, i), box = at(`q${i}-box`);
  at(`q${i}-mistake`).textContent = mistake ? mistake() : "";
  box.classList.toggle("wrong", Boolean(mistake));
  for (const input of box.querySelectorAll("input, select")) {
    if (mistake) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
  return mistake ? undefined : answer;
}

function show({ chances, chosen }) {
  at("chosen").textContent = MODEL.classes[chosen];
  [...document.querySelectorAll(".chances > div")].forEach((row, k) => {
    row.classList.toggle("most", k === chosen);
    row.querySelector("data").value = String(chances[k]);
    row.querySelector("data").textContent = percent(chances[k]);
    row.querySelector("i").style.width = `${100 * chances[k]}%`;
  });
  at("result").hidden = false;
  at("outcome").focus();
}

/* What was shown is of the answers before. */
function forget() {
  at("result").hidden = true;
  at("chosen").textContent = "";
  for (const told of document.querySelectorAll(".chances data")) {
    told.value = told.textContent = "";
  }
}

function clear() {
  forget();
  for (const box of document.querySelectorAll(".field")) box.classList.remove("wrong");
  for (const note of document.querySelectorAll(".mistake")) note.textContent = "";
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
  }
  for (const input of document.querySelectorAll("input.short")) input.disabled = false;
}

at("person").addEventListener("submit", (event) => {
  event.preventDefault();
  forget();
  const answers = MODEL.sheet.attributes.map(judged);
  const first = answers.indexOf(undefined);
  if (first < 0) show(predicted(MODEL.sheet, answers));
  else at(`q${first}-box`).querySelector("input, select").focus();
});
at("person").addEventListener("input", forget);
at("person").addEventListener("change", ({ target }) => {
  if (target.type === "checkbox") at(target.id.replace("-skip", "")).disabled = target.checked;
});
at("person").addEventListener("reset", clear);
window.addEventListener("pagehide", () => at("person").reset()); // what is kept for Back is empty
at("person").reset(); // what a browser restores of an earlier visit
