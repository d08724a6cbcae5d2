// Who did what when: the loop's stages, and how many games each worker had in flight.

const STAGE_COLOURS = { collect: "c7", shape: "c3", learn: "c0", samples: "c6", sync: "c5", evaluate: "c1", checkpoint: "c2", record: "c4" };
const STAGE_WORDS = { collect: "wait for games", shape: "wait for rewards", samples: "keep games", evaluate: "held-out games" };
const stageName = (stage) => STAGE_WORDS[stage] ?? words(stage);

function lanesOf(run) {
  const found = run.lanes;
  if (!found) return null;
  const spent = {};
  for (const [, spans] of found.updates) for (const [stage, from, to] of spans) spent[stage] = (spent[stage] ?? 0) + to - from;
  const all = Object.values(spent).reduce((sum, each) => sum + each, 0) || 1;
  const stages = Object.keys(spent).sort((a, b) => spent[b] - spent[a]);
  const named = stages.map((stage) => [stage, `${stageName(stage)} ${percent(spent[stage] / all, 0)}`]);
  const loop = picture(46, `Stages of the loop: ${named.map(([, text]) => text).join(", ")}`, (width, height) => loopOf(found, width, height));
  const most = Math.max(1, ...found.workers.flatMap((each) => each.games));
  const workers = found.workers.map(({ worker, games }) => {
    const label = `Worker ${worker}: ${plain(games.reduce((sum, each) => sum + each, 0) / games.length)} games in flight on average, at most ${plain(Math.max(...games))}`;
    return lane(`worker ${worker}`, picture(34, label, (width, height) => inFlight(worker, games, most, width, height)));
  });
  return section("lanes", "Where the time goes",
    element("p", { class: "soft" }, `The last ${found.updates.length} updates, ${duration(found.seconds)}: above the training loop, whose stages are drawn in its own order, and below the games that each worker played.`),
    element("div", { class: "card stack" }, lane("loop", loop), workers),
    element("div", { class: "legend" }, named.map(([stage, text]) => swatch(`var(--${STAGE_COLOURS[stage] ?? "c7"})`, text))));
}

const lane = (name, drawing) => element("div", { class: "lane" }, element("div", { class: "soft small" }, name), drawing);

function picture(height, label, draw) {
  const holder = element("div", { class: "chart", role: "img", "aria-label": label });
  new ResizeObserver(() => {
    if (holder.clientWidth) holder.replaceChildren(draw(holder.clientWidth, height));
  }).observe(holder);
  return holder;
}

const canvasOf = (width, height, ...inside) => element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true }, ...inside);

function loopOf(found, width, height) {
  const x = (seconds) => (seconds / Math.max(found.seconds, 1e-9)) * width;
  const bars = found.updates.flatMap(([update, spans]) => spans.map(([stage, from, to]) => {
    const bar = element("rect", { x: x(from), y: 4, width: Math.max(0.5, x(to) - x(from)), height: height - 8, style: { fill: `var(--${STAGE_COLOURS[stage] ?? "c7"})` } });
    bar.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, `update ${update}`, `${stageName(stage)}  ${plain(to - from)} s`));
    bar.addEventListener("pointerleave", hideTip);
    return bar;
  }));
  return canvasOf(width, height, bars);
}

function inFlight(worker, games, most, width, height) {
  const step = width / games.length;
  const top = (value) => height - (value / most) * (height - 2);
  const line = games.flatMap((value, i) => [`${i * step},${top(value)}`, `${(i + 1) * step},${top(value)}`]);
  const svg = canvasOf(width, height, element("path", { d: `M0,${height}L${line.join("L")}L${width},${height}Z`, style: { fill: "var(--accent)", opacity: 0.55 } }));
  svg.addEventListener("pointermove", (event) => {
    const i = Math.min(games.length - 1, Math.max(0, Math.floor((event.clientX - svg.getBoundingClientRect().left) / step)));
    showTip(event.clientX, event.clientY, `worker ${worker}`, `${plain(games[i])} games in flight`);
  });
  svg.addEventListener("pointerleave", hideTip);
  return svg;
}
