"""The learner group on real DeepSpeed: updates, guards, checkpoints, exports, failures."""

from __future__ import annotations

import os
import signal
import time
from enum import Enum
from io import BytesIO

import numpy as np
import pytest
import torch
from deepspeed.runtime.zero.config import ZeroStageEnum

from learners.group import LearnerError, LearnerGroup
from learners.settings import LearnerSettings
from learners.update import checkpoint
from tests.support.learner_batches import MADE_UP, VOCABULARY, make_batch


def settings_of(**changes) -> LearnerSettings:
    return LearnerSettings(
        **(
            {"cpus_per_rank": 1, "learning_rate": 1e-3, "tokens_per_micro_batch": 128, "start_seconds": 180}
            | MADE_UP
            | changes
        )
    )


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def learner(ray_cluster, tiny_model, tmp_path_factory):
    """One rank, ZeRO 2, with a running baseline; `start` is a checkpoint of its beginning."""
    settings = settings_of(credit={"baseline": "running"}, max_bad_updates=2)
    group = LearnerGroup(settings, str(tiny_model), temperature=0.8, seed=0, name="test-learner")
    group.start()
    group.beginning = tmp_path_factory.mktemp("learner") / "start"
    group.save(group.beginning)
    yield group
    group.close()


def test_an_update_reports_what_it_did(learner):
    learner.load(learner.beginning)
    before = learner.parameters()
    episodes, rewards = make_batch(12, seed=1)
    metrics = learner.update(episodes, rewards)
    assert metrics["applied"] == 1 and metrics["bad_updates"] == 0
    assert metrics["tokens"] == sum(len(e.sequence("guesser").ids) for e in episodes)
    assert metrics["trained_tokens"] == sum(len(t.tokens.utterance_ids) for e in episodes for t in e.turns)
    assert metrics["learning_rate"] == 1e-3
    assert metrics["return_mean"] == pytest.approx(np.mean([r.rewards.sum() for r in rewards]), rel=1e-6)
    assert metrics["grad_norm"] > 0 and metrics["stale_share"] == 0
    assert all(np.isfinite(value) for value in metrics.values())
    assert not same(before, learner.parameters())


def test_something_else_can_be_done_while_the_ranks_learn(learner):
    done = []
    found = []
    for meanwhile in (None, lambda: done.append(time.sleep(0.002))):
        learner.load(learner.beginning)
        assert learner.update(*make_batch(12, seed=1), meanwhile=meanwhile)["applied"] == 1
        found.append(learner.parameters())
    assert done and same(*found)
    with pytest.raises(ZeroDivisionError):
        learner.update(*make_batch(12, seed=1), meanwhile=lambda: 1 / 0)


def test_the_gap_and_the_mismatch_are_those_of_the_stored_log_probs(learner):
    """Log-probs that the trainer itself would give have no gap; a shifted one has its shift."""
    learner.load(learner.beginning)
    episodes, rewards = make_batch(5, seed=2)
    model_gap = learner.update(episodes, rewards)
    assert model_gap["logprob_gap_max"] > 0.1 and model_gap["mismatch_kl"] > 0.01
    learner.load(learner.beginning)
    store_trainer_logprobs(learner, episodes, temperature=0.8)
    metrics = learner.update(episodes, rewards)
    assert metrics["logprob_gap_max"] < 1e-5 and metrics["mismatch_kl"] < 1e-9
    said = np.concatenate([turn.tokens.logprobs for episode in episodes for turn in episode.turns])
    assert metrics["entropy"] == pytest.approx(-said.mean(), abs=1e-5)
    learner.load(learner.beginning)
    episodes[0].turns[0].tokens.logprobs[0] -= 0.25
    assert learner.update(episodes, rewards)["logprob_gap_max"] == pytest.approx(0.25, abs=1e-4)


def store_trainer_logprobs(learner, episodes, temperature: float) -> None:
    """Through an exported model, so by a second way."""
    from transformers import AutoModelForCausalLM

    folder = learner.beginning.parent / "exported"
    learner.export(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    for episode in episodes:
        sequence = episode.sequence("guesser")
        ids = torch.from_numpy(sequence.ids.astype(np.int64))
        with torch.no_grad():
            logits = model(input_ids=ids[None]).logits[0, :-1] / temperature
        scores = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0].numpy()
        said = iter(scores[sequence.mask[1:]])
        for turn in episode.turns:
            turn.tokens.logprobs[:] = [next(said) for _ in turn.tokens.utterance_ids]


