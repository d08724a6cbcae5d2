"""Intrinsic reward from annotated captions: what it pays, how its models learn, and that nobody waits for it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from envs.episode import Episode, Ticket, Turn
from envs.registry import make_game
from envs.settings import GameSettings
from reward_service.desk import RewardDesk, name_of
from reward_service.service.storage import read_state, write_state
from reward_service.shaper import ShapedRewards
from reward_service.shapers.oni import Oni
from reward_service.shapers.oni.annotator import COMPARISON, HELPFULNESS, Failed, RuleAnnotator, verdict
from reward_service.shapers.oni.shaper import OniShaper
from tests.support.oni_games import BAD, GAME, GOOD, Answering, batch, figures, shaped, shaper_with, telling
from tests.support.runs import assert_whole, config_for, metrics_of, run

PLAYERS = (("a", "policy"), ("b", "policy"))
MODELS = ("retrieval", "classification", "ranking")


# What is paid


def test_a_turn_is_paid_both_rewards_and_a_caption_less_each_time():
    desk = RewardDesk(shaper_with(Answering(), extrinsic_weight=2, intrinsic_weight=0.4, beta=3), steady=True)
    told = telling(0, GOOD, BAD, GOOD, "", GOOD, outcome=1.0)
    (first,) = shaped(desk, 0, [told])
    assert first.rewards.tolist() == [0, 0, 0, 0, 2] and first.version == 0, "nothing is known yet"
    (second,) = shaped(desk, 1, [telling(1, *[turn.caption for turn in told.turns], outcome=1.0)])
    assert second.rewards == pytest.approx([0.4, 0, 0.4 / 8, 0, 2 + 0.4 / 27])
    assert (second.version, second.kind, second.number, second.seat) == (1, "reward", 1, "agent")
    assert figures(desk, "seen", "labelled") == (3, 3), "of an empty caption the utterance is one"


def test_each_seats_captions_are_counted_by_themselves():
    """What one seat did often is new where another does it."""
    desk = RewardDesk(shaper_with(Answering(), extrinsic_weight=0, intrinsic_weight=1, beta=1), steady=True)

    def both(number: int) -> Episode:
        turns = [Turn(seat, player, "", "x", caption=GOOD) for seat, player in (*PLAYERS, *PLAYERS)]
        return Episode(Ticket("run", GAME.name, number, 0, PLAYERS), turns, {"a": 0.0, "b": 0.0}, True)

    shaped(desk, 0, [both(0)])
    assert [each.rewards.tolist() for each in shaped(desk, 1, [both(1)])] == [[1, 0.5], [1, 0.5]]


def test_episodes_of_two_runs_or_attempts_may_share_a_number():
    shaper = shaper_with(Answering(), extrinsic_weight=0, intrinsic_weight=1)
    desk = RewardDesk(shaper, steady=True)
    shaped(desk, 0, [telling(0, GOOD)])
    shaped(desk, 1, [telling(1, GOOD)])
    told = [telling(2, GOOD), telling(2, BAD, GOOD, BAD), telling(2, BAD, BAD)]
    told[1].ticket = replace(told[1].ticket, run="tuesday")
    told[2].ticket = replace(told[2].ticket, attempt=1)
    assert [each.rewards.tolist() for each in shaper.shape(told)] == [[1], [0, 1, 0], [0, 0]]


def test_the_games_own_pay_can_be_what_is_beside_it():
    desk = RewardDesk(shaper_with(Answering(), extrinsic="game"), steady=True)
    told = telling(0, GOOD, BAD)
    told.turns[1].reward = -0.25
    (first,) = shaped(desk, 0, [told])
    assert first.rewards == pytest.approx([0, -0.25])


def test_utterances_can_be_annotated_in_place_of_captions():
    desk = RewardDesk(shaper_with(Answering(["something"]), caption="utterance"), steady=True)
    shaped(desk, 0, [telling(0, GOOD)])
    assert shaped(desk, 1, [telling(1, BAD)])[0].rewards == pytest.approx([0.4])


@pytest.mark.parametrize(
    ("game", "helps", "does_not"),
    [
        ("virtualhome", GOOD, BAD),
        (
            "virtualhome",
            "the agent chooses to close the microwave, and the task is done",
            GOOD + ", which cannot be done",
        ),
        (
            "overcooked",
            "the agent chooses to chop the tomato",
            "the agent chooses to put the bowl on the cutting board",
        ),
        ("overcooked", "the agent chooses to put the tomato in the bowl", "the agent chooses to serve the dish"),
        ("twenty_questions", "the guesser asks about animal: no", "the guesser asks about kitchen: no"),
        ("twenty_questions", "the guesser guesses cat: right", "the guesser guesses cat: wrong"),
    ],
)
def test_the_games_rules_know_what_helps(game, helps, does_not):
    rule = RuleAnnotator(GameSettings(name=game))
    better, worse = rule.annotate([(helps,), (does_not,)])
    assert better > 0.5 > worse
    assert rule.annotate([(helps, does_not), (does_not, helps), (helps, helps)]) == [1, 0, 0.5]


def test_a_rule_that_cannot_answer_is_counted_and_a_game_without_one_is_named():
    rule = RuleAnnotator(GAME)
    rule.rule = lambda caption: {"a": 2.0, "b": None, "c": 1 / 2}[caption]
    verdicts = rule.annotate([("a",), ("b",), ("c",), ("d",)])
    assert verdicts == [Failed("not_from_0_to_1"), Failed("not_from_0_to_1"), 0.5, Failed("rule_raised")]
    shaper = OniShaper(Oni(), GameSettings(name="parrot"))
    with pytest.raises(ValueError, match="reward.shaper.annotator=rule: game 'parrot' has no method `helpful`"):
        shaper.shape([telling(0, GOOD)])
    assert not shaper.queue.counts["seen"]


def test_answers_are_read_strictly():
    said = {"yes": 1.0, " Yes.\n": 1.0, '"no"': 0.0}
    assert {text: verdict(text, HELPFULNESS) for text in said} == said
    for text in ("", "yes, it does", "no no", "not at all", "maybe", "yes or no", "first", "1"):
        assert verdict(text, HELPFULNESS) == Failed("unreadable"), text
    thoughts = ("<think>no, or</think>\n\nyes", "<think>no")
    assert [verdict(text, HELPFULNESS) for text in thoughts] == [1, Failed("unreadable")]
    assert [verdict(text, COMPARISON) for text in ("first", "Second.", "tie")] == [1, 0, 0.5]


# Asked beside the traffic


def test_nobody_waits_for_the_annotator():
    annotator = Answering()
    annotator.may_answer.clear()
    desk = RewardDesk(shaper_with(annotator, queue={"batch": 2}))
    for number in range(3):
        (paid,) = shaped(desk, number, [telling(number, GOOD, BAD, f"new in {number}")])
        assert paid.rewards.tolist() == [0, 0, 0] and paid.version == 0
    assert figures(desk, "seen", "pending", "queued") == (5, 2, 3)
    annotator.may_answer.set()
    desk.job.result(30)
    assert annotator.asked[0] == [("new in 0",), (BAD,)], "what was newest when it was free"
    assert annotator.asked[1] == [("new in 2",), (GOOD,)], "and so again: GOOD was seen in every batch"
    (paid,) = shaped(desk, 3, [telling(3, GOOD, BAD)])
    assert paid.rewards == pytest.approx([0.4, 0]) and paid.version == 1
    assert sorted(sum(annotator.asked, [])) == sorted({*sum(annotator.asked, [])}), "nothing was asked twice"


def test_one_call_that_fails_costs_only_itself():
    annotator = Answering()
    annotator.failing = {BAD}
    desk = RewardDesk(shaper_with(annotator, queue={"attempts": 3, "rest": 2}), steady=True)
    for number in range(4):
        (paid,) = shaped(desk, number, [telling(number, GOOD, BAD)])
    assert paid.rewards == pytest.approx([0.4, 0])
    assert figures(desk, "labelled", "given_up", "failed/ReadTimeout") == (1, 1, 3)
    annotator.failing = set()
    for number in range(4, 8):
        shaped(desk, number, [telling(number, GOOD, BAD)])
    assert figures(desk, "seen", "labelled", "given_up", "queued", "pending") == (3, 2, 1, 0, 0)


def test_a_server_that_is_away_is_left_in_peace_until_the_next_batch():
    annotator = Answering()
    annotator.failing = {f"caption {number}" for number in range(30)}
    desk = RewardDesk(shaper_with(annotator, queue={"batch": 10, "attempts": 9}), steady=True)
    shaped(desk, 0, [telling(0, *sorted(annotator.failing))])
    desk.state()
    assert len(annotator.asked) == 1 and figures(desk, "queued", "failed/ReadTimeout", "version") == (30, 10, 0)


def test_an_annotator_that_breaks_is_counted_and_its_successor_goes_on():
    annotator = Answering()
    annotator.raising = True
    desk = RewardDesk(shaper_with(annotator), steady=True)
    shaped(desk, 0, [telling(0, GOOD, BAD)])
    shaped(desk, 1, [telling(1, GOOD, BAD)])
    assert desk.metrics()["reward/failed_refits"] == 1 and figures(desk, "failed/lost") == (2,)
    annotator.raising = False
    shaped(desk, 2, [telling(2, GOOD, BAD)])
    (paid,) = shaped(desk, 3, [telling(3, GOOD, BAD)])
    assert paid.rewards == pytest.approx([0.4, 0]) and figures(desk, "seen", "labelled") == (2, 2)


def test_a_round_that_was_given_up_for_lost_takes_nothing_more_and_is_not_published():
    annotator = Answering()
    shaper = shaper_with(annotator, queue={"batch": 1})
    shaper.shape([telling(0, "one", "two", "three")])
    late = shaper.refit()
    assert late is not None and shaper.queue.take(1) == [("three",)]
    assert (work := shaper.refit()) is not None and shaper.queue.failures == {"lost": 1}
    with pytest.raises(ValueError, match="round 1 was overtaken by round 2"):
        shaper.publish(late())
    assert annotator.asked == []
    shaper.publish(work())
    assert shaper.queue.counts["labelled"] == 3


def test_answers_that_are_forgotten_are_asked_for_again():
    annotator = Answering()
    desk = RewardDesk(shaper_with(annotator, distil={"kept": 2}), steady=True)
    for number in range(3):
        shaped(desk, number, [telling(number, GOOD, BAD, "a third")])
    desk.state()
    assert figures(desk, "answers") == (2,) and figures(desk, "seen")[0] > 3


# Reward models


@pytest.mark.parametrize("model", MODELS)
def test_each_model_learns_what_helps(model):
    desk = RewardDesk(OniShaper(Oni(model=model), GAME), steady=True)
    for number in range(2):
        shaped(desk, number, batch(number))
    episodes = batch(2)
    paid = {each.number: each.rewards for each in shaped(desk, 2, episodes)}
    rule = make_game(GAME.name, GAME.options).helpful
    for episode in episodes:
        told = [turn.caption for turn in episode.turns]
        for place, caption in enumerate(told):
            extra = paid[episode.ticket.number][place] - (episode.outcome["agent"] if place == len(told) - 1 else 0)
            full = extra * (told[: place + 1].count(caption)) ** 3 / 0.4
            expected = rule(caption)
            assert (full > 0.1) == (expected > 0.5), caption
            assert model == "ranking" or full == pytest.approx(expected, abs=1e-3)


def test_models_take_32_steps_after_each_annotation_batch_and_later_one_for_each_update():
    distil = {"until": 12, "steps_per_batch": 32, "steps_per_update": 1}
    settings = {"model": "classification", "queue": {"batch": 5, "batches": 10}, "distil": distil}
    desk = RewardDesk(shaper_with(Answering(), **settings), steady=True)
    steps = []
    for number in range(4):
        told = [f"caption {number} {each}" for each in range(10 if number < 2 else 0)] or [GOOD]
        shaped(desk, number, [telling(number, *told)])
        desk.state()  # waits for the round
        steps += figures(desk, "gradient_steps")
    # 10 answers in two batches, 15 after the first of the next two; from there on updates count
    assert steps == [64, 64 + 32 + 1, 98, 99]
    assert figures(desk, "version", "labelled") == (4, 21), "each round made a new model"


def test_a_round_that_takes_no_step_keeps_what_was_answered():
    distil = {"until": 3, "steps_per_batch": 2, "steps_per_update": 0}
    settings = {"model": "classification", "queue": {"batch": 2, "batches": 1}, "distil": distil}
    desk = RewardDesk(shaper_with(Answering(), **settings), steady=True)
    for number in range(4):
        shaped(desk, number, [telling(number, f"caption {number}", f"another {number}")])
        desk.state()  # waits for the round
    assert figures(desk, "labelled") == (8,) and not desk.counts["failed_refits"]


# Saved, restored, and the same twice


def bytes_of(rewards: list[ShapedRewards]) -> bytes:
    return b"".join(f"{each.number} {each.seat} {each.version}".encode() + each.rewards.tobytes() for each in rewards)


@pytest.mark.parametrize("model", MODELS)
def test_the_same_games_pay_the_same_bytes_whatever_came_first_and_across_a_restart(model, tmp_path):
    from envs.text.embedding import embedder

    settings = Oni(model=model, queue={"batch": 1, "batches": 2}, distil={"until": 9})
    batches = [batch(number, 4) for number in range(5)]
    answers, states = [], []
    for attempt in range(2):
        embedder(None).rows.clear()
        desk = RewardDesk(OniShaper(settings, GAME), steady=True)
        made = []
        for number, episodes in enumerate(batches):
            if attempt and number == 3:
                write_state(tmp_path / "half", desk.state())
                embedder(None).rows.clear()
                desk = RewardDesk(OniShaper(settings, GAME), steady=True)
                desk.restore(read_state(tmp_path / "half"))
            for episode in reversed(episodes) if attempt else episodes:
                desk.receive(episode)
            made.append(bytes_of(desk.shape(number, [name_of(episode) for episode in episodes])))
        answers.append(made)
        write_state(tmp_path / str(attempt), desk.state())
        states.append([(tmp_path / str(attempt) / file).read_bytes() for file in ("state.json", "arrays.npz")])
    assert answers[0] == answers[1] and states[0] == states[1]
    assert json.loads(states[0][0])["shaper"]["version"] > 3


def test_a_caption_is_embedded_alike_in_whatever_company():
    """In one batch with longer texts its row would differ by rounding, and with it rewards from run to run."""
    from envs.text.embedding import embed, embedder

    shaper, rows = OniShaper(Oni(), GAME), []
    for company in ((), ("the agent looks around " * 9, BAD, "a word"), (BAD, BAD + ", which cannot be done")):
        embedder(None).rows.clear()
        shaper.prepare(telling(0, GOOD, *company))
        rows.append(embed([GOOD]).tobytes())
    assert rows[0] == rows[1] == rows[2]


def test_a_state_of_another_model_is_refused():
    shaper = shaper_with(Answering())
    with pytest.raises(ValueError, match="of reward.shaper.model=ranking, not of retrieval"):
        shaper.restore(OniShaper(Oni(model="ranking"), GAME, Answering()).state())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"annotator": "endpoint"}, "needs endpoint.url and endpoint.model"),
        ({"endpoint": {"url": "u", "model": "m", "helpful": "is it?"}}, "the prompt lacks {caption}"),
        ({"endpoint": {"url": "u", "model": "m", "helpful": "{caption} {what}"}}, "has {what}, for which"),
        ({"endpoint": {"url": "u", "model": "m", "better": "{first} or"}}, "the prompt lacks {second}"),
        ({"endpoint": {"url": "u", "model": "m", "helpful": "{caption} }"}}, "braces do not fit"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, problem):
    with pytest.raises(ValidationError) as refused:
        Oni(**settings)
    assert problem in str(refused.value)


@pytest.fixture(scope="module")
def virtualhome_model(tmp_path_factory):
    """Folder of a policy that has seen enough of a household to do something there."""
    from learners.embedded.build import build_policy
    from learners.settings import EmbeddedSettings

    cloned = EmbeddedSettings(steps=60, games_per_step=8, seed=7, hidden=32)
    return build_policy(GAME, cloned, cache=tmp_path_factory.mktemp("virtualhome_model"))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_run_learns_from_what_the_annotator_finds(ray_cluster, virtualhome_model, tmp_path):
    config = config_for(
        virtualhome_model,
        tmp_path,
        batch_episodes=8,
        max_staleness=0,
        game=GAME.model_dump(),
        rollout={"engine": {"kind": "transformers", "max_context": 1024}},
        reward={"shaper": "oni"},
    )
    summary, folder = run(config)
    assert_whole(summary, folder, updates=3, batch=8)
    rows = metrics_of(folder)
    assert rows[0]["reward/oni/version"] == 0 and rows[0]["reward/oni/helpful"] == 0
    assert rows[-1]["reward/oni/version"] >= 1 and rows[-1]["reward/oni/helpful"] > 0
    assert all(row["reward/failed_refits"] == row["reward/failed_prepares"] == 0 for row in rows)
    saved = read_state(folder.path / "checkpoints" / "update-000003" / "rewards")["shaper"]
    assert saved["scorer"]["steps"] > 0 and len(saved["labels"]) == saved["queue"]["counts"]["labelled"]
