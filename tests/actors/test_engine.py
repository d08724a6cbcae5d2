"""Both engines against the Hugging Face model, token for token."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from actors.engines.contract import Request
from actors.transport.bucket import BadBucket
from tests.support.engines import (
    KINDS,
    bucket_of,
    drain,
    largest_gap,
    model_logprobs,
    model_of,
    requests,
    run,
    send,
    send_bucket,
    shared_engine,
)

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-4


@pytest.fixture(params=KINDS)
def engine(request, tiny_model):
    engine = shared_engine(request.param, str(tiny_model))
    engine.forget()
    return engine


@pytest.fixture(scope="module")
def path(tiny_model):
    return str(tiny_model)


@pytest.fixture(scope="module")
def vocabulary(path):
    return model_of(path).config.vocab_size


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_logprobs_are_those_of_the_tempered_model(engine, path, vocabulary, temperature):
    model = model_of(path, seed=1, shake=0.2)
    send(engine, model, 1)
    wanted = requests(12, vocabulary, temperature=temperature)
    done = run(engine, wanted)
    assert set(done) == {request.id for request in wanted}
    for request in wanted:
        assert largest_gap(model, request, done[request.id]) < TOLERANCE
        other = Request(request.id, request.prompt_ids, request.max_tokens, 1.7 - temperature, 0, ())
        assert largest_gap(model, other, done[request.id]) > 0.05  # the temperature is in them


@pytest.mark.long
def test_an_engine_on_a_cpu_compiles_nothing(path, vocabulary, tmp_path):
    """In a process of its own: what torch has compiled is counted for a whole process."""
    code = (
        "from tests.support.engines import requests, run, shared_engine\n"
        f"run(shared_engine('vllm', {path!r}), requests(3, {vocabulary}))\n"
        "from torch._dynamo.utils import counters\n"
        "print('compiled', counters['frames']['total'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "compiled 0" in done.stdout.splitlines(), done.stderr[-2000:]


def test_tokens_are_drawn_from_the_distribution(engine, path, vocabulary):
    """1,500 draws of one token: every frequency within five standard deviations."""
    model = model_of(path, seed=2, shake=0.3)
    send(engine, model, 1)
    prompt = requests(1, vocabulary)[0].prompt_ids
    draws = 1500
    done = run(engine, [Request(f"d{n}", prompt, 1, 1.0, n * 7919, ()) for n in range(draws)])
    counts = np.bincount([int(c.token_ids[0]) for c in done.values()], minlength=vocabulary)
    with torch.no_grad():
        expected = torch.softmax(model(torch.tensor([prompt])).logits[0, -1], -1).numpy()
    spread = np.sqrt(draws * expected * (1 - expected)) + 1
    assert np.abs(counts - draws * expected).max() < 5 * spread.max()
    assert (np.abs(counts - draws * expected) < 5 * spread).all()


def test_a_request_in_flight_over_two_syncs_has_each_versions_own_logprobs(engine, path, vocabulary):
    models = {version: model_of(path, seed=version, shake=0.2) for version in (10, 11, 12)}
    send(engine, models[10], 10)
    wanted = requests(40, vocabulary, prompt=70, tokens=30, seed=3)  # more than run at once
    wanted = [Request(r.id, r.prompt_ids, r.max_tokens, r.temperature, r.seed, ()) for r in wanted]
    for request in wanted:
        engine.submit(request)
    done = {}
    for version in (11, 12):
        for _ in range(7):
            done |= {completion.id: completion for completion in engine.step()}
        send(engine, models[version], version)
        assert engine.version == version
    done |= drain(engine)
    crossing = 0
    for request in wanted:
        completion = done[request.id]
        assert len(completion.token_ids) == 30 and completion.finish == "length"
        assert (np.diff(completion.versions) >= 0).all()
        crossing += len(set(completion.versions.tolist())) == 3
        for version, model in models.items():
            made = completion.versions == version
            assert largest_gap(model, request, completion, made) < TOLERANCE
            if made.any() and version != 10:
                assert largest_gap(models[10], request, completion, made) > 0.01
    assert crossing >= 30


def test_no_key_of_older_weights_outlives_an_update(engine, path, vocabulary):
    old, new = model_of(path, seed=4, shake=0.2), model_of(path, seed=5, shake=0.2)
    send(engine, old, 1)
    (first,) = requests(1, vocabulary, prompt=80, seed=5)
    said = run(engine, [first])[first.id]
    grown = (*first.prompt_ids, *said.token_ids.tolist(), 5, 6, 7)
    before = engine.metrics()["cached_tokens"]
    run(engine, [Request("again", grown, 4, 1.0, 1, ())])
    assert engine.metrics()["cached_tokens"] > before + 60  # the cache works,
    send(engine, new, 2)
    before = engine.metrics()["cached_tokens"]
    request = Request("after", grown, 8, 1.0, 2, ())
    completion = run(engine, [request])[request.id]
    assert engine.metrics()["cached_tokens"] == before  # and is empty after an update
    assert largest_gap(new, request, completion) < TOLERANCE


def test_a_growing_prompt_is_computed_right_from_where_it_stopped(engine, path, vocabulary):
    model = model_of(path, seed=6, shake=0.2)
    send(engine, model, 1)
    rng = np.random.default_rng(0)
    prompts = {r.id: r.prompt_ids for r in requests(40, vocabulary, prompt=33, seed=6)}
    for turn in range(4):
        wanted = [Request(f"{name}.{turn}", ids, 9, 1.0, turn, (1,)) for name, ids in prompts.items()]
        done = run(engine, wanted)
        for request, name in zip(wanted, prompts, strict=True):
            completion = done[request.id]
            assert largest_gap(model, request, completion) < TOLERANCE
            new = rng.integers(3, vocabulary, int(rng.integers(1, 12))).tolist()
            prompts[name] = (*request.prompt_ids, *completion.token_ids.tolist(), *new)


def test_what_is_sampled_does_not_depend_on_the_neighbours(engine, path, vocabulary):
    send(engine, model_of(path, seed=7, shake=0.2), 1)
    wanted = requests(20, vocabulary, seed=8)
    together = run(engine, wanted)
    for request in wanted[::7]:
        alone = run(engine, [request])[request.id]
        assert alone.token_ids.tolist() == together[request.id].token_ids.tolist()
        assert np.abs(alone.logprobs - together[request.id].logprobs).max() < 1e-5


def test_the_same_requests_from_an_empty_cache_give_the_same_bytes(engine, path, vocabulary):
    send(engine, model_of(path, seed=7, shake=0.2), 1)
    wanted = requests(40, vocabulary, prompt=40, seed=9)
    runs = []
    for _ in range(2):
        engine.forget()
        done = run(engine, wanted)
        runs.append([(done[r.id].token_ids.tobytes(), done[r.id].logprobs.tobytes()) for r in wanted])
    assert runs[0] == runs[1]


def three_turns(engine, opened: list[Request], in_order: bool = True) -> tuple[int, list[str]]:
    """Each game goes on twice from what it was answered. How many tokens were known by then, and who ended when."""
    order = {request.id: place * in_order for place, request in enumerate(opened)}
    asked = {request.id: replace(request, order=order[request.id]) for request in opened}
    for request in asked.values():
        engine.submit(request)
    turns, known, ended = dict.fromkeys(asked, 1), 0, []
    while engine.busy():
        for done in engine.step():
            if turns[done.id] == 3:
                ended.append(done.id)
                continue
            turns[done.id] += 1
            said = (*asked[done.id].prompt_ids, *done.token_ids.tolist())
            known += len(said) - 1  # the last token of an answer was never fed
            asked[done.id] = Request(done.id, (*said, 5, 6, 7), 4, 1.0, 3, (1,), order=order[done.id])
            engine.submit(asked[done.id])
    return known, ended


def test_with_more_games_than_rows_those_that_began_first_go_first(path, vocabulary):
    """Three games for each row: every later turn computes only what is new in it."""
    engine = shared_engine("transformers", path)
    engine.forget()
    before = engine.metrics()
    opened = requests(3 * engine.settings.max_sequences, vocabulary, tokens=4, seed=21)
    known, ended = three_turns(engine, opened)
    assert engine.metrics()["cached_tokens"] - before["cached_tokens"] == known
    assert set(ended[: len(opened) // 3]) == {request.id for request in opened[: len(opened) // 3]}


def test_where_the_cache_holds_few_games_those_that_began_first_keep_theirs(path, vocabulary):
    """In the order in which they come, each game that takes its turn would push out what another one needs next."""
    engine, shares = shared_engine("vllm", path), []
    opened = requests(240, vocabulary, prompt=120, tokens=4, seed=21)
    for in_order in (True, False):
        engine.forget()
        before = engine.metrics()
        known, ended = three_turns(engine, opened, in_order)
        assert len(ended) == len(opened)
        shares.append((engine.metrics()["cached_tokens"] - before["cached_tokens"]) / known)
    assert shares[0] > 0.6 and shares[1] < 0.1, shares  # whole blocks alone are cached


def test_scores_are_computed_afresh_and_leave_requests_in_flight_alone(engine, path, vocabulary):
    model = model_of(path, seed=8, shake=0.2)
    send(engine, model, 1)
    wanted = requests(40, vocabulary, seed=10)
    expected = run(engine, wanted)
    sequences = [list(r.prompt_ids) + expected[r.id].token_ids.tolist() for r in wanted[:5]]
    cached = engine.metrics()["cached_tokens"]
    engine.forget()
    for request in wanted:
        engine.submit(request)
    done = {completion.id: completion for _ in range(5) for completion in engine.step()}
    for sequence, scores in zip(sequences, engine.score(sequences), strict=True):
        assert np.abs(scores - model_logprobs(model, sequence)).max() < TOLERANCE
    done |= drain(engine)
    assert engine.metrics()["cached_tokens"] == cached
    assert {name: c.token_ids.tolist() for name, c in done.items()} == {
        name: c.token_ids.tolist() for name, c in expected.items()
    }


def test_stop_length_abort_and_greedy(engine, path, vocabulary):
    model = model_of(path, seed=9, shake=0.3)
    send(engine, model, 1)
    (asked,) = requests(1, vocabulary, seed=11)
    greedy = run(engine, [Request("greedy", asked.prompt_ids, 6, 0.0, 0, ())])["greedy"]
    ids = list(asked.prompt_ids)
    for token in greedy.token_ids:
        with torch.no_grad():
            assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
        ids.append(int(token))
    stop = int(greedy.token_ids[2])
    stopped = run(engine, [Request("stop", asked.prompt_ids, 6, 0.0, 0, (stop,))])["stop"]
    cut = greedy.token_ids.tolist().index(stop) + 1
    assert stopped.token_ids.tolist() == greedy.token_ids.tolist()[:cut] and stopped.finish == "stop"
    for request in requests(40, vocabulary, seed=12):
        engine.submit(request)
    engine.step()
    engine.abort([f"s12-{n}" for n in range(38)])
    assert set(drain(engine)) == {"s12-38", "s12-39"}


def test_more_prompt_tokens_than_one_step_takes(engine, path, vocabulary):
    """Seeded requests whose prompts do not fit one step: none is refused, cut or computed wrong."""
    model = model_of(path, seed=10, shake=0.2)
    send(engine, model, 1)
    wanted = requests(32, vocabulary, prompt=100, tokens=5, seed=13)
    done = run(engine, wanted)
    assert all(largest_gap(model, request, done[request.id]) < TOLERANCE for request in wanted)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight"])
def test_a_skipped_or_corrupted_weight_shows_in_the_scores(engine, path, vocabulary, name):
    old, new = model_of(path, seed=11, shake=0.1), model_of(path, seed=12, shake=0.1)
    sequence = list(requests(1, vocabulary, prompt=60, seed=14)[0].prompt_ids)
    expected = model_logprobs(new, sequence)

    def gap() -> float:
        return float(np.abs(engine.score([sequence])[0] - expected).max())

    send(engine, old, 1)
    send(engine, new, 2, lambda weights: [each for each in weights if each[0] != name])
    assert gap() > 1e-2
    send(engine, new, 3)
    assert gap() < TOLERANCE
    spoiled = model_of(path, seed=12, shake=0.1)
    with torch.no_grad():
        weight = spoiled.get_parameter(name).view(-1)
        weight[: len(weight) // 2] = weight[: len(weight) // 2].flip(0) * 2
    send(engine, spoiled, 4)
    assert gap() > 1e-2
    send(engine, new, 5)
    assert gap() < TOLERANCE


def test_a_bad_bucket_is_refused_and_no_token_is_made_of_half_an_update(engine, path, vocabulary):
    model = model_of(path, seed=13, shake=0.2)
    weights = list(model.named_parameters())
    size = bucket_of(weights)[0]["nbytes"]
    bad = [
        ({"nbytes": size + 2**20}, "truncated"),
        ({"dtype_names": ["float8"] * len(weights)}, "unknown dtype"),
        ({"offsets": [size] * len(weights)}, "ends at"),
        ({"segment": "no_such_segment"}, "does not exist"),
        ({"names": ["model.no_such_weight"] + [name for name, _ in weights[1:]]}, "no_such_weight"),
    ]
    for changes, message in bad:
        engine.start_weight_update()
        with pytest.raises(ValueError, match=message):
            send_bucket(engine, weights, **changes)
        with pytest.raises(RuntimeError, match="broke off"):
            engine.step()
        with pytest.raises(RuntimeError, match="has to come first"):
            engine.finish_weight_update("9")
    send(engine, model, 14)
    (request,) = requests(1, vocabulary, seed=15)
    assert largest_gap(model, request, run(engine, [request])[request.id]) < TOLERANCE


def test_an_update_that_broke_off_in_the_middle_of_a_layer_leaves_nothing_behind(engine, path, vocabulary):
    """Its sender went away in silence, or the engine could not read the rest."""
    stale = list(model_of(path, seed=15, shake=0.2).named_parameters())
    middle = next(place for place, (name, _) in enumerate(stale) if "k_proj" in name)
    for seed, heard_of_it in ((16, False), (17, True)):
        engine.start_weight_update()
        send_bucket(engine, stale[:middle])
        if heard_of_it:
            with pytest.raises(ValueError, match="does not exist"):
                send_bucket(engine, stale[middle:], segment="no_such_segment")
        model = model_of(path, seed=seed, shake=0.2)
        send(engine, model, seed)
        (request,) = requests(1, vocabulary, seed=seed)
        assert largest_gap(model, request, run(engine, [request])[request.id]) < TOLERANCE


def test_weights_in_half_precision_arrive_as_sent(engine, path, vocabulary):
    model = model_of(path, seed=14, shake=0.2)
    half = [(name, weight.detach().to(torch.bfloat16)) for name, weight in model.named_parameters()]
    engine.start_weight_update()
    send_bucket(engine, half)
    engine.finish_weight_update("1")
    sequence = list(requests(1, vocabulary, prompt=50, seed=16)[0].prompt_ids)
    assert np.abs(engine.score([sequence])[0] - model_logprobs(model, sequence)).max() > 1e-3
    with torch.no_grad():
        for name, weight in half:
            model.get_parameter(name).copy_(weight)
    assert np.abs(engine.score([sequence])[0] - model_logprobs(model, sequence)).max() < TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_tied_embeddings_are_synced_too(kind, tiny_model, tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(tiny_model)
    config.tie_word_embeddings = True
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    engine = shared_engine(kind, str(tmp_path))  # not closed: that would take vLLM's process-wide state from the others
    trained = model_of(str(tmp_path), seed=15, shake=0.2)
    assert "lm_head.weight" not in dict(trained.named_parameters())
    sequence = list(requests(1, config.vocab_size, prompt=60)[0].prompt_ids)
    assert np.abs(engine.score([sequence])[0] - model_logprobs(trained, sequence)).max() > 0.1
    send(engine, trained, 1)
    assert np.abs(engine.score([sequence])[0] - model_logprobs(trained, sequence)).max() < TOLERANCE


def test_both_engines_are_one_model(path, vocabulary):
    model = model_of(path, seed=16, shake=0.2)
    sequences = [list(r.prompt_ids) for r in requests(4, vocabulary, prompt=90, seed=17)]
    scores = []
    for kind in KINDS:
        engine = shared_engine(kind, path)
        send(engine, model, 1)
        scores.append(engine.score(sequences))
    assert max(np.abs(a - b).max() for a, b in zip(*scores, strict=True)) < TOLERANCE


def test_settings_that_cannot_work_are_refused(path):
    from actors.engines.transformers_engine import TransformersEngine
    from tests.support.engines import engine_settings

    settings = engine_settings("transformers")
    with pytest.raises(ValueError, match="max_context=100000"):
        TransformersEngine(settings.model_copy(update={"max_context": 100_000}), path)
    engine = shared_engine("transformers", path)
    with pytest.raises(ValueError, match="max_context=256"):
        engine.submit(Request("long", tuple(range(3, 103)) * 2, 60, 1.0, 0, ()))
    assert issubclass(BadBucket, ValueError)


def test_an_engine_on_a_gpu_does_not_ask_for_flashinfer(path, monkeypatch):
    shared_engine("vllm", path)  # its environment
    from vllm.platforms import current_platform
    from vllm.v1.sample.ops.topk_topp_sampler import flashinfer_sampler_supported

    monkeypatch.setattr(type(current_platform), "is_cuda", lambda platform: True)
    assert not flashinfer_sampler_supported()
