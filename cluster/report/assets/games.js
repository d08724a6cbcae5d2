// Sampled games, one at a time, with credit on the words.

function gamesOf(run, chosen) {
  const { games, scale, scale_of_words, kind, sampled } = run.games;
  const parts = { training: games, held_out: run.held_out };
  const everything = [...games, ...run.held_out];
  if (!everything.length) return section("games", "Games", element("p", { class: "note" }, "A run keeps games to show while samples.episodes is above 0; this one has none."));
  const state = { outcome: "", seat: "", span: "", meant: false, part: games.length ? "training" : "held_out", shade: "", at: 0 };
  const byToken = games.some((game) => game.turns.some((turn) => turn.words));
  if (byToken) state.shade = "token";
  const seats = [...new Set(everything.flatMap((game) => game.seats))];
  const updates = everything.map((game) => game.update);
  const [first, last] = [Math.min(...updates), Math.max(...updates)];
  const spans = [0, 1, 2, 3].map((part) => [first + ((last - first + 1) * part) / 4, first + ((last - first + 1) * (part + 1)) / 4]);
  const holder = element("div", { class: "card game", id: "game", tabindex: -1 });
  const shaded = element("div", { class: "legend" });
  const status = element("span", { id: "which", class: "soft small", role: "status" });
  const back = element("button", { id: "back", type: "button", onclick: () => step(-1) }, "Earlier");
  const forth = element("button", { id: "forth", type: "button", onclick: () => step(1) }, "Later");
  const meant = element("select", { id: "meant", onchange: () => refilter({ meant: meant.value === "1" }) }, element("option", { value: "" }, "any"), element("option", { value: "1" }, "the one chosen above"));
  let found = parts[state.part];

  const result = (game) => { const all = (state.seat ? [state.seat] : game.seats).map((seat) => game.outcome[seat]); return all.every((value) => value >= 1) ? "won" : all.some((value) => value > 0) ? "between" : "lost"; };
  const fits = (game) => (!state.seat || game.seats.includes(state.seat)) && (!state.outcome || result(game) === state.outcome)
    && (!state.span || (game.update >= spans[state.span][0] && game.update < spans[state.span][1]))
    && (!state.meant || chosen.value === null || game.turns.some((turn) => turn.intention === chosen.value));

  // where to begin: at the last game that was won, if there is one
  const latest = () => { const won = found.findLastIndex((game) => result(game) === "won"); return won < 0 ? Math.max(0, found.length - 1) : won; };
  function refilter(change = {}) {
    Object.assign(state, change);
    found = parts[state.part].filter(fits);
    state.at = latest();
    draw();
  }
  function step(by) { state.at = Math.max(0, Math.min(found.length - 1, state.at + by)); draw(); }
  function draw() {
    const game = found[state.at];
    status.textContent = game ? `game ${whole(state.at + 1)} of ${whole(found.length)}${found.length < parts[state.part].length ? ` (${whole(parts[state.part].length)} in all)` : ""}` : "no sampled game fits";
    back.disabled = !game || state.at === 0;
    forth.disabled = !game || state.at === found.length - 1;
    holder.replaceChildren(...(game ? told(game, scale, state.seat, state.shade ? scale_of_words : null) : []));
    shaded.replaceChildren(...legend());
  }
  const choose = (name, options, key) => chooser(name, options, (value) => refilter({ [key]: value }), `game-${key}`);
  const tint = (side, alpha) => `rgba(var(--tint-${side}), ${alpha})`;
  const ramp = { background: `linear-gradient(90deg, ${tint("low", 0.5)}, ${tint("low", 0)} 50%, ${tint("high", 0)} 50%, ${tint("high", 0.5)})` };
  function legend() {
    const what = state.shade ? "behind a token: the advantage that it was trained with" : kind === "advantage" ? "behind a turn’s words: the advantage that they were trained with"
      : "behind a turn’s words: its discounted return, less the mean of the sampled games at the same turn";
    const most = plain(state.shade ? scale_of_words : scale);
    return [element("span", {}, `−${most}`, element("i", { class: "ramp", style: ramp }), `+${most}`), element("span", {}, "orange: less of this; blue: more of it"), element("span", {}, what)];
  }
  chosen.follow(() => state.meant && refilter());
  refilter();

  return section("games", "Games",
    element("p", { class: "soft" }, `${whole(games.length)}${games.length < sampled ? ` of ${whole(sampled)}` : ""} sampled games that the run learned from, and ${whole(run.held_out.length)} of its first and newest evaluation.`),
    element("div", { class: "controls" },
      games.length && run.held_out.length ? choose("Games", [["training", "training"], ["held_out", "held out"]], "part") : null,
      byToken ? choose("Credit", [["token", "of tokens"], ["", "of turns"]], "shade") : null,
      choose("Outcome", [["", "any"], ["won", "won"], ["between", "in between"], ["lost", "lost"]], "outcome"),
      seats.length > 1 ? choose("Seat", [["", "all"], ...seats.map((seat) => [seat, seat])], "seat") : null,
      choose("Updates", [["", `${first} to ${last}`], ...spans.map(([from, to], i) => [String(i), `${Math.ceil(from)} to ${Math.ceil(to) - 1}`]).filter((_, i) => Math.ceil(spans[i][1]) > Math.ceil(spans[i][0]))], "span"),
      run.intentions.map ? element("label", {}, "Intention", meant) : null, back, forth, status),
    shaded, holder);
}

