// All games in a table: by a condition, in the order of a column, so many at a time.

const NAMES = { number: "game", game: "kind" };
const AT_ONCE = 50;
const WHOLE = ["update", "number", "turns", "tokens", "staleness", "worker", "attempt"];

function gameTable(run, open) {
  const state = { by: "-update", skip: 0, key: null };
  const search = element("input", { id: "search", type: "search", placeholder: "words that were seen or said" });
  const outcome = choices("outcome", [["", "any"], ["outcome >= 1", "won"], ["outcome > 0 and outcome < 1", "in between"], ["outcome <= 0", "lost"], ["failure != None", "failed"]]);
  const part = choices("part", [["", "all"], ["held_out == False", "training"], ["held_out == True", "held out"]]);
  const where = element("input", { id: "where", class: "mono", type: "text", placeholder: "turns > 3 and staleness >= 1", spellcheck: "false" });
  const status = element("span", { class: "soft small", role: "status", id: "found" });
  const problem = element("p", { class: "note problem", role: "alert", hidden: true });
  const head = element("tr", {});
  const body = element("tbody", {});
  const back = element("button", { type: "button", id: "earlier", onclick: () => turn(-1) }, "Back");
  const forth = element("button", { type: "button", id: "later", onclick: () => turn(1) }, "More");

  const all = element("a", { id: "csv", download: true }, "CSV");

  function choices(id, options) { return element("select", { id }, options.map(([value, text]) => element("option", { value }, text))); }
  const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const condition = () => [outcome.value, part.value, search.value.trim() && `text(${quoted(search.value.trim())})`, where.value.trim() && `(${where.value.trim()})`].filter(Boolean).join(" and ");

  const load = oneAtATime(async () => {
    let found;
    try {
      found = await ask(`runs/${run}/games`, { where: condition(), by: state.by, skip: state.skip, count: AT_ONCE });
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      return;
    }
    problem.hidden = true;
    all.href = `runs/${run}/games.csv?${new URLSearchParams({ where: condition() })}`;
    const { total, columns, rows } = found;
    status.textContent = total ? `${whole(state.skip + 1)} to ${whole(state.skip + rows.length)} of ${whole(total)} games` : "no game fits";
    back.disabled = state.skip === 0;
    forth.disabled = state.skip + rows.length >= total;
    const shown = columns.map((name, i) => i).filter((i) => columns[i] === state.by.replace("-", "") || rows.some((row) => row[i] !== null));
    head.replaceChildren(...shown.map((i) => heading(columns[i])));
    body.replaceChildren(...rows.map((row) => rowOf(row, columns, shown)));
    mark();
  });

  function rowOf(row, columns, shown) {
    const at = (name) => row[columns.indexOf(name)];
    const key = { update: at("update"), number: at("number"), attempt: at("attempt"), held_out: at("held_out") };
    const newest = row[columns.length]; // the weights that played: two evaluations may end within one update
    if (newest !== null) key.newest = newest;
    const name = JSON.stringify(key);
    const choose = (event) => { event.stopPropagation(); state.key = name; mark(); open(key); };
    const cells = shown.map((i, place) => element("td", { class: typeof row[i] === "number" ? "number" : "" },
      place ? text(columns[i], row[i]) : element("button", { type: "button", class: "plain", onclick: choose }, text(columns[i], row[i]))));
    return element("tr", { "data-key": name, onclick: choose }, cells);
  }
  function text(name, value) {
    if (value === null) return MISSING;
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value === "string") return clipped(value, 30);
    return WHOLE.includes(name) ? whole(value) : plain(value);
  }
  const mark = () => body.querySelectorAll("tr").forEach((row) => row.classList.toggle("chosen", row.dataset.key === state.key));
  function heading(name) {
    const mine = state.by.replace("-", "") === name;
    const falling = state.by.startsWith("-");
    const button = element("button", { type: "button", class: "plain", onclick: () => { state.by = mine && falling ? name : `-${name}`; anew(); } },
      NAMES[name] ?? words(name), mine ? (falling ? " ↓" : " ↑") : "");
    return element("th", { scope: "col", class: WHOLE.includes(name) ? "number" : "", "aria-sort": mine ? (falling ? "descending" : "ascending") : "none" }, button);
  }
  function turn(by) { state.skip = Math.max(0, state.skip + by * AT_ONCE); load(); }
  function anew() { state.skip = 0; load(); }
  let waiting;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(anew, 300); });
  [where, outcome, part].forEach((each) => each.addEventListener("change", anew));

  const made = section("all-games", "All games",
    element("div", { class: "controls" }, element("label", { class: "grow" }, "Text", search), element("label", {}, "Outcome", outcome), element("label", {}, "Games", part), element("label", { class: "grow" }, "Condition", where), back, forth, all, status),
    problem, element("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Games" }, element("table", { class: "games" }, element("thead", {}, head), body)));
  const ask_ = (condition) => { where.value = condition; anew(); made.scrollIntoView(); };
  return { section: made, load, ask: ask_, atTheNewest: () => state.skip === 0 };
}