def test_order_of_arrival_and_references_change_no_byte(learner, ray_cluster):
    episodes, rewards = make_batch(10, seed=3)
    learner.load(learner.beginning)
    learner.update(episodes, rewards)
    expected = learner.parameters()
    learner.load(learner.beginning)
    mixed = [ray_cluster.put(episodes[7:]), episodes[6], *(ray_cluster.put(episode) for episode in episodes[5::-1])]
    learner.update(mixed, rewards[::-1])
    assert same(expected, learner.parameters())


def test_a_bad_update_leaves_no_trace_and_too_many_stop_the_run(learner):
    batches = [make_batch(8, seed=seed) for seed in (4, 5)]
    learner.load(learner.beginning)
    learner.update(*batches[0])
    learner.update(*batches[1])
    expected = learner.parameters()
    learner.load(learner.beginning)
    learner.update(*batches[0])
    episodes, rewards = make_batch(8, seed=6)
    for turn in episodes[3].turns:  # of older weights, so that the broken log-prob is looked at
        turn.tokens.versions[:] = -7
        turn.tokens.logprobs[:] = np.nan
    bad = learner.update(episodes, rewards)
    assert bad["applied"] == 0 and bad["bad_updates"] == 1
    learner.update(*batches[1])
    assert same(expected, learner.parameters()), "weights, moments and baseline are those of a run without it"
    with pytest.raises(LearnerError, match="2 updates had a loss or gradient that is not finite"):
        learner.update(episodes, rewards)


def test_a_restored_learner_continues_to_the_same_bytes(learner, tmp_path, tiny_model, ray_cluster):
    batches = [make_batch(8, seed=seed) for seed in (7, 8, 9)]
    learner.load(learner.beginning)
    learner.update(*batches[0])
    learner.save(tmp_path / "middle")
    learner.update(*batches[1])
    last = learner.update(*batches[2])
    expected = learner.parameters()
    learner.load(tmp_path / "middle")
    learner.update(*batches[1])
    again = learner.update(*batches[2])
    assert same(expected, learner.parameters())
    assert {k: v for k, v in last.items() if "second" not in k} == {k: v for k, v in again.items() if "second" not in k}
    fresh = LearnerGroup(learner.settings, str(tiny_model), temperature=0.8, seed=0, name="test-restored")
    try:
        fresh.start()
        fresh.load(tmp_path / "middle")
        fresh.update(*batches[1])
        fresh.update(*batches[2])
        assert same(expected, fresh.parameters()), "also in new processes"
    finally:
        fresh.close()


