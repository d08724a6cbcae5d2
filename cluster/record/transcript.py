"""An episode as text that a person can read."""

from __future__ import annotations

from typing import NamedTuple

from envs.episode import Episode


class Row(NamedTuple):
    """A game in a table of games."""

    seed: int
    players: str
    outcome: float  # mean over the policy's seats
    turns: int
    game: str  # the whole of it


def row_of(episode: Episode) -> Row:
    seats = episode.policy_seats() or list(episode.outcome)
    outcome = sum(episode.outcome[seat] for seat in seats) / len(seats)
    players = ", ".join(f"{seat}: {player}" for seat, player in episode.ticket.players)
    return Row(episode.ticket.seed, players, outcome, len(episode.turns), transcript(episode).strip())


def transcript(episode: Episode) -> str:
    ticket = episode.ticket
    players = ", ".join(f"{seat}: {player}" for seat, player in ticket.players)
    lines = ["", f"=== {ticket.game}, seed {ticket.seed} ({players})"]
    for turn in episode.turns:
        lines += [f"    {line}" for line in turn.observation.splitlines()]
        lines.append(f"{turn.seat}> {turn.utterance}{_remark(turn)}")
        if turn.caption:
            lines.append(f"    [{turn.caption}]")
    for seat, seen in episode.closing.items():
        lines += [f"    ({seat}) {line}" for line in seen.splitlines()]
    facts = "".join(f", {name}: {value}" for name, value in episode.facts.items())
    result = ", ".join(f"{seat} {value:g}" for seat, value in episode.outcome.items())
    end = "ended" if episode.terminated else "cut off"
    lines.append(f"--- {end} after {len(episode.turns)} turns; outcome: {result}{facts}")
    return "\n".join(lines) + "\n"


def _remark(turn) -> str:
    remarks = [] if turn.executable else ["not understood"]
    if turn.reward:
        remarks.append(f"reward {turn.reward:+g}")
    if turn.tokens is not None:
        made_by = sorted({int(version) for version in turn.tokens.versions})
        remarks.append("weights " + ", ".join(map(str, made_by)))
        if turn.tokens.finish == "length":
            remarks.append("cut off")
    return f"    ({'; '.join(remarks)})" if remarks else ""
