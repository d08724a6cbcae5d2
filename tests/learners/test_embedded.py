"""The embedded policy: the same bytes from the same settings, cloned in the tokens of a rollout."""

from __future__ import annotations

import hashlib
import inspect
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envs.registry import make_game
from envs.settings import GameSettings
from learners.embedded import build, cloning
from learners.embedded.build import build_policy, policy_key
from learners.embedded.cloning import IGNORED, ClonedGame, ScriptedGames, clone
from learners.embedded.tokenizer import make_tokenizer
from learners.settings import EmbeddedSettings

GAME = GameSettings()
SHORT = EmbeddedSettings(steps=60, games_per_step=8, seed=3)


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def cloned(tmp_path_factory) -> tuple[Path, list[tuple[int, int, float]]]:
    """A short cloning run and what it told of its progress."""
    told: list[tuple[int, int, float]] = []
    folder = build_policy(GAME, SHORT, tmp_path_factory.mktemp("cloned"), progress=lambda *news: told.append(news))
    return folder, told


@pytest.fixture(scope="module")
def games(tiny_model) -> ScriptedGames:
    return ScriptedGames(GAME, "mediocre", AutoTokenizer.from_pretrained(tiny_model))


def test_the_folder_is_a_model_like_any_other(tiny_model):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    assert model.config.tie_word_embeddings is False
    assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.config.vocab_size == len(tokenizer) and model.config.head_dim == 32
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids("<end>")
    assert tokenizer.pad_token_id == model.config.pad_token_id != tokenizer.eos_token_id


def test_text_survives_the_tokenizer(games):
    tokenizer = games.tokenizer
    for sentence in make_game(GAME.name).language():
        ids = tokenizer.encode(sentence, add_special_tokens=False)
        assert tokenizer.unk_token_id not in ids
        assert len(ids) == len(sentence.split())
        assert tokenizer.decode(ids) == sentence
    assert tokenizer.decode(tokenizer.encode("IS it Alive?")) == "is it alive?"


def test_the_same_settings_give_the_same_bytes(cloned, tmp_path):
    """Also on another number of threads, and whatever the random state of the process."""
    torch.manual_seed(99)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    several = torch.get_num_threads()  # 1 where an engine in this process has pinned it
    try:
        state = torch.get_rng_state()
        during: set[int] = set()
        again = build_policy(GAME, SHORT, tmp_path, progress=lambda *_: during.add(torch.get_num_threads()))
        assert during == {1}  # sums in one order, also where a model is large enough for it to show
        assert torch.get_num_threads() == several and torch.equal(torch.get_rng_state(), state)
    finally:
        torch.set_num_threads(threads)
    assert digest(again) == digest(cloned[0])
    assert len({path.stat().st_mode for path in again.iterdir()}) == 1, "who reads one file of it reads all"
    assert [path.name for path in tmp_path.iterdir()] == [again.name]


