// The map of utterances: a point each, coloured by what its turns were worth, as large as it is frequent.

const EDGE = 26; // pixels around the points
const LABELS = 16; // utterances written on the map, at most

// -1 and 1 are the ends of the colours, 0 is the mean; the two sides are scaled each by itself.
function awayFrom({ mean, low, high }, worth) {
  return worth < mean ? -Math.min(1, (mean - worth) / (mean - low || 1)) : Math.min(1, (worth - mean) / (high - mean || 1));
}

// onpick(intention) is told which one was tapped; the answer has `show(filter)` for what is to be seen
function utteranceMap(map, onpick) {
  const { points } = map;
  const canvas = element("canvas", { id: "map", tabindex: 0, role: "img", "aria-label": `Map of ${points.text.length} distinct utterances. Arrow keys go from one to the next, Enter chooses its intention.` });
  const largest = Math.max(...points.count);
  const order = points.count.map((_, i) => i); // most frequent first, so small ones are drawn over large ones
  let visible = points.text.map(() => true), picked = null, current = null;

  const room = Math.max(0.3, Math.min(1, Math.sqrt(300 / order.length))); // many points are small ones
  const radius = (i) => 3 + 13 * room * Math.sqrt(points.count[i] / largest);
  const place = (i) => [EDGE + points.x[i] * (canvas.clientWidth - 2 * EDGE), EDGE + (1 - points.y[i]) * (canvas.clientHeight - 2 * EDGE)];
  const faded = (i) => picked !== null && points.intention[i] !== picked;

  function draw() {
    const ratio = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const shades = { low: colour("low"), middle: colour("middle"), high: colour("high"), ink: colour("ink"), card: colour("card") };
    for (const pass of [true, false]) {
      for (const i of order) {
        if (!visible[i] || faded(i) !== pass) continue;
        const away = awayFrom(map, points.worth[i]);
        const [x, y] = place(i);
        pen.globalAlpha = pass ? 0.13 : 0.88;
        pen.beginPath();
        pen.arc(x, y, radius(i), 0, 7);
        pen.fillStyle = mixed(shades.middle, away < 0 ? shades.low : shades.high, Math.abs(away));
        pen.fill();
        pen.lineWidth = 1;
        pen.strokeStyle = shades.card;
        pen.stroke();
      }
    }
    label(pen, shades);
    if (current !== null && visible[current]) {
      const [x, y] = place(current);
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(x, y, radius(current) + 2.5, 0, 7);
      pen.lineWidth = 2;
      pen.strokeStyle = shades.ink;
      pen.stroke();
    }
  }

  // What is said most, of each intention or of the chosen one, in words where there is room.
  function label(pen, shades) {
    const seen = order.filter((i) => visible[i] && !faded(i));
    const named = (picked === null ? seen.filter((i, at) => seen.findIndex((j) => points.intention[j] === points.intention[i]) === at) : seen).slice(0, LABELS);
    const taken = [];
    pen.globalAlpha = 1;
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.lineJoin = "round";
    for (const i of named) {
      const text = clipped(points.text[i], 26), half = pen.measureText(text).width / 2;
      const [x, y] = [Math.max(half + 4, Math.min(canvas.clientWidth - half - 4, place(i)[0])), place(i)[1] - radius(i) - 5];
      if (y < 14 || taken.some(([a, b, wide]) => Math.abs(a - x) < wide + half + 6 && Math.abs(b - y) < 16)) continue;
      taken.push([x, y, half]);
      pen.strokeStyle = shades.card;
      pen.lineWidth = 4;
      pen.strokeText(text, x, y);
      pen.fillStyle = shades.ink;
      pen.fillText(text, x, y);
    }
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    let best = null, distance = Infinity;
    for (const i of order) {
      if (!visible[i] || faded(i)) continue;
      const [x, y] = place(i);
      const away = Math.hypot(event.clientX - box.left - x, event.clientY - box.top - y);
      if (away <= Math.min(distance, radius(i) + 6)) [best, distance] = [i, away];
    }
    return best;
  }

  function look(i) {
    if (i !== current) { current = i; draw(); }
    if (i === null) { hideTip(); return; }
    const box = canvas.getBoundingClientRect();
    const [x, y] = place(i);
    showTip(box.left + x, box.top + y, points.text[i], `worth ${plain(points.worth[i])} on average, said ${whole(points.count[i])} times`,
      `intention ${points.intention[i]}, by ${points.players[i].map((each) => map.players[each]).join(" and ")}`);
  }

  canvas.addEventListener("pointermove", (event) => look(nearest(event)));
  canvas.addEventListener("pointerleave", () => look(null));
  canvas.addEventListener("blur", () => look(null));
  canvas.addEventListener("click", (event) => { const i = nearest(event); look(i); onpick(i === null ? null : points.intention[i]); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const seen = order.filter((i) => visible[i] && !faded(i));
    if (step && seen.length) look(seen[(seen.indexOf(current) + step + seen.length) % seen.length]);
    else if (event.key === "Enter" && current !== null) onpick(points.intention[current]);
    else if (event.key === "Escape") { look(null); onpick(null); } else return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(canvas);
  redraws.add(draw);

  return {
    canvas,
    show(filter, intention) {
      visible = points.text.map((_, i) => filter(i));
      picked = intention;
      current = null;
      draw();
      return order.filter((i) => visible[i] && !faded(i)).length;
    },
  };
}
