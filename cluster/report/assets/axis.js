// Along what curves are drawn: updates, or what they took until then. All curves of a page together.

const axis = { key: "updates" };
const AXES = [["updates", "updates"], ["seconds", "time"], ["tokens", "tokens"], ["games", "games"]];

function axisChooser(along, id) {
  const label = chooser("Along", AXES.filter(([key]) => along[key]?.at(-1)), (key) => {
    axis.key = key;
    for (const each of document.querySelectorAll("select.axis")) each.value = key;
    for (const each of document.querySelectorAll(".chart")) each.redraw?.();
  }, id);
  const select = label.querySelector("select");
  select.className = "axis";
  select.value = axis.key;
  return element("div", { class: "controls" }, label);
}

// A chart's spec with its updates replaced; `along` of the spec, or of a line, says what each update had taken.
function onAxis(spec) {
  if (axis.key === "updates") return spec;
  const all = [...(spec.lines ?? []), ...(spec.areas ?? [])];
  const along = (each) => (each.along ?? spec.along)?.[axis.key];
  if (!all.length || !all.every(along)) return spec;
  const most = Math.max(...all.map((each) => along(each).at(-1)));
  const [unit, size] = axis.key !== "seconds" ? [`${axis.key} learned from`, 1] : most > 7200 ? ["hours in updates", 3600] : most > 180 ? ["minutes in updates", 60] : ["seconds in updates", 1];
  const placed = (each) => { const values = along(each); const { updates } = each.along ?? spec.along; return { ...each, at: each.at.map((update) => between(updates, values, update) / size) }; };
  return { ...spec, lines: spec.lines?.map(placed), areas: spec.areas?.map(placed), x: unit, unit, whole: false };
}

// The value at an update, in a straight line between the two that are known.
function between(updates, values, update) {
  const after = updates.findIndex((each) => each >= update);
  if (after < 0) return values.at(-1);
  if (after === 0 || updates[after] === update) return values[after];
  const share = (update - updates[after - 1]) / (updates[after] - updates[after - 1]);
  return values[after - 1] + share * (values[after] - values[after - 1]);
}
