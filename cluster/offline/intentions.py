"""From recorded games to a training set: what ARIA computes, each stage from files to files.

    embed       msgs                  -> utterances, embeddings, the games as codes of utterances
    cluster     utterances            -> a tree of intentions, and labels at every k
    choose      codes, labels         -> SplitScore(k) and the k that is used
    label       msgs, labels, k       -> with_selected_labels
    aggregate   codes, labels, k      -> what each turn is worth -> {observation, action, reward}

Files of games are read line by line, twice for their content (embed; label and aggregate walk along
them again to write). In memory are the distinct utterances and about 80 bytes a turn.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cluster.errors import RunError
from cluster.offline.files import FileRefused, GameFileReader, Record, reward_scale_of
from cluster.offline.recording import SeatLabels, labelled, training_rows
from cluster.offline.work import Work
from cluster.recipe.offline import PUBLISHED_K
from cluster.record.run_folder import to_json, write_whole
from envs.text.embedding import Encoder, LocalEncoder
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import NOTHING, Gist, gist_of, observations_of, one_line
from reward_service.intentions.granularity.granularity import Played
from reward_service.intentions.granularity.split import split_scores
from reward_service.intentions.reading import read, world_heard
from reward_service.intentions.settings import IntentionSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.offline.coding import SEATS, TURNS, Coding
from reward_service.offline.columns import Column, open_column
from reward_service.offline.turns import CodedTurns, figures, worth

BLOCK = 1024  # utterances embedded at a time


# embed


def embed(work: Work, scratch: Path) -> dict:
    noted = scratch / "counted.json"
    if noted.exists():  # the games were read; embedding was stopped
        found = json.loads(noted.read_text(encoding="utf-8"))
    else:
        found = _count(work, scratch)
        write_whole(noted, to_json(found))
    if not found["recorded"]:
        _embed(work, scratch, found["utterances"])
    return found


def _count(work: Work, scratch: Path) -> dict:
    path, settings = work.file("msgs"), work.config.offline
    scale = _scale(work)
    reader, mode = work.reader(path, scale), _observations(work)
    recorded = RecordedEmbeddings(scratch / "embeddings.npy", reader) if settings.recorded_embeddings else None
    games = 0
    shutil.rmtree(scratch / "coded", ignore_errors=True)
    with Coding(scratch / "coded", work.game.seats) as coding:
        for number, record in enumerate(reader.records(work.terminal.bytes_of(path.stat().st_size)), start=1):
            readings = read(record.episode, mode)
            new = coding.add(number, readings, _closing(record, mode))
            games += 1
            if recorded is not None and not recorded.add(record, new):
                recorded = None
    if recorded is not None:
        recorded.close()
    with open(scratch / "utterances.jsonl", "w", encoding="utf-8") as file:
        for gist, count in zip(coding.codes, coding.counts, strict=True):
            file.write(json.dumps({"text": gist.text, "amounts": dict(gist.amounts), "count": count}) + "\n")
    return {
        "games": games,
        "turns": coding.turns,
        "utterances": len(coding.codes),
        "reward_scale": scale,
        "recorded": recorded is not None,
    }


def _scale(work: Work) -> str:
    """How a lone player's reward is meant. What was collected here says 0 for a game that was won."""
    asked = work.config.offline.reward_scale
    if len(work.game.seats) == 2:
        return "outcome"
    if work.input is None:
        return "minus_one"
    return reward_scale_of(work.input) if asked == "auto" else asked


def _observations(work: Work) -> str:
    asked = work.config.reward.shaper.intentions.observations
    return observations_of(work.config.game.name) if asked == "game" else asked


def _closing(record: Record, mode: str) -> Gist | int:
    """What a lone player heard after its last turn, as what it heard before."""
    return NOTHING if record.closing is None else world_heard(record.closing, mode)


