// What the page asks its server for.

async function ask(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const answer = await fetch(`${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`);
  const told = await answer.json();
  if (!answer.ok || told?.error) throw new Error(told?.error ?? `the server answered ${answer.status}`);
  return told;
}

// Calls one after the other; of those that wait only the last one is made.
function oneAtATime(call) {
  let busy = false, again = null;
  return async function run(...given) {
    if (busy) { again = given; return; }
    busy = true;
    try { await call(...given); } finally {
      busy = false;
      if (again) { const next = again; again = null; run(...next); }
    }
  };
}