class Harmful:
    """What a stranger could put into a file that is read as a pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_checkpoint_of_a_stranger_runs_no_code(learner, tmp_path):
    learner.load(learner.beginning)
    before = learner.parameters()
    learner.save(tmp_path / "theirs")
    (file,) = (tmp_path / "theirs" / "zero").glob("*model_states.pt")
    torch.save(torch.load(file, weights_only=False) | {"more": Harmful(str(tmp_path / "harm"))}, file)
    with pytest.raises(LearnerError, match=r"holds more than a learner's data: (posix|nt)\.mkdir"):
        learner.load(tmp_path / "theirs")
    assert not (tmp_path / "harm").exists()
    torch.load(file, weights_only=False)
    assert (tmp_path / "harm").exists(), "the file does hold it"
    assert same(before, learner.parameters())
    learner.load(learner.beginning)


def test_every_python_writes_deepspeeds_enum_as_data(monkeypatch):
    monkeypatch.setattr(Enum, "__reduce_ex__", lambda member, _: (getattr, (type(member), member.name)))  # as 3.11.2
    written = BytesIO()
    torch.save({"stage": ZeroStageEnum.weights}, written)
    written.seek(0)
    with checkpoint.only_data():
        assert torch.load(written)["stage"] is ZeroStageEnum.weights


def test_the_running_baseline_lives_on_and_is_saved(learner, tmp_path):
    def paid(amount: float, seed: int):
        episodes, rewards = make_batch(6, seed=seed)
        for reward in rewards:
            reward.rewards[:] = 0.0
            reward.rewards[-1] = amount  # undiscounted: every turn's return
        return episodes, rewards

    learner.load(learner.beginning)
    assert learner.update(*paid(1.0, seed=15))["advantage_mean"] == 0.0
    learner.save(tmp_path)
    assert learner.update(*paid(0.0, seed=16))["advantage_mean"] == -1.0
    learner.load(learner.beginning)
    learner.load(tmp_path)
    assert learner.update(*paid(0.0, seed=16))["advantage_mean"] == -1.0


def test_a_checkpoint_that_does_not_fit_is_refused(learner, tmp_path):
    import json

    with pytest.raises(LearnerError, match="holds no learner checkpoint"):
        learner.load(tmp_path)
    learner.load(learner.beginning)
    learner.save(tmp_path / "saved")
    before = learner.parameters()
    file = tmp_path / "saved" / "learner.json"
    stored = json.loads(file.read_text())
    misfits = (("model", "f00d", "another model"), ("zero", 3, r"learner\.zero=3.*zero=2"), ("ranks", 2, r"\.ranks=2"))
    for key, value, message in misfits:
        file.write_text(json.dumps({**stored, "identity": {**stored["identity"], key: value}}))
        with pytest.raises(LearnerError, match=message):
            learner.load(tmp_path / "saved")
    assert same(before, learner.parameters())


def test_scores_and_export_agree_with_transformers(learner, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    learner.load(learner.beginning)
    learner.update(*make_batch(8, seed=10))
    learner.export(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template
    assert same(learner.parameters(), {name: p.detach().numpy() for name, p in model.named_parameters()})
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, VOCABULARY, n).tolist() for n in (5, 1, 60, 200)]  # also over the budget of training
    for sequence, scores in zip(sequences, learner.score(sequences), strict=True):
        ids = torch.tensor(sequence)
        with torch.no_grad():
            logits = model(input_ids=ids[None]).logits[0, :-1]
        expected = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0].numpy()
        assert scores.shape == (len(sequence) - 1,)
        assert scores == pytest.approx(expected, abs=1e-5)


def test_a_batch_that_cannot_be_trained_is_one_clear_line_and_where_it_failed_is_logged(learner, caplog):
    episodes, rewards = make_batch(3, seed=11)
    with pytest.raises(LearnerError, match=r"episode 2: seat 'guesser' has no reward$"):
        learner.update(episodes, rewards[:2])
    assert 'rank.py", line' in caplog.text and "in update" in caplog.text, "the lines of the rank's own process"
    assert "\x1b" not in caplog.text
    long, reward = make_batch(1, seed=12, most_turns=4)
    long[0].turns *= 30
    reward[0].rewards = np.zeros(len(long[0].turns), np.float32)
    with pytest.raises(LearnerError, match=r"more than learner\.tokens_per_micro_batch=128"):
        learner.update(long, reward)


def test_more_ranks_than_the_cluster_has_cpus(ray_cluster, tiny_model):
    group = LearnerGroup(settings_of(ranks=64), str(tiny_model), 1.0, 0, "test-many")
    with pytest.raises(LearnerError, match=r"learner.ranks=64 .* needs 64 CPUs, but the cluster has 4"):
        group.start()


def test_a_model_that_does_not_exist_and_a_name_that_is_taken(ray_cluster, tiny_model, tmp_path, learner):
    nowhere = LearnerGroup(settings_of(), str(tmp_path / "nothing"), 1.0, 0, "test-nowhere")
    with pytest.raises(LearnerError, match=r"model '.*/nothing' cannot be loaded"):
        nowhere.start()
    twice = LearnerGroup(settings_of(), str(tiny_model), 1.0, 0, "test-learner")
    with pytest.raises(LearnerError, match="parley-test-learner-learner-0 runs already"):
        twice.start()
    assert twice.placement is None and not twice.actors, "a start that failed leaves nothing behind"


def test_a_start_that_is_interrupted_does_not_wait_for_its_ranks(ray_cluster, tiny_model, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    group = LearnerGroup(settings_of(), str(tiny_model), 1.0, 0, "test-at-once")
    group.place()
    monkeypatch.setattr(group, "_gather", interrupt)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        group.start()
    assert time.monotonic() - began < 4 and not group.actors


def test_a_dead_rank_is_one_clear_error(ray_cluster, tiny_model):
    group = LearnerGroup(settings_of(ranks=2, zero=3), str(tiny_model), 1.0, 0, "test-death")
    try:
        group.start()
        group.update(*make_batch(4, seed=13))
        process = ray_cluster.get(group.actors[1].process.remote(), timeout=30)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(LearnerError, match=r"learner update.*rank"):
            group.update(*make_batch(4, seed=14), meanwhile=lambda: time.sleep(0.01))
    finally:
        group.close()
    with pytest.raises(LearnerError, match="not running"):
        group.score([[1, 2]])