class RecordedEmbeddings:
    """Embeddings that come with the games: unit rows, one for each utterance, from where it first occurs."""

    def __init__(self, path: Path, reader: GameFileReader):
        self.path, self.reader = path, reader
        self.column: Column | None = None

    def add(self, record: Record, new: Sequence[Gist]) -> bool:
        """The rows of what is new. False if the file brings none, and then none were taken."""
        if record.embeddings is None:
            if self.column is None:
                return False
            raise self.reader.wrong("embeddings", "are missing, but the games before have them")
        game = record.episode.ticket.game
        vectors = {gist_of(game, text): vector for text, vector in record.embeddings.items()}
        vectors |= {Gist(one_line(text)): vector for text, vector in record.embeddings.items()}
        for gist in new:
            if gist not in vectors:
                raise self.reader.wrong("embeddings", f"there is none of {gist.text[:60]!r}")
            self._row(vectors[gist])
        return True

    def _row(self, vector: object) -> None:
        try:
            row = np.asarray(vector, np.float32)
        except (TypeError, ValueError, OverflowError):
            row = np.empty(0)
        length = float(np.linalg.norm(row)) if row.ndim == 1 and len(row) else 0.0
        if not np.isfinite(length) or not length:
            raise self.reader.wrong("embeddings", "each should be a list of numbers, not all of them 0")
        if self.column is None:
            self.column = Column(self.path, "<f4", len(row)).__enter__()
        if len(row) != self.column.width:
            raise self.reader.wrong("embeddings", f"has {len(row)} numbers, the ones before {self.column.width}")
        self.column.add(row[None] / length)

    def close(self) -> None:
        if self.column is not None:
            self.column.__exit__(None)


def _embed(work: Work, scratch: Path, count: int) -> None:
    """A row for each utterance. A stop loses the block that was being embedded."""
    encoder = _encoder(work.config.reward.shaper.intentions)
    note, path = scratch / "embedded.json", scratch / "embeddings.npy"
    done = json.loads(note.read_text())["rows"] if note.exists() else 0
    texts = [json.loads(line)["text"] for line in open(scratch / "utterances.jsonl", encoding="utf-8")]
    if not done:
        width = encoder.encode(texts[:1]).shape[1]
        np.lib.format.open_memmap(path, "w+", np.float32, (count, width)).flush()
    rows = np.lib.format.open_memmap(path, "r+")
    for start in range(done, count, BLOCK):
        rows[start : start + BLOCK] = encoder.encode(texts[start : start + BLOCK])
        rows.flush()
        write_whole(note, to_json({"rows": min(start + BLOCK, count)}))
        work.terminal.at(min(start + BLOCK, count), count, "utterances")


def _encoder(settings: IntentionSettings) -> Encoder:
    """Without a cache: each text comes once."""
    if settings.embedding.endpoint is None:
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # the model's own bar would break up what the terminal shows
        return LocalEncoder(settings.model)
    from envs.text.embedding_endpoint import EndpointEncoder

    return EndpointEncoder("reward.shaper.intentions.embedding.endpoint", settings.embedding.endpoint)


# cluster, choose


def cluster(work: Work, scratch: Path) -> dict:
    utterances = _utterances(work)
    space = fit_space(utterances, work.config.reward.shaper.intentions.space)
    space.save(scratch / "space")
    prototype, _ = space.nearest(space.features(utterances.embeddings, utterances.gists))
    np.savez(scratch / "labels.npz", levels=np.array(space.levels, np.int32), labels=space.cuts[:, prototype])
    return {"utterances": len(utterances.gists), "coarsest": space.levels[0], "finest": space.levels[-1]}


def _utterances(work: Work) -> Utterances:
    gists, counts = [], []
    for line in open(work.file("utterances"), encoding="utf-8"):
        entry = json.loads(line)
        gists.append(Gist(entry["text"], tuple(sorted(entry["amounts"].items()))))
        counts.append(entry["count"])
    if not gists:
        raise RunError(f"{work.file('msgs')}: nobody says anything that could be clustered")
    return Utterances(gists, open_column(work.file("embeddings")), np.array(counts, np.int64))


