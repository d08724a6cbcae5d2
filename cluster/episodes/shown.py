"""A kept game as text for a terminal, whatever its players said: what a terminal would obey is spelled out."""

from __future__ import annotations

from typing import Any


def harmless(text: str) -> str:
    """Escape codes, other control characters and those that turn the direction of writing become \\x1b and the like."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )


def heading(game: dict[str, Any]) -> str:
    what = ", ".join(
        [
            "held out" if game["held_out"] else "training",
            *([f"not used: {game['failure']}"] if game["failure"] else []),
            *(f"{name} {game[name]:.3g}" for name in ("outcome", "surprise", "credit") if game[name] is not None),
        ]
    )
    where = f"update {game['update']}, ticket {game['number']}, seed {game['seed']}"
    return harmless(f"=== {game['game']}, {where} ({what})")


def conversation(game: dict[str, Any]) -> str:
    lines = [heading(game), *([f"    {harmless(game['why'])}"] if game["why"] else [])]
    for turn in game["dialogue"]:
        lines += [f"    {line}" for line in harmless(turn["observation"]).split("\n")]
        lines.append(harmless(f"{turn['seat']}> {turn['utterance']}") + _remarks(turn))
        if turn["caption"]:
            lines.append(f"    [{harmless(turn['caption'])}]")
    for seat, seen in game["closing"].items():
        lines += [f"    ({harmless(seat)}) {line}" for line in harmless(seen).split("\n")]
    lines += [f"    {harmless(f'{name}: {value}')}" for name, value in game["facts"].items()]
    results = [f"{each['seat']} {each['outcome']:g}" for each in game["seats"] if each["outcome"] is not None]
    end = "cut off" if game["cut_off"] else "ended"
    lines.append(harmless(f"--- {end} after {game['turns']} turns; outcome: {', '.join(results) or 'none'}"))
    return "\n".join(lines)


def _remarks(turn: dict[str, Any]) -> str:
    found = [] if turn["executable"] else ["not understood"]
    if turn["reward"]:
        found.append(f"reward {turn['reward']:+g}")
    if turn["credit"]:
        trained = turn["credit"] if turn["chosen"] is None else turn["credit"][:1]  # a choice is one decision
        found.append(f"credit {sum(trained) / len(trained):+.3g}")
    if turn["label"] is not None:
        found.append(f"intention {turn['label']}")
    if turn["versions"]:
        found.append(f"weights {', '.join(map(str, sorted(set(turn['versions']))))}")
    if turn["finish"] == "length":
        found.append("cut off")
    return f"    ({'; '.join(found)})" if found else ""
