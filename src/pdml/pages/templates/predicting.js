/* A prediction where the answers are: what the Python package's `Model.predict_proba` does, by a
   worksheet (model/export/javascript.py) and with the study's own encoder (device/encoding.js). */

/* Which level of a randomised question an answer is; null is no answer, the last of them. */
function positionOf({ levels, bins }, answer) {
  if (answer === null) return levels ? levels.length : bins.length + 1;
  return levels ? levels.indexOf(answer) : bins.filter((edge) => edge <= answer).length;
}

/* The row that the weights meet; answers are in the order of the questions. */
function rowBy(sheet, answers) {
  const { attributes, kept, maps, factor, codes, constant, room, bound } = sheet;
  const entries = [], coded = [];
  attributes.forEach((one, i) => {
    if (!one.epsilon) return entries.push(...entriesOf(one, answers[i]));
    const { levels, scale } = codes[coded.length];
    return coded.push(centred(positionOf(one, answers[i]), levels).map((code) => code * scale));
  });
  const made = maps.flatMap((one) => MAPS[one.map](entries, one));
  const clear = [...kept.map((k) => entries[k]), ...made].map((entry) => entry * factor);
  const last = constant === null ? [] : [constant];
  let squares = 0; // from left to right, as in Python
  for (const entry of [...clear, ...last]) squares += entry * entry;
  const shrink = room / Math.max(Math.sqrt(squares), room);
  const small = (entry) => entry * shrink;
  return [...clear.map(small), ...coded.flat(), ...last.map(small)].map((entry) => entry * bound);
}

/* The probability of every class, and which one is chosen. */
function predicted(sheet, answers) {
  const row = rowBy(sheet, answers);
  const margins = sheet.weights.map((weights) =>
    weights.reduce((sum, weight, k) => sum + weight * row[k], 0));
  if (margins.length === 1) { // two classes: a positive margin means the second
    const half = Math.tanh(margins[0] / 2) / 2;
    return { chances: [0.5 - half, 0.5 + half], chosen: margins[0] > 0 ? 1 : 0 };
  }
  const most = Math.max(...margins), shifted = margins.map((margin) => Math.exp(margin - most));
  const all = shifted.reduce((sum, each) => sum + each, 0);
  return { chances: shifted.map((each) => each / all), chosen: margins.indexOf(most) };
}
