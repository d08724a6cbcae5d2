// Taking a figure away, as a picture or as numbers. Nothing leaves the browser but into a file.

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-family", "text-anchor"];
const PNG_SCALE = 2;
const EDGES = 10; // pixels beside a figure, for axes are written close to its sides

function saveFile(name, kind, content) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function saveMenu(spec, drawing) {
  const name = spec.label.split(/[:,]/)[0].toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const pick = (kind, save) => element("button", { type: "button", onclick: () => { save(); menu.open = false; } }, kind);
  const menu = element("details", { class: "save" }, element("summary", { "aria-label": `Save: ${spec.label.split(":")[0]}` }, "Save"),
    element("div", {},
      pick("SVG", () => saveFile(`${name}.svg`, "image/svg+xml", standalone(drawing(), spec).text)),
      pick("PNG", () => savePng(`${name}.png`, standalone(drawing(), spec))),
      pick("CSV", () => saveFile(`${name}.csv`, "text/csv", csvOf(spec)))));
  return menu;
}

// The figure with the colours that it has now, its title and the names of its lines: it needs no style sheet.
function standalone(svg, spec) {
  const copy = svg.cloneNode(true);
  const [shown, made] = [svg, copy].map((each) => [each, ...each.querySelectorAll("*")]);
  made.forEach((each, i) => {
    const style = getComputedStyle(shown[i]);
    for (const name of STYLED) each.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["style", "class"]) each.removeAttribute(name);
  });
  copy.querySelectorAll("[visibility=hidden]").forEach((each) => each.remove());
  const named = [...(spec.lines ?? []), ...(spec.areas ?? [])].filter((each) => each.name);
  const [width, height, head] = [svg.clientWidth, svg.clientHeight, 30 + 18 * named.length];
  const shade = (value) => { const probe = element("i", { style: { color: value } }); document.body.append(probe); const found = getComputedStyle(probe).color; probe.remove(); return found; };
  const text = (x, y, fill, words_) => element("text", { x, y, fill: shade(fill), "font-size": 13, "font-family": "sans-serif" }, words_);
  copy.prepend(element("rect", { x: -EDGES, y: -head, width: width + 2 * EDGES, height: height + head, fill: shade("var(--card)") }), text(12, 20 - head, "var(--ink)", spec.label),
    ...named.flatMap((each, i) => [element("rect", { x: 12, y: 31 - head + 18 * i, width: 12, height: 8, fill: shade(each.colour) }), text(32, 39 - head + 18 * i, "var(--ink)", each.name)]));
  for (const [name, value] of Object.entries({ xmlns: SVG, width: width + 2 * EDGES, height: height + head, viewBox: `${-EDGES} ${-head} ${width + 2 * EDGES} ${height + head}` })) copy.setAttribute(name, value);
  return { text: new XMLSerializer().serializeToString(copy), width: width + 2 * EDGES, height: height + head };
}

function savePng(name, { text, width, height }) {
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: PNG_SCALE * width, height: PNG_SCALE * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((made) => saveFile(name, "image/png", made), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

// One row for each value: along what the figure is drawn now.
function csvOf(given) {
  const spec = onAxis(given);
  const cell = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const rows = [...(spec.lines ?? []), ...(spec.areas ?? [])].flatMap((each) =>
    each.at.map((at, i) => [each.name ?? "each update", at, each.values ? each.values[i] : each.to[i] - each.from[i], each.low?.[i], each.high?.[i]]));
  return [["series", spec.x ?? "learner update", "value", "low", "high"], ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
