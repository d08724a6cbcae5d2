"""Choices among listed actions: what is scored, what is drawn, and what is trained are one distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from actors.engines.branches import passes
from actors.engines.contract import Engine, Request, Scored
from actors.play.choice import drawn
from actors.play.play import Play
from actors.play.players import Cast, Policy
from actors.settings import RolloutSettings
from envs.episode import Episode, Ticket
from envs.parrot import WORDS
from envs.registry import make_game
from envs.text.dialogue import Dialogue
from tests.support.engines import KINDS, drain, engine_settings, model_logprobs, model_of, send, shared_engine
from tests.support.listed_actions import listed_logprobs
from tests.support.runs import config_for, metrics_of, run


def listed_requests(count: int, seed: int, prompt: int = 40) -> list[Request]:
    """Prompts that share beginnings, some the same; lists in which some are the beginning of others.
    Asked twice, the second prompt's block of 32 tokens is cached with a part of what is listed."""
    rng = np.random.default_rng(seed)
    common = rng.integers(3, 60, prompt)
    made = []
    for number in range(count):
        ids = (
            common[: rng.integers(1, prompt) if number > 1 else 29]
            if number % 3
            else np.append(common, rng.integers(3, 60, number))
        )
        listed = [rng.integers(3, 60, rng.integers(1, 7)).tolist() for _ in range(rng.integers(1, 9))]
        listed += [[*listed[0], 5], [6, 7, 8, 9, 10, 11]]
        said = tuple(tuple(each) for each in listed)
        made.append(Request(f"{seed}.{number}", tuple(ids.tolist()), 4, 1.0, number, (1,), said))
    return made


def largest_gap(model, request: Request, scored: Scored) -> float:
    """Between what was scored and what the model gives each listed utterance alone."""
    gaps = []
    for ids, logprobs in zip(request.listed, scored.logprobs, strict=True):
        alone = model_logprobs(model, [*request.prompt_ids, *ids])[len(request.prompt_ids) - 1 :]
        gaps.append(float(np.abs(logprobs - alone).max()))
    return max(gaps)


@pytest.mark.parametrize("kind", KINDS)
def test_listed_utterances_are_scored_as_the_model_scores_each_alone(kind, tiny_model):
    """Beside requests that are sampled, with warm prompts, and prompts met before."""
    engine, model = shared_engine(kind, str(tiny_model)), model_of(str(tiny_model), seed=31, shake=0.1)
    send(engine, model, 5)
    for _ in range(2):
        wanted = listed_requests(7, seed=1)
        spoken = [Request(f"said {n}", tuple(range(5, 25 + n)), 6, 1.0, n, (1,)) for n in range(3)]
        for request in [*wanted, *spoken]:
            engine.submit(request)
        done = drain(engine)
        assert len(done) == 10
        for request in wanted:
            found = done[request.id]
            assert isinstance(found, Scored) and found.version == 5
            assert largest_gap(model, request, found) < 2e-5


def test_a_runner_may_leave_out_the_rows_of_what_was_cached(tiny_model, monkeypatch):
    """As vLLM's second one does, which it takes where Triton works; after a request was put off, there are fewer rows
    than it says."""
    engine, model = shared_engine("vllm", str(tiny_model)), model_of(str(tiny_model), seed=32, shake=0.1)
    send(engine, model, 8)
    whole, left_out = engine._listed_scored, []

    def cut(output):
        rows = output.prompt_logprobs.start_indices
        gone = output.num_cached_tokens or (len(rows) if not left_out else 0)
        del rows[1 : gone + 1]
        left_out.append(gone)
        return whole(output)

    monkeypatch.setattr(engine, "_listed_scored", cut)
    for _ in range(2):
        wanted = listed_requests(7, seed=3)
        for request in wanted:
            engine.submit(request)
        done = drain(engine)
        assert max(largest_gap(model, request, done[request.id]) for request in wanted) < 2e-5
    assert sum(gone > 0 for gone in left_out) > 10