def test_what_is_built_is_not_built_again(cloned):
    folder, told = cloned
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert [news[:2] for news in told] == [(50, 60), (60, 60)] and told[-1][2] > 0
    assert build_policy(GAME, SHORT, folder.parent, progress=lambda *news: told.append(news)) == folder
    assert len(told) == 2 and {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_key_follows_everything_the_policy_is_made_from(tmp_path):
    source = Path(make_game(GAME.name).table.source)
    table = tmp_path / "mine.toml"
    table.write_text(source.read_text())
    mine = GameSettings(options={"table": str(table)})
    keys = [
        policy_key(GAME, SHORT),
        policy_key(GAME, SHORT.model_copy(update={"seed": 4})),
        policy_key(GameSettings(options={"turns": 8}), SHORT),
        policy_key(mine, SHORT),
    ]
    table.write_text(source.read_text().replace('lamp = ["indoors", "metal"]', 'lamp = ["indoors"]'))
    keys.append(policy_key(mine, SHORT))  # the same words, another truth
    assert len(set(keys)) == len(keys)
    assert policy_key(GAME, SHORT) == keys[0]


def test_the_key_follows_the_code_that_clones():
    """All of learners/ that takes part, but the settings, whose values are in the key."""
    learners = Path(cloning.__file__).parents[1]
    settings = learners / "settings.py"
    waiting, used = [cloning], {settings}
    while waiting:
        module = waiting.pop()
        used.add(Path(module.__file__))
        for value in vars(module).values():
            name = getattr(value, "__name__" if inspect.ismodule(value) else "__module__", None) or ""
            if name.startswith("learners.") and Path(sys.modules[name].__file__) not in used:
                waiting.append(sys.modules[name])
    assert {learners / "model" / "attention.py", learners / "embedded" / "muon.py"} < used
    assert used - set(build._sources(GAME)) == {settings}


def test_a_failed_build_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="no scripted player 'genius'"):
        build_policy(GAME, SHORT.model_copy(update={"player": "genius"}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_goes_with_the_next_start(cloned, tmp_path):
    ended, host = subprocess.Popen(["true"]), socket.gethostname()
    ended.wait()
    names = [
        f".building-{ended.pid}-{host}-a",
        ".building-old",
        f".building-{os.getpid()}-{host}-a",
        ".building-1-far-a",
    ]
    for name in names:
        (cloned[0].parent / name).mkdir()
    os.utime(cloned[0].parent / ".building-old", (0, 0))
    build_policy(GAME, SHORT, cloned[0].parent)
    left = sorted(cloned[0].parent.glob(".building-*"))
    for folder in left:
        folder.rmdir()
    assert [folder.name for folder in left] == sorted(names[2:]), "of processes that may still be at work"


def test_cloned_games_are_laid_out_as_rollouts_are(games):
    """Replays each game through Dialogue; only utterances are predicted, beliefs stand where none is."""
    tokenizer, dialogue = games.tokenizer, games.dialogue
    end = tokenizer.eos_token_id
    for seed in range(-30, 0):
        (laid,) = games.play(seed)
        assert len(laid.ids) == len(laid.said) == len(laid.belief)
        game = make_game(GAME.name)
        game.reset(seed)
        ids, spoken, answers = [], [], []
        while game.seat is not None:
            seen = dialogue.reply(game.observe(), end) if ids else dialogue.opening("", game.observe())
            ids += seen
            answers.append(len(ids) - 2)
            said = laid.ids[len(ids) : laid.ids.index(end, len(ids)) + 1]
            spoken += range(len(ids), len(ids) + len(said))
            ids += said
            game.step(dialogue.text(said))
        assert ids == laid.ids
        predicted = {place + 1: target for place, target in enumerate(laid.said) if target != IGNORED}
        assert predicted == {place: ids[place] for place in spoken}
        secret = tokenizer.convert_tokens_to_ids(game.facts()["secret"])
        beliefs = {place: target for place, target in enumerate(laid.belief) if target != IGNORED}
        assert beliefs == dict.fromkeys(answers, secret)
        assert all(laid.said[place] == IGNORED for place in answers)


def test_games_end_to_end_are_predicted_as_each_alone(tiny_model, games):
    """What is said and what is believed, in a batch of games of several lengths, against the model as transformers
    runs it; and clone() gives it back as it was."""
    batch = [laid for seed in range(-9, 0) for laid in games.play(seed)]
    assert len({len(laid.ids) for laid in batch}) > 2
    alone, packed = (AutoModelForCausalLM.from_pretrained(tiny_model) for _ in range(2))
    expected = {"said": [], "belief": []}
    for laid in batch:
        logprobs = alone(torch.tensor([laid.ids])).logits[0].log_softmax(-1)
        for name, found in expected.items():
            found += [logprobs[place, to] for place, to in enumerate(getattr(laid, name)) if to != IGNORED]
    attends = packed.config._attn_implementation
    clone(
        packed,
        games.tokenizer,
        GAME,
        SHORT.model_copy(update={"steps": 1, "learning_rate": 1e-12, "matrix_learning_rate": 1e-12}),
    )
    assert packed.config._attn_implementation == attends
    packed.set_attn_implementation(cloning.attention.NAME)
    for found, known in zip(cloning._predicted(packed, batch), expected.values(), strict=True):
        torch.testing.assert_close(found, torch.stack(known), rtol=1e-4, atol=1e-5)


def test_a_word_outside_the_language_is_an_error(games):
    with pytest.raises(ValueError, match="'is it purple\\?' holds no word, or one that the game's language"):
        games.words("is it purple?")
    with pytest.raises(ValueError, match="no words"):
        make_tokenizer([], 64)


def test_of_an_open_vocabulary_an_utterance_with_an_unknown_word_is_read_and_not_taught(games, monkeypatch):
    with pytest.raises(ValueError, match="does not list"):
        games.words("is it purple?")
    monkeypatch.setattr(games, "open", True)
    unknown, player = games.tokenizer.unk_token_id, games.players["guesser"]
    said, reply = [], player.reply
    monkeypatch.setattr(
        player, "reply", lambda *seen: said.append("is it purple?" if len(said) == 1 else reply(*seen)) or said[-1]
    )
    (laid,) = games.play(-1)
    taught = [target for target in laid.said if target != IGNORED]
    end = games.tokenizer.eos_token_id
    others = [[*games.words(each), end] for number, each in enumerate(said) if number != 1]
    assert laid.ids.count(unknown) == 1 and len(said) > 2
    assert taught == [token for each in others for token in each]


def test_a_player_of_whom_nothing_can_be_taught_is_an_error(cloned, games, monkeypatch):
    model = AutoModelForCausalLM.from_pretrained(cloned[0])
    nothing = ClonedGame([1, 2, 3], [IGNORED] * 3, [IGNORED] * 3)
    monkeypatch.setattr(ScriptedGames, "play", lambda *_: [nothing])
    with pytest.raises(ValueError, match="lists no utterance of 'mediocre'"):
        clone(model, games.tokenizer, GAME, SHORT)


def test_cloning_teaches_the_players_phrases(cloned, games):
    """After 60 small steps many sampled openings are the player's own utterances; untrained, none in thousands."""
    model = AutoModelForCausalLM.from_pretrained(cloned[0])
    opening = torch.tensor([games.dialogue.opening("", "what is it?")] * 200)
    torch.manual_seed(0)
    made = model.generate(
        opening, attention_mask=torch.ones_like(opening), do_sample=True, max_new_tokens=8, top_k=0, top_p=1.0
    )
    said = Counter(games.dialogue.text(row[opening.shape[1] :].tolist()) for row in made)
    own = set(make_game(GAME.name).language())
    assert sum(count for text, count in said.items() if text in own) >= 80
    assert len(said) > 20
