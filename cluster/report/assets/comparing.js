// Runs side by side: of each game one chart, a line for each recipe, and what sets the recipes apart.

function comparisonOf(compared) {
  const longest = compared.flatMap(({ groups }) => groups).reduce((best, each) => (each.along.updates.length > best.along.updates.length ? each : best));
  return section("compared", "Runs compared", axisChooser(longest.along, "along-compared"),
    element("div", { class: "stack" }, compared.map((each) => element("div", { class: "card" }, gameCompared(each, compared.length > 1)))));
}

function gameCompared({ game, groups, differ, copies }, several) {
  const shade = (i) => `var(--c${[0, 5, 2, 3, 1, 4, 6][i % 7]})`;
  const runs = (group) => (group.runs.length > 1 ? `${group.runs.length} seeds` : group.runs[0]);
  const title = (group) => (groups.length > 1 ? `${group.name} · ${runs(group)}` : runs(group));
  const lines = groups.flatMap((group, i) => [
    { name: clipped(title(group), 60), at: group.outcome.map((each) => each.update), values: group.outcome.map((each) => each.mean), low: group.outcome.map((each) => each.low), high: group.outcome.map((each) => each.high), colour: shade(i), width: 2.4, along: group.along },
    { at: group.evaluations.map((each) => each.update), values: group.evaluations.map((each) => each.mean), low: group.evaluations.map((each) => each.low), high: group.evaluations.map((each) => each.high), colour: shade(i), points: true, shift: 9 * (i - (groups.length - 1) / 2), along: group.along },
  ]);
  const last = (group) => group.evaluations.at(-1);
  const cell = (text) => element("td", { class: "number" }, text);
  const rows = groups.map((group, i) => element("tr", {}, element("td", { title: group.runs.join("\n") }, swatch(shade(i), ` ${title(group)}`)), cell(group.runs.length),
    cell(last(group) ? percent(last(group).mean) : MISSING),
    cell(last(group) && last(group).low !== null ? `${percent(last(group).low)} to ${percent(last(group).high)}` : MISSING)));
  const seeds = groups.some((group) => group.runs.length > 1);
  const table = (head, body) => element("table", {}, element("thead", {}, element("tr", {}, head.map((name, i) => element("th", { scope: "col", class: i ? "number" : "" }, name)))), element("tbody", {}, body));
  return [
    several ? element("h3", {}, words(game)) : null,
    chart({ label: `Outcome in ${words(game)}: ${groups.length} kinds of runs`, lines: lines.filter((line) => line.at.length), y: [0, 1], show: (value) => percent(value, 0), height: 380 }),
    element("p", { class: "legend" }, `Lines: mean training outcome, smoothed. Points: held-out win rate. ${seeds ? "Bands and bars: 95 % interval of the mean over seeds." : "Bars: 95 % interval over games."}`),
    table(["runs that share", "seeds", "last win rate", "95 % interval"], rows),
    copies.length ? element("p", { class: "note" }, `Counted once: ${copies.map(([copy, of]) => `${copy} is a copy of ${of}`).join("; ")}.`) : null,
    differ.length ? element("details", {}, element("summary", {}, `What differs: ${differ.length} setting${differ.length > 1 ? "s" : ""}`),
      element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Settings that differ" },
        element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "setting"), groups.map((group, i) => element("th", { scope: "col" }, swatch(shade(i), runs(group)))))),
          element("tbody", {}, differ.map(({ setting, values }) => element("tr", {}, element("td", { class: "mono" }, setting), values.map((value) => element("td", { class: "mono" }, value ?? MISSING)))))))) : null,
  ].filter(Boolean);
}
