// The page: what is said of all runs, and below it of the one that is chosen.

const report = JSON.parse(document.getElementById("data").textContent);

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
  const sections = [learningOf(run), intentionsOf(run.intentions, run.curves.along, chosen), poolingOf(run), resultsOf(run.results, run.curves.along), gamesOf(run, chosen), insideOf(run)].filter(Boolean);
  document.getElementById("main").replaceChildren(...[compared, several ? about : null, ...sections].filter(Boolean));
  listSections([compared, ...sections].filter(Boolean));
  document.getElementById("foot").replaceChildren(`Made ${report.made} by Parley${report.version ? ` ${report.version}` : ""} from ${report.runs.map((each) => each.name).join(", ")}. `,
    element("button", { type: "button", id: "data-json", onclick: () => saveFile("report.json", "application/json", JSON.stringify(report)) }, "All data (JSON)"));
  chosen.set(null);
}

show(report.runs[0]);
