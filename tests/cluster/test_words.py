"""Credit on single tokens, in a report and in `parley watch`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from starlette.testclient import TestClient
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from cluster.episodes.columns import table_of
from cluster.episodes.reader import Episodes
from cluster.episodes.shown import conversation
from cluster.episodes.store import EpisodeStore
from cluster.errors import RunFolderError
from cluster.report.games import LONGEST, games
from cluster.report.words import pieces, tokenizer_of, words, words_of
from cluster.watch.app import application
from cluster.watch.followed import Followed
from envs.episode import TurnTokens
from tests.support.watched import game, learned, made_run

SAID = "Ist es süß?"


@pytest.fixture(scope="module")
def tokenizer():
    """Every byte is a token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator([], trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


@pytest.fixture
def run(tmp_path, tokenizer):
    """Its update 2 has game 8, whose tokens have one advantage, and game 9, whose tokens have each its own."""
    folder = made_run(tmp_path)
    learned(folder, 1)
    ids = np.array(tokenizer.encode(SAID).ids, np.int32)
    kept = [game(2, number) for number in (8, 9)]
    for each in kept:
        tokens = TurnTokens(ids, ids, np.full(len(ids), -1, np.float32), np.full(len(ids), 1, np.int32))
        turns = [replace(turn, utterance=SAID, tokens=tokens) for turn in each.episode.turns[:1]]
        each.episode, each.credit = replace(each.episode, turns=turns), {"guesser": np.full(len(ids), 0.5, np.float32)}
    kept[1].credit["guesser"] = np.arange(len(ids), dtype=np.float32) / 4
    EpisodeStore(folder / "episodes", 2**30).write(2, 2, table_of(kept))
    saved = folder / "checkpoints" / "update-000002" / "policy"
    saved.mkdir(parents=True)
    tokenizer.save(str(saved / "tokenizer.json"))
    return folder


def test_pieces_are_the_text_and_a_character_of_two_tokens_is_at_its_last(tokenizer):
    found = pieces(tokenizer, tokenizer.encode(SAID).ids)
    assert "".join(found) == SAID and len(found) == len(SAID.encode()) and found[-5:] == ["", "ü", "", "ß", "?"]
    assert pieces(tokenizer, [10**6]) == [""], "of another vocabulary"


def test_a_report_has_the_advantage_of_each_token_where_they_differ(run):
    told = words_of(run, [(2, 8), (2, 9), (2, 10**6)])
    assert told[2, 8] == [None] and set(told) == {(2, 8), (2, 9)}
    (words,) = told[2, 9]
    assert "".join(text for text, _ in words) == SAID and [credit for _, credit in words] == [
        number / 4 for number in range(len(words))
    ]
    sample = {"update": 2, "number": 9, "game": "twenty_questions", "players": {"guesser": "policy"}, "kind": "reward"}
    sample |= {"outcome": {"guesser": 1.0}, "terminated": True, "facts": {}, "closing": {}}
    sample["turns"] = [{"seat": "guesser", "heard": "", "said": SAID, "credit": 1.0}]
    shown = games([sample], 1.0, None, words=told)
    assert [text for text, _ in shown["games"][0]["turns"][0]["words"]] == [text for text, _ in words]
    assert shown["scale_of_words"] == pytest.approx(np.quantile([credit for _, credit in words], 0.9))
    long = games([sample], 1.0, None, words={(2, 9): [[("word ", 1.0)] * LONGEST]})["games"][0]["turns"][0]["words"]
    assert sum(len(text) for text, _ in long) <= LONGEST + 2 and long[-1] == (" …", 0.0)


def test_a_report_has_room_for_the_words_of_many_games(run):
    many = [(2, 10**6 + number) for number in range(300)]
    assert set(words_of(run, [*many, (2, 9)])) == {(2, 9)}


def test_a_game_is_sent_with_the_text_of_its_tokens(run):
    client = TestClient(application([Followed.of(run)], None, ("testserver",)))
    asked = {"update": 2, "attempt": 0, "held_out": "false"}
    one, other = (client.get("/runs/0/game", params=asked | {"number": n}).json()["dialogue"][0] for n in (8, 9))
    assert "".join(one["pieces"]) == SAID and one["words"] is None
    assert other["words"][1] == ["s", 0.25] and len(other["words"]) == len(other["utterance_ids"])


def test_a_run_without_a_checkpoint_has_no_words_yet(tmp_path):
    folder = made_run(tmp_path)
    learned(folder, 1)
    assert tokenizer_of(folder) is None and words_of(folder, [(1, 4)]) == {}


def test_a_choice_has_one_advantage_though_its_first_token_stands_for_all(run, tokenizer):
    (game,) = Episodes(run / "episodes", "number == 8").first(1)
    (turn,) = game["dialogue"]
    turn |= {"credit": [0.5, 0.0], "utterance_ids": [1, 2]}
    assert words(turn, tokenizer) is not None and "credit +0.25;" in conversation(game)
    turn["chosen"] = 1
    assert words(turn, tokenizer) is None and "credit +0.5;" in conversation(game)


def test_a_damaged_tokenizer_is_one_clear_line(run):
    (saved,) = run.glob("checkpoints/*/policy/tokenizer.json")
    saved.write_text("{")
    with pytest.raises(RunFolderError, match=r"cannot read .*tokenizer\.json: ") as refused:
        tokenizer_of(run)
    assert "\n" not in str(refused.value)