def test_rows_that_are_missing_although_no_cache_was_read_are_an_error(tiny_model, monkeypatch):
    """And are not asked for again and again."""
    engine = shared_engine("vllm", str(tiny_model))
    whole, asked = engine._listed_scored, []

    def cut(output):
        asked.append(output.request_id)
        assert len(asked) < 50
        del output.prompt_logprobs.start_indices[1:]
        return whole(output)

    monkeypatch.setattr(engine, "_listed_scored", cut)
    (request,) = listed_requests(1, seed=4)
    engine.submit(request)
    with pytest.raises(RuntimeError, match="vLLM scored other tokens than the prompt's"):
        drain(engine)
    engine.abort([request.id])


@pytest.mark.parametrize("kind", KINDS)
def test_a_sync_in_between_leaves_no_mixture(kind, tiny_model):
    """All log-probs of a request are those of the version that it names; one that was given up
    leaves nothing behind."""
    engine = shared_engine(kind, str(tiny_model))
    models = {version: model_of(str(tiny_model), seed=version, shake=0.1) for version in (6, 7)}
    send(engine, models[6], 6)
    wanted = listed_requests(60, seed=2)
    for request in wanted:
        engine.submit(request)
    engine.abort([wanted[3].id, wanted[59].id])
    done = {each.id: each for each in engine.step()}
    send(engine, models[7], 7)
    done |= drain(engine)
    assert set(done) == {request.id for request in wanted} - {wanted[3].id, wanted[59].id}
    assert 7 in {scored.version for scored in done.values()}
    for request in wanted:
        if request.id in done:
            assert largest_gap(models[done[request.id].version], request, done[request.id]) < 2e-5


@given(size=st.integers(1, 9), computed=st.integers(0, 8), said=st.lists(st.integers(1, 5), min_size=1, max_size=6),
       spare=st.integers(0, 12))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_branches_fit_the_row_and_read_every_token_once(size, computed, said, spare):
    listed = [list(range(100 * i, 100 * i + n)) for i, n in enumerate(said)]
    computed, width = min(computed, size - 1), size + max(max(said) - 1, spare)
    made = passes(np.arange(size), computed, listed, width)
    read = []
    for number, part in enumerate(made):
        assert len(part) and part.places.max() < width and len(set(part.places.tolist())) == len(part)
        assert (part.positions - size == np.where(part.begins > 0, part.places - part.begins, part.places - size)).all()
        for at, utterance, token in part.wanted.tolist():
            before = [*range(size), *listed[utterance][:token]]
            assert part.ids[at] == before[-1] and part.positions[at] == len(before) - 1
            read.append((utterance, token))
        assert number == 0 or (part.begins > 0).all(), "the prompt is finished by the first pass"
    assert sorted(read) == [(i, token) for i, n in enumerate(said) for token in range(n)]


def choices_played(parrot_model, player: Engine, tickets: list[Ticket], **changes) -> dict[int, Episode]:
    fields = {"choose_listed": True, "max_utterance_tokens": 8, "engine": engine_settings("transformers")}
    dialogue = Dialogue(AutoTokenizer.from_pretrained(str(parrot_model)))
    cast = Cast({"policy": Policy(player, dialogue, trained=True)})
    play = Play(cast, RolloutSettings(**{**fields, **changes}), lambda name: make_game(name, {"seats": 2}))
    play.admit(tickets)
    results = {}
    while play.busy():
        results |= {ticket.number: result for ticket, result, _ in play.step()}
    return results


def parrots(count: int, seed: int | None = None) -> list[Ticket]:
    seats = (("parrot0", "policy"), ("parrot1", "policy"))
    return [Ticket("run", "parrot", number, number if seed is None else seed, seats) for number in range(count)]