def choose(work: Work, scratch: Path) -> dict:
    settings = work.config.reward.shaper.intentions.space
    space, labels = IntentionSpace.load(work.file("space")), _labels(work)
    turns = _turns(work)
    played = Played(turns, space.levels, np.stack([labels[level] for level in space.levels]))
    scores, chosen = split_scores(played), settings.choose(space, played)
    found = {"k": chosen.k, "settled": chosen.settled, "published": PUBLISHED_K.get(work.config.game.name)}
    members = {str(name): each[:8] for name, each in chosen.members().items()}
    written = found | {
        "scores": {str(level): score for level, score in scores.items()},
        "examples": members,
    }
    write_whole(scratch / "split_scores.json", to_json(written))
    return found


def _labels(work: Work) -> dict[int, np.ndarray]:
    """Level -> intention of each code."""
    with np.load(work.file("labels"), allow_pickle=False) as stored:
        return dict(zip(stored["levels"].tolist(), stored["labels"], strict=True))


def _turns(work: Work) -> CodedTurns:
    turns = CodedTurns(work.file("coded"), work.config.reward.shaper.intentions.aggregate.gamma, work.trained)
    if not turns.count:
        raise RunError(f"{work.file('msgs')}: the seats of the policy have no turn")
    return turns


def chosen_k(work: Work) -> int:
    return json.loads(work.file("scores").read_text(encoding="utf-8"))["k"]


# label, aggregate


def label(work: Work, scratch: Path) -> dict:
    path, names = work.file("msgs"), _labels(work)[chosen_k(work)]
    columns = {name: open_column(work.file("coded") / f"{name}.npy") for name in TURNS | SEATS}
    ends = np.append(columns["starts"][1:], len(columns["said"]))

    def intentions(codes: np.ndarray) -> list[int]:
        return [int(names[code]) if code >= 0 else int(code) for code in codes]

    row = 0
    with open(scratch / work.file("labelled").name, "w", encoding="utf-8") as file:
        for number, record in enumerate(_records(work, path), start=1):
            found: dict[str, SeatLabels] = {}
            while row < len(ends) and columns["games"][row] == number:
                part = slice(columns["starts"][row], ends[row])
                said, heard = intentions(columns["said"][part]), intentions(columns["heard"][part])
                found[work.game.seats[columns["seats"][row]]] = SeatLabels(
                    said, heard, *intentions(columns["closings"][row : row + 1])
                )
                row += 1
            file.write(json.dumps(labelled(record, found)) + "\n")
    return {"intentions": len(np.unique(names))}


def aggregate(work: Work, scratch: Path) -> dict:
    settings, turns = work.config.reward.shaper.intentions.aggregate, _turns(work)
    found = worth(turns, _labels(work), chosen_k(work), settings)
    seats, row, rows = work.game.seats, 0, 0
    with open(scratch / "training.json", "w", encoding="utf-8") as file:
        for number, record in enumerate(_records(work, work.file("labelled")), start=1):
            values: dict[str, list[float]] = {}
            while row < len(turns.games) and turns.games[row] == number:
                part = slice(turns.starts[row], turns.starts[row] + turns.lengths[row])
                values[seats[turns.players[row]]] = found.values[part].tolist()
                row += 1
            for entry in training_rows(record, values):
                file.write(("[\n" if not rows else ",\n") + json.dumps(entry))
                rows += 1
        file.write("\n]\n")
    if rows != turns.count:
        raise RunError(f"{work.file('labelled')} holds {rows} turns of the policy, but {turns.count} were counted")
    return figures(turns, found)


def _records(work: Work, path: Path) -> Iterator[Record]:
    """The games again; each line was found right when it was counted."""
    scale = work.manifest.figures("embed")["reward_scale"]
    try:
        yield from work.reader(path, scale).records(work.terminal.bytes_of(path.stat().st_size))
    except FileRefused as error:
        raise RunError(f"{error} (it has changed while it was being read)") from error
