"""Games with the policy as it is: collected for training, and held out for measuring.

    collect:   tickets, `at_once` of them -> rollout workers -> records, appended and noted -> the next ones

What was noted as written is whole; a stop loses the games that were being played, and the next start plays
them from the same seeds. A game that fails `rollout.max_attempts` times stops the stage and says why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from cluster.offline.recording import record_of, tokenizer_name
from cluster.offline.work import Work
from cluster.record.run_folder import to_json, write_whole
from cluster.run.evaluate import measure, play_held_out
from cluster.run.failures import named_failures
from cluster.run.ledger import training_seed
from envs.episode import Ticket

Seats = tuple[tuple[str, str], ...]


def collect(work: Work, scratch: Path) -> dict:
    config, policy = work.config, work.beginning()
    playing, tokenizer = work.resources.playing(policy), _tokenizer(work, policy)
    path, note = scratch / work.file("msgs").name, scratch / "written.json"
    done = _cut_back(path, note)
    while done["games"] < config.offline.games:
        numbers = range(done["games"], min(done["games"] + config.offline.at_once, config.offline.games))
        work.terminal.played, work.terminal.wanted = numbers[0], config.offline.games
        with named_failures():
            episodes = playing.play(tickets_of(work, numbers))
        with open(path, "a", encoding="utf-8") as file:
            for episode in episodes:
                file.write(json.dumps(record_of(episode, work.game, tokenizer)) + "\n")
            file.flush()
            os.fsync(file.fileno())
            done["bytes"] = file.tell()
        done["games"] = numbers[-1] + 1
        for episode in episodes:
            outcomes = [episode.outcome[seat] for seat in episode.policy_seats()]
            done["seats"] += len(outcomes)
            done["wins"] += sum(outcome >= 1 for outcome in outcomes)
            done["turns"] += len(episode.turns)
        write_whole(note, to_json(done))
    failures = dict(playing.failures)
    return {"games": done["games"], "turns": done["turns"], "win_rate": done["wins"] / done["seats"]} | (
        {"failures": failures} if failures else {}
    )


def tickets_of(work: Work, numbers: Iterable[int]) -> list[Ticket]:
    """Of the iteration's games with these numbers, from 0; their seeds are those of training games."""
    seed, name = work.config.seed * 1_000 + work.number, work.config.game.name
    return [Ticket(work.folder.name, name, n, training_seed(seed, n), work.players) for n in numbers]


def _cut_back(path: Path, note: Path) -> dict[str, int]:
    """What is noted as written; anything behind it was being written when it stopped."""
    if not (path.exists() and note.exists()):
        path.write_bytes(b"")
        return {"games": 0, "bytes": 0, "wins": 0, "seats": 0, "turns": 0}
    done = json.loads(note.read_text(encoding="utf-8"))
    os.truncate(path, done["bytes"])
    return done


def _tokenizer(work: Work, policy: str) -> str:
    from transformers import AutoTokenizer

    return tokenizer_name(AutoTokenizer.from_pretrained(policy, trust_remote_code=work.config.model.trust_remote_code))


def evaluate(work: Work, scratch: Path) -> dict:
    """Held-out games with the policy that this iteration made."""
    config, made = work.config, str(work.file("policy")) if work.number else work.beginning()
    playing = work.resources.playing(made)
    wanted, episodes = config.evaluation.episodes, []
    for place, (games, players) in enumerate(_sittings(work, wanted)):
        work.terminal.played, work.terminal.wanted = len(episodes), wanted
        with named_failures():
            seating = config.game.name, players, games, place * wanted
            episodes += play_held_out(playing, config, work.folder.name, *seating)
    found = asdict(measure(episodes, work.number, config.learner.credit.gamma))
    write_whole(scratch / "evaluation.json", to_json(found))
    work.folder.write_transcripts(work.number, episodes)
    return found


def _sittings(work: Work, games: int) -> list[tuple[int, Seats]]:
    """How many games, and who sits where: the policy in each seat in turn against the rival, if there is one."""
    rival = work.config.offline.rival
    if not rival:
        return [(games, work.players)]
    seats = work.game.seats
    sittings = [tuple((seat, "policy" if seat == own else rival) for seat in seats) for own in seats]
    return [(games // 2 + (not place and games % 2), players) for place, players in enumerate(sittings)]
