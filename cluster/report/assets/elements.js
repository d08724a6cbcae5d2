// Elements, numbers in words, the tooltip and the theme. Text from a run only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";
const MISSING = "–";

function element(name, attributes = {}, ...children) {
  const drawn = ["svg", "g", "path", "line", "rect", "circle", "text", "polyline"].includes(name);
  const made = drawn ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") Object.assign(made.style, value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.startsWith("aria-")) made.setAttribute(key, String(value));
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const percent = (share, digits = 1) => (share === null ? MISSING : `${(100 * share).toFixed(digits)} %`);
const whole = (number) => number.toLocaleString("en-US");
const signed = (number) => `${number < 0 ? "−" : "+"}${plain(Math.abs(number))}`;

function plain(number) {
  if (number === null || number === undefined) return MISSING;
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size >= 1e6) return `${+(number / 1e6).toFixed(1)}M`;
  if (size >= 1e3) return `${+(number / 1e3).toFixed(1)}k`;
  if (size < 1e-3) return number.toExponential(0).replace("-", "−");
  return String(+number.toPrecision(3)).replace("-", "−");
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = seconds / 60;
  return minutes < 90 ? `${minutes.toFixed(minutes < 10 ? 1 : 0)} min` : `${(minutes / 60).toFixed(1)} h`;
}

const clipped = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
const words = (name) => name.replaceAll("_", " ");

const tip = document.getElementById("tip");

function showTip(x, y, ...lines) {
  tip.replaceChildren(...lines.map((line, i) => element(i ? "div" : "b", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth - 8 ? x - 14 - box.width : x + 14;
  const top = y + 14 + box.height > innerHeight - 8 ? y - 14 - box.height : y + 14;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

const hideTip = () => { tip.hidden = true; };

// Colours are the style sheet's; a canvas has to ask for them again when the theme changes.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const redraws = new Set();
const redraw = () => redraws.forEach((draw) => draw());

function mixed(from, to, share) {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [a, b] = [parts(from), parts(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(" ")})`;
}

function themeButton() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const button = element("button", { id: "theme", type: "button", onclick: () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    say();
    redraw();
  } });
  const say = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Show the page in ${isDark() ? "light" : "dark"} colours`); };
  dark.addEventListener("change", () => { say(); redraw(); });
  say();
  return button;
}

function chooser(name, options, onchange, id) {
  const select = element("select", { id, onchange: () => onchange(select.value) }, options.map(([value, text]) => element("option", { value }, text)));
  return element("label", {}, name, select);
}

function section(id, title, ...children) {
  return element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), ...children);
}

// Links to the sections; where they do not all fit, the sides that have more are faded.
function listSections(sections) {
  const holder = document.getElementById("sections");
  const same = [...holder.querySelectorAll("a")].map((each) => each.hash).join() === sections.map((each) => `#${each.id}`).join();
  if (same && sections.length) return;
  const links = element("div", {}, sections.map((each) => element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)));
  const mark = () => {
    const left = links.scrollLeft, more = links.scrollWidth - links.clientWidth - left;
    links.dataset.more = [left > 1 ? "left" : "", more > 1 ? "right" : ""].join(" ").trim();
  };
  links.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(links);
  holder.replaceChildren(links);
}

const swatch = (shade, text, line = false) => element("span", {}, element("i", { class: line ? "swatch line" : "swatch", style: { background: shade } }), text);