@pytest.mark.parametrize(("length", "temperature"), [("words", 1.0), ("tokens", 0.6), ("none", 1.7)])
def test_what_is_kept_of_a_choice_is_all_it_takes_to_find_its_log_prob(parrot_model, length, temperature):
    engine, model = shared_engine("transformers", str(parrot_model)), model_of(str(parrot_model), seed=8, shake=0.1)
    send(engine, model, 9)
    results = choices_played(parrot_model, engine, parrots(12), choice_length=length, temperature=temperature)
    picked = set()
    for episode in results.values():
        for seat in episode.policy_seats():
            sequence = episode.sequence(seat)
            assert sequence.mask.sum() == len(sequence.choices) == len(episode.turns_of(seat)) == 3
            for turn, (place, choice) in zip(episode.turns_of(seat), sorted(sequence.choices.items()), strict=True):
                assert turn.utterance == WORDS[choice.chosen] and turn.executable and sequence.mask[place]
                listed = np.split(choice.ids, np.cumsum(choice.tokens)[:-1])
                assert listed[choice.chosen].tolist() == turn.tokens.utterance_ids.tolist()
                logprobs = [model_logprobs(model, [*sequence.ids[:place], *ids])[place - 1 :] for ids in listed]
                counted = {"words": np.ones(len(WORDS)), "tokens": choice.tokens, "none": np.ones(len(WORDS))}[length]
                every = listed_logprobs(
                    np.concatenate(logprobs), choice.tokens, counted * temperature, np.array([len(WORDS)])
                )
                assert sequence.logprobs[place] == pytest.approx(every[choice.chosen], abs=2e-5)
                assert (turn.tokens.versions == 9).all()
                picked.add(choice.chosen)
    assert picked == set(range(len(WORDS)))


def test_the_same_tickets_choose_the_same_and_one_task_is_played_in_different_ways(parrot_model):
    def said(results: dict[int, Episode]) -> list[tuple]:
        return [
            tuple((turn.utterance, turn.tokens.logprobs.tobytes()) for turn in results[number].turns)
            for number in sorted(results)
        ]

    engine = shared_engine("transformers", str(parrot_model))
    first = said(choices_played(parrot_model, engine, parrots(10, seed=3)))
    assert said(choices_played(parrot_model, engine, parrots(10, seed=3))) == first
    assert len(set(first)) > 5


def test_a_list_that_does_not_fit_the_context_cuts_the_game_off(parrot_model):
    engine = shared_engine("transformers", str(parrot_model))
    opening = len(choices_played(parrot_model, engine, parrots(1))[0].turns[0].tokens.observation_ids)
    for spare in range(3, 12):  # a word and its end need two tokens and one behind them
        room = engine_settings("transformers").model_copy(update={"max_context": opening + spare})
        for episode in choices_played(parrot_model, engine, parrots(2), engine=room).values():
            assert not episode.terminated and 0 < len(episode.turns) < 6
            assert all(
                len(episode.sequence(seat).ids) < opening + spare for seat in {turn.seat for turn in episode.turns}
            )


@given(
    logprobs=st.lists(st.lists(st.floats(-9, 0), min_size=1, max_size=3), min_size=1, max_size=5),
    temperature=st.floats(0.3, 3),
)
@settings(max_examples=50, deadline=None)
def test_actions_are_drawn_as_often_as_they_are_likely(logprobs, temperature):
    actions, ids = ["go to the sofa", "sit"] * 3, [list(range(len(each))) for each in logprobs]
    scored = [np.array(each, np.float32) for each in logprobs]
    found = [drawn(actions[: len(ids)], ids, scored, "words", temperature, (n + 0.5) / 500) for n in range(500)]
    lengths, tempered = np.array([4, 1, 4, 1, 4])[: len(ids)], np.concatenate(scored) / temperature
    every = listed_logprobs(tempered, found[0][0].tokens, lengths, np.array([len(ids)]))
    for action, logp in enumerate(every):
        share = [chosen for choice, chosen in found if choice.chosen == action]
        assert len(share) / 500 == pytest.approx(np.exp(logp), abs=2.1e-3)
        assert not share or share[0] == pytest.approx(logp, abs=1e-6)


@pytest.mark.timeout(300)
def test_choices_train_with_a_critic_and_what_is_trained_is_what_was_sampled(ray_cluster, parrot_model, tmp_path):
    config = config_for(
        parrot_model,
        tmp_path,
        updates=2,
        max_staleness=0,
        reward={"shaper": "game"},
        rollout={"choose_listed": True, "engine": {"kind": "transformers"}},
        learner={"learning_rate": 1e-2, "credit": {"method": "twosome"}},
        evaluation={"episodes": 1},
    )
    _, folder = run(config)
    rows = metrics_of(folder)
    assert [row["learner/trained_tokens"] for row in rows] == [8 * 3] * 2, "one decision a turn"
    for row in rows:
        assert row["learner/logprob_gap_max"] < 1e-4 and row["learner/grad_norm"] > 0
        assert row["rollout/tokens"] == 8 * 3 * 2, "a word and the end of the turn"
