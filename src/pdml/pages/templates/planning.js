const SVG = "http://www.w3.org/2000/svg";
const LEFT = 58, RIGHT = 590, TOP = 16, BOTTOM = 292;
const STEPS = 20; // of the slider of people, for each factor of ten
const controls = {};
for (const name of ["people", "servers", "colluding", "epsilon", "target"]) {
  controls[name] = document.getElementById(name);
}
const logs = forecast.people.map(Math.log10);
const first = logs[0], last = logs[logs.length - 1];

function interpolate(x, xs, ys) {
  if (x <= xs[0]) return ys[0];
  let k = 1;
  while (k < xs.length - 1 && xs[k] < x) k += 1;
  const share = Math.min(1, (x - xs[k - 1]) / (xs[k] - xs[k - 1]));
  return (1 - share) * ys[k - 1] + share * ys[k];
}

// The variance of the total's noise, in that of one server that hides its records by itself.
function noiseFactor(servers, colluding) {
  return colluding >= servers - 1 ? servers : servers / (servers - colluding);
}

function curve(values, settings) {
  const factors = forecast.factors.map(Math.log);
  const at = Math.log(noiseFactor(settings.servers, settings.colluding));
  return forecast.people.map((_, k) =>
    interpolate(at, factors, values[settings.level].map((row) => row[k])));
}

function needed(means, target) {
  if (means[means.length - 1] < target) return null;
  if (means[0] >= target) return forecast.people[0];
  const k = means.findIndex((mean) => mean >= target);
  const share = (target - means[k - 1]) / (means[k] - means[k - 1]);
  return twoDigits(10 ** (logs[k - 1] + share * (logs[k] - logs[k - 1])));
}

// Rounded up.
function twoDigits(value) {
  const digits = 10 ** (Math.floor(Math.log10(value)) - 1);
  return Math.round(Math.ceil(value / digits - 1e-9) * digits);
}

function count(value) {
  return value.toLocaleString("en-GB");
}

function percent(share) {
  return `${(100 * share).toFixed(1)}%`;
}

function read() {
  const servers = Number(controls.servers.value);
  controls.colluding.max = servers - 1;
  return {
    servers,
    colluding: Number(controls.colluding.value),
    level: Number(controls.epsilon.value),
    people: twoDigits(10 ** (first + Number(controls.people.value) / STEPS)),
    target: Number(controls.target.value) / 100,
  };
}

function show() {
  const settings = read();
  const everybody = settings.colluding === settings.servers - 1;
  const shown = {
    people: count(settings.people),
    servers: String(settings.servers),
    colluding: everybody ? `all ${settings.colluding}` : String(settings.colluding),
    epsilon: String(forecast.epsilons[settings.level]),
    target: percent(settings.target),
  };
  for (const [name, text] of Object.entries(shown)) {
    document.getElementById(`${name}-shown`).textContent = text;
    controls[name].setAttribute("aria-valuetext", text);
  }
  const lines = {
    means: curve(forecast.means, settings),
    low: curve(forecast.low, settings),
    high: curve(forecast.high, settings),
  };
  const at = Math.log10(settings.people);
  const [mean, low, high] = ["means", "low", "high"].map((name) => interpolate(at, logs, lines[name]));
  const people = needed(lines.means, settings.target);
  const reached = people === null
    ? `${percent(settings.target)} is not reached in the mean by ${count(forecast.people[forecast.people.length - 1])} people.`
    : `${percent(settings.target)} is reached in the mean by about ${count(people)} people in all.`;
  document.getElementById("answer").textContent =
    `${reached} With ${count(settings.people)} people ${percent(mean)} is expected (80% of data sets: ${percent(low)} to ${percent(high)}).`;
  draw(lines, settings, mean);
}

function across(people) {
  return LEFT + ((Math.log10(people) - first) / (last - first)) * (RIGHT - LEFT);
}

function down(share) {
  return BOTTOM - share * (BOTTOM - TOP);
}

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  parent.append(element);
}

function path(values) {
  return values.map((value, k) => `${k ? "L" : "M"}${across(forecast.people[k]).toFixed(1)} ${down(value).toFixed(1)}`).join("");
}

function draw(lines, settings, mean) {
  const chart = document.getElementById("chart");
  chart.replaceChildren();
  const back = [...lines.low.keys()].reverse()
    .map((k) => `L${across(forecast.people[k]).toFixed(1)} ${down(lines.low[k]).toFixed(1)}`).join("");
  add(chart, "path", { d: `${path(lines.high)}${back}Z`, class: "band", stroke: "none" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    add(chart, "path", { d: `M${LEFT} ${down(share)}H${RIGHT}`, class: "grid" });
    add(chart, "text", { x: LEFT - 8, y: down(share) + 4, class: "end muted" }, `${100 * share}%`);
  }
  for (let k = Math.ceil(first); k <= last; k += 1) {
    add(chart, "text", { x: across(10 ** k), y: BOTTOM + 22, class: "middle muted" }, count(10 ** k));
  }
  add(chart, "text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 42, class: "middle muted" }, "people in all organisations");
  add(chart, "path", { d: path(lines.means), class: "line" });
  add(chart, "path", { d: `M${LEFT} ${down(settings.target)}H${RIGHT}`, class: "target" });
  add(chart, "text", { x: LEFT + 6, y: down(settings.target) - 6, class: "warn halo" }, "wanted");
  add(chart, "circle", { cx: across(settings.people), cy: down(mean), r: 5, class: "dot" });
}

controls.people.max = Math.round(STEPS * (last - first));
controls.people.value = Math.round(STEPS * (Math.log10(3000) - first));
controls.servers.value = 5;
controls.colluding.max = 4;
controls.colluding.value = 4;
controls.epsilon.max = forecast.epsilons.length - 1;
controls.epsilon.value = Math.max(0, forecast.epsilons.indexOf(1));
controls.target.value = 100 * forecast.target;
for (const control of Object.values(controls)) control.addEventListener("input", show);
show();
