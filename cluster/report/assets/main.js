// The page: what is said of all runs, and below it of the one that is chosen.

const report = JSON.parse(document.getElementById("data").textContent);

// The chosen intention, shared by map, ranking and games.
function choice() {
  const followers = [];
  return {
    value: null,
    set(value) { this.value = value; followers.forEach((follow) => follow()); },
    follow(follow) { followers.push(follow); },
  };
}

function show(run) {
  redraws.clear();
  const chosen = choice();
  const several = report.runs.length > 1;
  const picker = several ? chooser("Run shown below", report.runs.map((each, i) => [i, each.name]), (i) => show(report.runs[i]), "run") : null;
  if (picker) picker.querySelector("select").value = report.runs.indexOf(run);
  document.getElementById("top").replaceChildren(
    element("div", { class: "bar" }, element("div", {}, element("div", { class: "kicker" }, "Parley run report"), element("h1", {}, words(run.game)), element("div", { class: "mono soft" }, several ? report.title : run.name)), themeButton()));
  const compared = report.compared ? comparisonOf(report.compared) : null;
  const about = element("div", { id: "run-about" }, picker, headlineOf(run), settingsOf(run));
  if (!several) document.getElementById("top").append(about);
  const sections = [learningOf(run), intentionsOf(run, chosen), poolingOf(run), gamesOf(run, chosen), insideOf(run)].filter(Boolean);
  document.getElementById("main").replaceChildren(...[compared, several ? about : null, ...sections].filter(Boolean));
  document.getElementById("sections").replaceChildren(element("div", {}, [compared, ...sections].filter(Boolean).map((each) => element("a", { href: `#${each.id}` }, each.querySelector("h2").textContent))));
  document.getElementById("foot").replaceChildren(`Made ${report.made} by Parley${report.version ? ` ${report.version}` : ""} from ${report.runs.map((each) => each.name).join(", ")}.`);
  chosen.set(null);
}

show(report.runs[0]);