// `scaleOfWords`: null where turns are shaded whole
function told(game, scale, only, scaleOfWords) {
  const outcome = game.seats.map((seat) => `${seat} ${plain(game.outcome[seat])}`).join(", ");
  const facts = Object.entries(game.facts).map(([name, value]) => element("span", { class: "tag" }, `${words(name)}: ${value}`));
  const players = Object.entries(game.players).filter(([, player]) => player !== "policy").map(([seat, player]) => `${seat} is ${player}`);
  return [
    element("div", { class: "bar" }, element("h3", {}, `Update ${game.update}, game ${whole(game.number)}`), element("b", {}, `outcome: ${outcome}`)),
    element("div", { class: "legend" }, players, element("span", {}, game.terminated ? "played to its end" : "cut off"), facts),
    ...game.turns.filter((turn) => !only || turn.seat === only || !game.seats.includes(turn.seat)).map((turn) => turnOf(turn, scale, scaleOfWords)),
    ...Object.entries(game.closing).map(([seat, text]) => element("div", { class: "turn" }, element("div", { class: "heard" }, `(${seat}) ${text}`))),
  ];
}

function turnOf(turn, scale, scaleOfWords) {
  const mine = turn.credit !== undefined;
  const shade = (credit, most) => ({ style: { background: `rgba(var(--tint-${credit < 0 ? "low" : "high"}), ${(0.5 * Math.min(1, Math.abs(credit) / most)).toFixed(3)})` } });
  const said = turn.words && scaleOfWords ? element("span", {}, turn.words.map(([text, credit]) => element("span", { ...shade(credit, scaleOfWords), title: signed(credit) }, text)))
    : element("span", mine ? shade(turn.credit, scale) : {}, turn.said || "(nothing)");
  const notes = [mine ? `credit ${signed(turn.credit)}` : null, turn.intention !== undefined ? `intention ${turn.intention}` : null, turn.paid ? `paid ${signed(turn.paid)}` : null,
    turn.weights !== undefined ? `weights ${turn.weights}` : null, turn.executable === false ? "not understood" : null];
  return element("div", { class: mine ? "turn mine" : "turn other" },
    turn.heard ? element("div", { class: "heard" }, turn.heard) : null,
    element("div", { class: "said" }, element("b", { class: "who" }, turn.seat), said),
    element("div", { class: "notes" }, turn.caption ? element("span", { class: "caption" }, turn.caption) : null, notes.filter(Boolean).map((note) => element("span", {}, note))));
}
