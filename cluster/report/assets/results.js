// How games went: which are lost, how each seat did, and what was said that the game could not execute.

const KEPT_NOTHING = "A run keeps all its games while record.episodes is not none; this one has none yet.";

// state: what is chosen, kept by the caller while the figures change
function resultsOf(found, along, state = {}) {
  if (!found || found.missing) return section("results", "Results", element("p", { class: "note" }, found?.missing ?? KEPT_NOTHING));
  const parts = [["held_out", "held out"], ["training", "training"]].filter(([part]) => found.groups[part].length);
  const table = element("div", { class: "card" });
  const controls = element("div", { class: "controls" });
  state.part = parts.some(([part]) => part === state.part) ? state.part : parts[0]?.[0];

  function draw() {
    const groups = found.groups[state.part] ?? [];
    const group = groups.find((each) => each.kind === state.kind) ?? groups[0];
    controls.replaceChildren(...[
      parts.length > 1 ? chooser("Games", parts, (value) => { state.part = value; draw(); }, "results-games") : null,
      groups.length > 1 ? chooser("By", groups.map((each) => [each.kind, words(each.kind)]), (value) => { state.kind = value; draw(); }, "results-by") : null,
    ].filter(Boolean));
    for (const [id, value] of [["results-games", state.part], ["results-by", group?.kind]]) {
      const select = controls.querySelector(`#${id}`);
      if (select) select.value = value;
    }
    table.replaceChildren(...(group ? [lostMost(group)] : []));
  }
  draw();
  return section("results", "Results",
    element("p", { class: "soft" }, `From ${whole(found.games)} kept games.`),
    element("div", { class: "grid" }, resultPanels(found.over, along)), ...(parts.length ? [controls, table] : []));
}

function resultPanels({ training, held_out: held }, along) {
  const line = (name, part, values, shade) => ({ name, at: part.updates, values, colour: shade, width: 1.7 });
  const both = (what) => [line("training", training, training[what], "var(--accent)"), line("held out", held, held[what], "var(--warm)")].filter((each) => each.at.length);
  const colours = [0, 5, 2, 3, 1, 4, 6];
  const seats = Object.entries(training.seats).map(([seat, values], i) => line(seat, training, values, `var(--c${colours[i % 7]})`));
  return [
    seats.length > 1 ? panel("Outcome of each seat", "mean over the training games of the update", seats, { y: [0, 1], show: (value) => percent(value, 0), along }) : null,
    panel("Not understood", "share of the policy’s utterances that the game could not execute", both("not_understood"), { show: (value) => percent(value, 1), along }),
    panel("Length of utterances", "tokens that the policy sampled for one, mean", both("tokens"), { along }),
  ].filter(Boolean);
}

// A small chart with its title and, where there are several lines, what each is.
function panel(title, what, lines, more = {}) {
  return element("div", { class: "card" }, element("h3", {}, title), element("div", { class: "soft small" }, what),
    chart({ label: `${title}: ${what}`, lines, height: 150, small: true, ...more }),
    lines.length > 1 ? element("div", { class: "legend" }, lines.map((line) => swatch(line.colour, line.name, true))) : null);
}

function lostMost({ kind, values, from, rows }) {
  const name = words(kind);
  const head = [name, "cases", `before update ${whole(from)}`, "since then", "95 % interval"];
  const cell = (text) => element("td", { class: "number" }, text);
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `Outcome by ${name}` },
    element("div", { class: "soft small" }, `Mean outcome by ${name}, those that are lost most first${values > rows.length ? `: ${rows.length} of ${whole(values)}` : ""}.`),
    element("table", {}, element("thead", {}, element("tr", {}, head.map((each, i) => element("th", { scope: "col", class: i ? "number" : "" }, each)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, element("td", {}, row.value), cell(whole(row.cases)), cell(percent(row.before, 0)), cell(percent(row.now, 0)), cell(`${percent(row.low, 0)} to ${percent(row.high, 0)}`))))));
}
