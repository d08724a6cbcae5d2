// What the run is, how it learned, what went on inside its updates.

function headlineOf(run) {
  const { before, after, updates, asked, episodes, tokens, seconds } = run.headline;
  const figure = (value, name, big = false) => element("div", { class: "figure" }, element("div", { class: big ? "value big" : "value" }, value), element("div", { class: "name" }, name));
  const range = (each) => `${percent(each.low)} to ${percent(each.high)}`;
  const rates = after
    ? figure([before ? `${percent(before.rate)} → ` : "", element("span", { class: before && after.rate > before.rate ? "up" : "" }, percent(after.rate))],
      `win rate on ${whole(after.games)} held-out games; 95 %: ${before ? `${range(before)} before, ` : ""}${range(after)} after update ${after.update}`, true)
    : figure(before ? percent(before.rate) : MISSING, before ? `win rate before training; 95 %: ${range(before)}` : "no held-out games yet", true);
  return element("div", { class: "figures" }, rates,
    figure(whole(updates), updates < asked ? `updates of ${whole(asked)}` : "updates"),
    figure(whole(episodes), "games learned from"),
    figure(plain(tokens), "tokens sampled in them"),
    figure(duration(seconds ?? 0), "time in updates"));
}

function settingsOf(run) {
  return element("dl", {}, run.settings.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function learningOf(run) {
  const { evaluations, updates, outcome, smooth, window, along } = run.curves;
  const held = { name: "win rate, held-out", at: evaluations.map((each) => each.update), values: evaluations.map((each) => each.rate), low: evaluations.map((each) => each.low), high: evaluations.map((each) => each.high), colour: "var(--warm)", points: true };
  const lines = [
    { at: updates, values: outcome, colour: "var(--accent)", faint: true, width: 1.2 },
    { name: "training outcome", at: updates, values: smooth, colour: "var(--accent)", width: 2.6 },
    held,
  ].filter((line) => line.at.length);
  const last = evaluations.at(-1);
  return section("learning", "Learning", axisChooser(along, "along"), element("div", { class: "card" },
    chart({ label: `Win rate over updates, ${evaluations.length} evaluations${last ? `, the last ${percent(last.rate)}` : ""}`, lines, y: [0, 1], show: (value) => percent(value, 0), height: 360, along }),
    element("div", { class: "legend" },
      swatch("var(--warm)", `win rate on ${last ? whole(last.games) : 0} held-out games, with 95 % interval`),
      updates.length ? swatch("var(--accent)", `mean outcome of the games learned from; thick: over ${window} updates`, true) : null)));
}

function insideOf(run) {
  const silent = run.curves.panels.filter((panel) => panel.values.every((value) => value === 0));
  const shown = run.curves.panels.filter((panel) => !silent.includes(panel));
  const panels = shown.map((panel) => {
    const line = { name: panel.title.toLowerCase(), at: panel.updates, values: panel.values, colour: "var(--accent)", width: 1.7 };
    return element("div", { class: "card" }, element("h3", {}, panel.title), element("div", { class: "soft small" }, panel.what),
      chart({ label: `${panel.title}: ${panel.what}, last ${plain(panel.values.at(-1))}`, lines: [line], log: panel.log, height: 130, small: true, along: run.curves.along }));
  });
  if (!run.curves.panels.length) return null;
  return section("inside", "Inside the updates", element("div", { class: "grid" }, panels),
    silent.length ? element("p", { class: "soft small" }, `0 at every update: ${silent.map((panel) => `${panel.title.toLowerCase()} (${panel.what})`).join(", ")}.`) : null);
}

function poolingOf(run) {
  const found = run.pooling;
  if (!found) return null;
  const panel = (title, what, lines, more = {}) => element("div", { class: "card" }, element("h3", {}, title), element("div", { class: "soft small" }, what),
    chart({ label: `${title}: ${what}`, lines, height: 170, small: true, along: run.curves.along, ...more }));
  const line = (name, each, shade) => ({ name, at: each.updates, values: each.values, colour: shade, width: 2 });
  const variance = panel("Variance", "of what a turn is worth, before and after sharing", [
    line("returns", { updates: found.updates, values: found.variance_before }, "var(--warm)"), line("shared", found.variance_after, "var(--accent)")]);
  variance.append(element("div", { class: "legend" }, swatch("var(--warm)", "returns", true), swatch("var(--accent)", "shared", true)));
  const panels = [variance];
  if (found.group_size.values.length) panels.push(panel("Group size", "turns that share with a turn, mean", [line("turns", found.group_size, "var(--accent)")]));
  if (found.turns.length) {
    panels.push(panel("Alone", "share of turns in a group of one, by turn of the seat", [{ name: "alone", at: found.turns, values: found.alone, colour: "var(--accent)" }],
      { y: [0, 1], show: (value) => percent(value, 0), unit: "turn", along: null }));
  }
  const last = (each) => each.at(-1);
  const share = 1 - last(found.variance_after.values) / last(found.variance_before);
  return section("shared", "Shared reward",
    element("p", { class: "soft" }, `Turns that mean the same in the same situation share their return. In the last window of ${whole(found.window)} games, `
      + (share > 0.005 ? `sharing took away ${percent(share, 0)} of the variance` : "sharing left the variance as it was")
      + (found.singletons.values.length ? `, and ${percent(last(found.singletons.values), 0)} of the turns had nobody to share with.` : ".")),
    element("div", { class: "grid" }, panels));
}
