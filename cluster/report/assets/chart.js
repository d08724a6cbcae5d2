// Charts over updates: axes, lines, bands, points with intervals, areas. Drawn for the width there is.

function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.7);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

function powers(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high) + 1e-9); power++) found.push(10 ** power);
  return found.length > 4 ? found.filter((_, i) => i % Math.ceil(found.length / 4) === 0) : found;
}

// [low, high] of the values, a little wider; a logarithmic axis leaves out what is not above 0
function extent(values, log = false) {
  const found = values.filter((value) => value !== null && Number.isFinite(value) && (!log || value > 0));
  if (!found.length) return log ? [0.1, 1] : [0, 1];
  let low = Math.min(...found), high = Math.max(...found);
  if (log) return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high) + 1e-9)];
  if (low > 0 && low < 0.5 * high) low = 0;
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  return [low, high + (high - low) * 0.05];
}

// spec: label (for those who do not see it), what (text above the axis), lines: [{name, at, values, low, high,
// colour, width, faint, points, shift, along}], areas: [{name, at, from, to, colour}], y: [low, high], show: number -> text, log, height, along
function chart(spec) {
  const holder = element("div", { class: "chart", role: "img", "aria-label": spec.label });
  const draw = () => {
    const width = holder.clientWidth;
    if (width) holder.replaceChildren(drawn(spec, width));
  };
  new ResizeObserver(draw).observe(holder);
  holder.redraw = draw;
  return element("div", { class: "drawing" }, saveMenu(spec, () => holder.querySelector("svg")), holder);
}

function drawn(given, width) {
  const spec = onAxis(given);
  const { lines = [], areas = [], log = false, height = 320, small = false } = spec;
  const show = spec.show ?? plain;
  const everything = [...lines, ...areas];
  const values = lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]);
  const [low, high] = spec.y ?? extent(values, log);
  const at = everything.flatMap((each) => each.at);
  let [first, last] = [Math.min(...at), Math.max(...at)];
  if (first === last) [first, last] = [first - 1, last + 1];
  const marks = log ? powers(low, high) : ticks(low, high, small ? 3 : 5);
  const margin = { left: 10 + 7 * Math.max(...marks.map((mark) => show(mark).length)), right: 12, top: small ? 8 : 14, bottom: small ? 22 : 40 };
  const scale = log ? Math.log10 : (value) => value;
  const x = (update) => margin.left + ((update - first) / (last - first)) * (width - margin.left - margin.right);
  const y = (value) => height - margin.bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (height - margin.top - margin.bottom);
  const drawable = (value) => value !== null && value !== undefined && (!log || value > 0);
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });

  for (const mark of marks) {
    svg.append(element("line", { class: "grid-line", x1: margin.left, x2: width - margin.right, y1: y(mark), y2: y(mark) }));
    svg.append(element("text", { x: margin.left - 8, y: y(mark) + 4, "text-anchor": "end" }, show(mark)));
  }
  for (const mark of ticks(first, last, small ? 3 : Math.min(8, width / 90)).filter((mark) => spec.whole === false || Number.isInteger(mark))) {
    svg.append(element("text", { x: x(mark), y: height - margin.bottom + 17, "text-anchor": "middle" }, spec.whole === false ? plain(mark) : whole(mark)));
  }
  if (!small) svg.append(element("text", { x: (margin.left + width - margin.right) / 2, y: height - 4, "text-anchor": "middle" }, spec.x ?? "learner update"));

  for (const area of areas) {
    const there = area.at.map((update, i) => `${x(update)},${y(area.to[i])}`);
    const back = area.at.map((update, i) => `${x(update)},${y(area.from[i])}`).reverse();
    svg.append(element("path", { d: `M${[...there, ...back].join("L")}Z`, style: { fill: area.colour, opacity: area.faint ? 0.18 : 0.9 } }));
  }
  for (const line of lines) {
    const shown = line.at.map((update, i) => i).filter((i) => drawable(line.values[i]));
    const path = (list, indices) => indices.map((i) => `${x(line.at[i])},${y(list[i])}`);
    if (line.low && !line.points) {
      const banded = shown.filter((i) => drawable(line.low[i]) && drawable(line.high[i]));
      if (banded.length) svg.append(element("path", { d: `M${[...path(line.high, banded), ...path(line.low, banded).reverse()].join("L")}Z`, style: { fill: line.colour, opacity: 0.16 } }));
    }
    if (!line.points && shown.length > 1) {
      svg.append(element("polyline", { points: path(line.values, shown).join(" "), style: { fill: "none", stroke: line.colour, strokeWidth: line.width ?? 2, strokeLinejoin: "round", opacity: line.faint ? 0.45 : 1 } }));
    }
    for (const i of shown) {
      if (!line.points && shown.length > 1) break;
      const here = x(line.at[i]) + (line.shift ?? 0);
      if (line.low && drawable(line.low[i])) svg.append(element("line", { x1: here, x2: here, y1: y(line.low[i]), y2: y(line.high[i]), style: { stroke: line.colour, strokeWidth: 2 } }));
      svg.append(element("circle", { cx: here, cy: y(line.values[i]), r: small ? 2.5 : 4.5, style: { fill: line.colour, stroke: "var(--card)", strokeWidth: 1.5 } }));
    }
  }
  follow(svg, spec, x, [margin.top, height - margin.bottom], show);
  return svg;
}

// A line under the pointer, and what the chart says there.
function follow(svg, spec, x, [top, bottom], show) {
  const told = [...(spec.lines ?? []).filter((line) => line.name), ...(spec.areas ?? [])];
  const all = [...new Set(told.flatMap((each) => each.at))];
  if (!all.length) return;
  const cross = element("line", { class: "cross", y1: top, y2: bottom, visibility: "hidden" });
  svg.append(cross);
  svg.addEventListener("pointermove", (event) => {
    const here = event.clientX - svg.getBoundingClientRect().left;
    const update = all.reduce((best, each) => (Math.abs(x(each) - here) < Math.abs(x(best) - here) ? each : best));
    cross.setAttribute("x1", x(update));
    cross.setAttribute("x2", x(update));
    cross.setAttribute("visibility", "visible");
    const lines = told.flatMap((each) => {
      const i = each.at.indexOf(update);
      const value = each.values ? each.values[i] : each.to?.[i] - each.from?.[i];
      if (i < 0 || value === null || value === undefined || (!each.values && value < 0.005)) return [];
      const range = each.low && each.low[i] !== null ? `  (${show(each.low[i])} to ${show(each.high[i])})` : "";
      return [`${each.name}  ${show(value)}${range}`];
    });
    showTip(event.clientX, event.clientY, spec.unit ? `${plain(update)} ${spec.unit}` : `update ${plain(update)}`, ...lines);
  });
  svg.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); hideTip(); });
}

function sparkline(values, shade) {
  const top = Math.max(...values, 1e-9);
  const last = Math.max(1, values.length - 1);
  const points = values.map((value, i) => `${(100 * i) / last},${20 - (18 * value) / top}`);
  return element("svg", { viewBox: "0 0 100 22", preserveAspectRatio: "none", "aria-hidden": true },
    element("polyline", { points: points.join(" "), "vector-effect": "non-scaling-stroke", style: { fill: "none", stroke: shade, strokeWidth: 1.6 } }));
}
