// Intentions: the map, the ranking beside it, and how their share of play moved.

const SHADES = 7; // intentions with a colour of their own; the others are one

// The chosen intention, shared by map, ranking and, in a report, games.
function choice() {
  const followers = [];
  return {
    value: null,
    set(value) { this.value = value; followers.forEach((follow) => follow()); },
    follow(follow) { followers.push(follow); },
  };
}

function intentionsOf({ map, play, missing }, along, chosen) {
  if (!map) return section("intentions", "Intentions", element("p", { class: "note" }, missing));
  const name = Object.fromEntries(map.intentions.map((each) => [each.id, each.exemplars[0].text]));
  const search = element("input", { id: "search", type: "search", placeholder: "words in the utterance", oninput: () => update() });
  const seat = chooser("Said by", [["", "everyone"], ...map.players.map((text, i) => [i, text])], () => update(), "seat");
  const intention = chooser("Intention", [["", "all"], ...map.intentions.map((each) => [each.id, `${each.id}: ${clipped(name[each.id], 32)}`])], (value) => chosen.set(value === "" ? null : +value), "intention");
  const status = element("p", { id: "shown", class: "soft small", role: "status" });
  const plane = utteranceMap(map, (id) => chosen.set(id === chosen.value ? null : id));
  const ranks = map.intentions.map((each) => rank(each, map, play, chosen));

  function update() {
    const wanted = search.value.trim().toLowerCase();
    const by = seat.querySelector("select").value;
    const count = plane.show((i) => (!wanted || map.points.text[i].toLowerCase().includes(wanted)) && (by === "" || map.points.players[i].includes(+by)), chosen.value);
    status.textContent = `${whole(count)} of ${whole(map.points.text.length)} utterances` + (map.distinct > map.points.text.length ? `; the most frequent of ${whole(map.distinct)} are on the map` : "");
  }
  chosen.follow(() => {
    intention.querySelector("select").value = chosen.value ?? "";
    for (const button of ranks) button.setAttribute("aria-pressed", String(+button.dataset.id === chosen.value));
    update();
  });

  const ramp = element("i", { class: "ramp", style: { background: "linear-gradient(90deg, var(--low), var(--middle), var(--high))" } });
  return section("intentions", "Intentions",
    element("p", { class: "soft" }, `What ${whole(map.turns)} turns of the last ${whole(map.games)} games meant: ${whole(map.distinct)} distinct utterances in ${map.k} intentions (version ${map.version}). Near each other is near in meaning; the axes have no unit.`),
    element("div", { class: "controls" }, element("label", { class: "grow" }, "Search", search), seat, intention,
      element("button", { id: "clear", type: "button", onclick: () => { search.value = ""; seat.querySelector("select").value = ""; chosen.set(null); } }, "Show all")),
    element("div", { class: "two" },
      element("div", { class: "card" }, element("div", { class: "plane" }, plane.canvas),
        element("div", { class: "legend" }, element("span", {}, `worth ${plain(map.low)}`, ramp, plain(map.high)), element("span", {}, `middle: the mean, ${plain(map.mean)}`), element("span", {}, "size: how often it was said")),
        status),
      element("div", { class: "card ranks" }, element("h3", {}, "Ranked by what they are worth"), element("div", { class: "soft small" }, "worth · what was said most · share of the sampled turns over training"),
        element("ol", { id: "ranks" }, ranks.map((button) => element("li", {}, button))))),
    play ? element("div", { class: "stack", style: { marginTop: "1rem" } }, overTime(play, name, along).map((card) => element("div", { class: "card" }, card))) : null);
}

function rank(each, map, play, chosen) {
  const away = awayFrom(map, each.worth);
  const shade = `color-mix(in srgb, var(--${away < 0 ? "low" : "high"}) ${Math.round(100 * Math.abs(away))}%, var(--middle))`;
  const others = each.exemplars.slice(1).map((other) => other.text).join(" · ");
  return element("button", { type: "button", class: "rank", "data-id": each.id, "aria-pressed": "false", title: each.exemplars.map((other) => `${other.text}  ×${other.count}`).join("\n"), onclick: () => chosen.set(chosen.value === each.id ? null : each.id) },
    element("span", { class: "worth" }, element("i", { class: "chip", style: { background: shade } }), plain(each.worth)),
    element("span", { class: "words" }, each.exemplars[0].text),
    play && play.shares[each.id] ? sparkline(play.shares[each.id], "var(--soft)") : element("span"),
    element("span", { class: "more" }, `${percent(each.share)} of turns, ${whole(each.distinct)} distinct${others ? ` · ${others}` : ""}`));
}

// Mean over neighbouring bins, each counting by its turns.
function smoothed(values, weights, half) {
  return values.map((_, i) => {
    let sum = 0, weight = 0;
    for (let j = Math.max(0, i - half); j <= Math.min(values.length - 1, i + half); j++) { sum += values[j] * weights[j]; weight += weights[j]; }
    return weight ? sum / weight : 0;
  });
}

// Two charts over the updates: the share of play of the intentions that moved most, and their mean credit.
function overTime(play, name, along) {
  const half = play.updates.length > 12 ? 2 : 1;
  const all = Object.entries(play.shares).map(([id, values]) => ({ id, values: smoothed(values, play.turns, half) }));
  const moved = ({ values }) => Math.max(...values) - Math.min(...values);
  const own = [...all].sort((a, b) => moved(b) - moved(a)).slice(0, SHADES).sort((a, b) => (b.values.at(-1) - b.values[0]) - (a.values.at(-1) - a.values[0]));
  const rest = all.filter((each) => !own.includes(each));
  const named = own.map((each, i) => ({ ...each, name: clipped(name[each.id] ?? `intention ${each.id}`, 34), colour: `var(--c${i})` }));
  const bands = rest.length ? [...named, { name: `${rest.length} others`, values: play.updates.map((_, i) => rest.reduce((sum, each) => sum + each.values[i], 0)), colour: `var(--c${SHADES})` }] : named;
  let from = play.updates.map(() => 0);
  const areas = bands.map((band) => {
    const area = { name: band.name, at: play.updates, from, to: from.map((value, i) => value + band.values[i]), colour: band.colour };
    from = area.to;
    return area;
  });
  const lines = named.map((each) => ({ name: each.name, at: play.updates, values: play.credit[each.id], colour: each.colour, width: 1.8 }));
  return [
    [element("h3", {}, "How play moved"), element("div", { class: "soft small" }, "share of the policy’s sampled turns; the intentions that moved most, from those that gained (below) to those that lost"),
      chart({ label: `Share of play of ${bands.length} groups of intentions over updates`, areas, y: [0, 1], show: (value) => percent(value, 0), height: 300, along }),
      element("div", { class: "legend" }, bands.map((band) => swatch(band.colour, band.name)))],
    [element("h3", {}, "What it earned"), element("div", { class: "soft small" }, "mean credit of the turns of the same intentions: their advantage, or their return less the mean at the turn"),
      chart({ label: `Mean credit of ${lines.length} intentions over updates`, lines, height: 220, along })],
  ];
}
