// The page: it asks for what has changed, and draws that anew.

const look = { run: 0, tokens: false, key: null, pinned: null, table: null, results: {}, nothing: true };
const top_ = { state: element("span", { id: "state", class: "tag", role: "status" }, "asking …"), title: element("h1", {}, "Parley"), name: element("div", { class: "mono soft" }), picker: element("div", {}) };
const below = { compared: element("div", {}), figures: element("div", { id: "figures" }), intentions: element("div", {}), results: element("div", {}), inside: element("div", {}), table: element("div", {}), game: section("game", "One game") };

document.getElementById("top").replaceChildren(
  element("div", { class: "bar" }, element("div", {}, element("div", { class: "kicker" }, "Parley, live ", top_.state), top_.title, top_.name), themeButton()), top_.picker);
document.getElementById("main").replaceChildren(below.compared, below.figures, below.intentions, below.results, below.inside, below.table, below.game);

const show = oneAtATime(async () => {
  const run = await ask(`runs/${look.run}`);
  say(run.state, run.now);
  top_.name.textContent = run.name;
  const begun = look.nothing && !run.nothing;
  look.nothing = Boolean(run.nothing);
  if (run.nothing) { below.figures.replaceChildren(element("p", { class: "note" }, run.nothing)); list(); return; }
  if (begun) showIntentions();
  look.along = run.curves.along;
  top_.title.textContent = words(run.game);
  below.figures.replaceChildren(headlineOf(run), settingsOf(run), ...[learningOf(run), adviceOf(run), lanesOf(run), failuresOf(run), poolingOf(run)].filter(Boolean));
  below.inside.replaceChildren(...[insideOf(run)].filter(Boolean));
  list();
});

// What takes the server longer, each by itself: it comes when it is there.
const showResults = oneAtATime(() => put(below.results, "results", (found) => resultsOf(found, look.along, look.results)));
const showIntentions = oneAtATime(() => put(below.intentions, "intentions", (found) => {
  redraws.clear();
  const chosen = choice();
  const made = intentionsOf(found, look.along, chosen);
  chosen.set(null);
  return made;
}));

const showCompared = oneAtATime(async () => {
  const found = await ask("compared");
  if (found.length) below.compared.replaceChildren(comparisonOf(found));
  list();
});

async function put(holder, path, draw) {
  const { run } = look;
  let made;
  try { made = draw(await ask(`runs/${run}/${path}`)); } catch (error) { made = section(path, words(path), element("p", { class: "note problem", role: "alert" }, error.message)); }
  if (run !== look.run) return;
  holder.replaceChildren(made);
  list();
}

const list = () => listSections([...document.querySelectorAll("#main section")]);

function say(state, now) {
  const doing = now.stage ? `, ${stageName(now.stage)}` : "";
  const updates = state.startsWith("running") && now.update !== undefined;
  top_.state.textContent = updates ? `${state}: update ${whole(now.update + 1)}${doing}` : state;
  top_.state.dataset.state = state;
}

function adviceOf(run) {
  if (!run.advice.length) return null;
  return section("advice", "What the figures say", element("ul", { class: "advice" }, run.advice.map((said) => element("li", {}, said))));
}

function failuresOf(run) {
  const found = Object.entries(run.failures).filter(([, count]) => count > 0);
  const end = run.end.cause ? `${run.end.how}: ${run.end.cause}${run.end.go_on ? `; go on with ${run.end.go_on}` : ""}` : null;
  if (!found.length && !end) return null;
  const rows = found.map(([reason, count]) => element("tr", {}, element("td", { class: "mono" }, reason), element("td", { class: "number" }, whole(count))));
  const head = element("tr", {}, element("th", { scope: "col" }, "reason"), element("th", { class: "number", scope: "col" }, "episodes so far"));
  return section("failures", "Failures", end ? element("p", { class: "note" }, end) : null,
    rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, rows)) : null);
}

function tell(...children) { below.game.replaceChildren(below.game.querySelector("h2"), ...children); }

async function open(key) {
  look.key = key;
  let game;
  try { game = await ask(`runs/${look.run}/game`, key); } catch (error) {
    tell(element("p", { class: "note problem", role: "alert" }, error.message));
    return;
  }
  if (look.key !== key) return;
  drawGames(game);
  document.getElementById("chosen-game").focus({ preventScroll: true });
  below.game.scrollIntoView();
}

// the chosen game, and beside it the one that was kept
function drawGames(game) {
  const shown = [look.pinned, game].filter(Boolean);
  const holders = shown.map((each, i) => element("div", { class: "card game", id: i === shown.length - 1 ? "chosen-game" : "kept-game", tabindex: -1 }));
  const toggle = (id, text, on, change) => element("button", { type: "button", id, "aria-pressed": String(on), onclick: () => { change(); drawGames(game); } }, text);
  holders.forEach((holder, i) => conversation(shown[i], holder, look.tokens));
  tell(element("div", { class: "controls" },
    toggle("tokens", "Tokens", look.tokens, () => { look.tokens = !look.tokens; }),
    toggle("keep", look.pinned ? "One game" : "Keep, to compare", Boolean(look.pinned), () => { look.pinned = look.pinned ? null : game; }),
    element("button", { type: "button", id: "same-task", onclick: () => look.table.ask(`seed == ${game.seed} and game == '${game.game}'`) }, "Games of this task")),
  element("div", { class: "beside" }, holders));
}

async function choose(run) {
  Object.assign(look, { run, key: null, pinned: null, nothing: true, table: gameTable(run, open) });
  [below.intentions, below.results, below.inside].forEach((each) => each.replaceChildren());
  below.table.replaceChildren(look.table.section);
  tell(element("p", { class: "note" }, "Choose a game in the table above."));
  look.table.load();
  await show();
  showResults();
}

function hear(event) {
  const { run, changed, state, now } = JSON.parse(event.data);
  if (look.several && changed.includes("figures")) showCompared();
  if (run !== look.run) return;
  say(state, now);
  if (changed.includes("figures") || changed.includes("games")) show();
  if (changed.includes("games")) showResults();
  if (changed.includes("intentions")) showIntentions();
  if (changed.includes("games") && look.table.atTheNewest()) look.table.load();
}

async function begin() {
  const runs = await ask("runs");
  if (runs.length > 1) top_.picker.replaceChildren(chooser("Run", runs.map((run, i) => [i, run.name]), (i) => choose(Number(i)), "run"));
  look.several = runs.length > 1;
  await choose(0);
  if (look.several) showCompared();
  const events = new EventSource("events");
  events.onmessage = hear;
  events.onerror = () => { top_.state.textContent = "the server does not answer; trying again"; top_.state.dataset.state = "away"; };
}

begin().catch((error) => document.getElementById("main").replaceChildren(element("p", { class: "note problem", role: "alert" }, error.message)));
