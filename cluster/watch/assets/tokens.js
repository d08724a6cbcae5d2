// One game whole: as a conversation with credit on the words, or token by token.

function conversation(game, holder, tokens) {
  const credits = game.dialogue.map(creditOf);
  const largest = (values) => values.reduce((most, each) => Math.max(most, Math.abs(each ?? 0)), 1e-6);
  const scale = largest(credits);
  const ofWords = largest(game.dialogue.flatMap((turn) => (turn.words ?? []).map(([, credit]) => credit)));
  const mine = game.seats.filter((each) => each.player === "policy");
  const bySeat = (name) => Object.fromEntries(game.seats.map((each) => [each.seat, each[name]]));
  const shown = {
    update: game.update, number: game.number, terminated: !game.cut_off, facts: game.facts,
    closing: Object.fromEntries(Object.entries(game.closing).filter(([, text]) => text)),
    seats: (mine.length ? mine : game.seats).map((each) => each.seat), outcome: bySeat("outcome"), players: bySeat("player"),
    turns: game.dialogue.map((turn, i) => ({
      seat: turn.seat, heard: turn.observation, said: turn.utterance, caption: turn.caption, executable: turn.executable, paid: turn.reward,
      ...(credits[i] === null ? {} : { credit: credits[i] }), ...(turn.label === null ? {} : { intention: turn.label }),
      ...(turn.words ? { words: turn.words } : {}), ...(turn.versions.length ? { weights: span(turn.versions) } : {}) })),
  };
  const about = [game.failure ? `failed: ${game.failure}` : null, game.held_out ? "held out" : null, game.worker === null ? null : `worker ${game.worker}${game.node ? ` on ${game.node.slice(0, 8)}` : ""}`,
    game.seconds === null ? null : duration(game.seconds), game.attempt ? `attempt ${game.attempt + 1}` : null, `seed ${game.seed}`].filter(Boolean).join(", ");
  holder.replaceChildren(element("p", { class: "soft small" }, about), ...told(shown, scale, "", ofWords));
  if (!tokens) return;
  holder.querySelectorAll(".turn").forEach((row, i) => {
    const turn = game.dialogue[i];
    if (turn && turn.utterance_ids.length) row.append(tokenTable(turn));
  });
}

function span(versions) {
  const [low, high] = [Math.min(...versions), Math.max(...versions)];
  return low === high ? `${low}` : `${low} to ${high}`;
}

// of a turn: the mean of what its tokens were trained with, of a choice what stands at its first; before that what the shaper gave
function creditOf(turn) {
  if (turn.chosen !== null && turn.credit.length) return turn.credit[0];
  if (turn.credit.length) return turn.credit.reduce((sum, each) => sum + each, 0) / turn.credit.length;
  return turn.shaped ?? null;
}

function tokenTable(turn) {
  const moments = [["asked after", turn.asked], ["answered after", turn.answered], ["game went on after", turn.played]];
  const about = [...moments.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${plain(value)} s`), turn.finish ? `ended by ${turn.finish}` : null].filter(Boolean).join(", ");
  const cell = (text) => element("td", { class: "number" }, text);
  const rows = turn.utterance_ids.map((id, i) => element("tr", {}, cell(String(id)), ...(turn.pieces ? [element("td", {}, turn.pieces[i])] : []), cell(plain(turn.logprobs[i])), cell(plain(Math.exp(turn.logprobs[i]))), cell(String(turn.versions[i])), cell(plain(turn.credit[i]))));
  const heads = ["token", ...(turn.pieces ? ["text"] : []), "log-prob", "probability", "weights", "advantage"].map((name) => element("th", { class: name === "text" ? "" : "number", scope: "col" }, name));
  return element("div", { class: "tokens", tabindex: 0, role: "region", "aria-label": `Tokens of ${turn.seat}` }, element("p", { class: "soft small" }, about), element("table", {}, element("thead", {}, element("tr", {}, heads)), element("tbody", {}, rows)));
}
