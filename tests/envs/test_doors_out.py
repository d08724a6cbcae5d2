"""Every game as an environment of RLlib and of Gymnasium."""

from __future__ import annotations

import random
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

import envs.doors.outward.gymnasium as gymnasium_out
from envs.doors.inward.forms import CHARACTERS, ArrayForm, TextForm, phrasebook
from envs.doors.inward.sitting import Sitting
from envs.doors.outward.rllib import GameEnv
from envs.game import Game, Step
from envs.practice import AnyAction
from envs.registry import DOORS, GAMES, make_game, make_player
from tests.envs.test_doors_openenv import serving

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries, about spaces of text
FORMS = ("text", "arrays")
NAMES = sorted({*GAMES, *DOORS} - {"verifiers"})  # what comes in by one door goes out by another


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """What games need to be made that cannot do without: a server, and worlds that are quickly generated."""
    with serving() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARLEY_CACHE", str(tmp_path_factory.mktemp("cache")))
        tasks = [{"question": f"what is {n} ?", "answer": n} for n in range(3)]
        worlds = {"worlds": 1, "settings": {"level": 1}}
        yield {"openenv": {"url": url}, "dataset": {"tasks": tasks}, "textworld": worlds}


def an_action(form, listed: tuple[str, ...], rng: random.Random) -> object:
    if isinstance(form, TextForm):
        return rng.choice(listed) if listed else "hello"
    return rng.randrange(form.actions.n)


class Presents(Game):
    """Whoever speaks gives the other one a half."""

    seats, horizon = ("giver", "taker"), 4

    def reset(self, seed):
        pass

    def observe(self):
        return "say it"

    def actions(self):
        return ("here you are",)

    def step(self, utterance):
        return Step(rewards={seat: 0.5 for seat in self.seats if seat != self.seat})


# --- every game -----------------------------------------------------------------------------------


SLOW = {"data_science", "textworld"}  # and checked by gymnasium, below


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in NAMES])
def test_rllib_checks_every_game_and_plays_it_to_its_end(name, form, options):
    environment = GameEnv({"game": name, "form": form, "options": options.get(name, {})})
    check_multiagent_environments(environment)
    rng = random.Random(name)
    seats = set(environment.sitting.game.seats)
    for seed in (1, 2):
        shown, infos = environment.reset(seed=seed)
        spoken = set()
        for _ in range(environment.sitting.game.horizon + 1):
            (acting,) = shown
            assert acting == environment.sitting.seat and set(infos) == {acting}
            assert environment.get_observation_space(acting).contains(shown[acting])
            spoken.add(acting)
            action = an_action(environment.form, infos[acting]["actions"], rng)
            shown, rewards, terminateds, truncateds, infos = environment.step({acting: action})
            assert set(rewards) == set(shown) and all(isinstance(reward, float) for reward in rewards.values())
            if terminateds["__all__"] or truncateds["__all__"]:
                break
            assert terminateds == truncateds == {"__all__": False}
        assert terminateds["__all__"] != truncateds["__all__"], "the game ends within its horizon, in one way"
        assert set(shown) == spoken <= seats and set(terminateds) == set(truncateds) == {*spoken, "__all__"}
        assert all(environment.get_observation_space(seat).contains(each) for seat, each in shown.items())
        assert all(0 <= infos[seat]["outcome"] <= 1 for seat in spoken)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_checks_every_game_and_plays_it_to_its_end(name, form, options):
    environment = gymnasium.make(
        f"parley/{name}-v0", form=form, options=options.get(name), render_mode="ansi"
    ).unwrapped
    check_env(environment, skip_render_check=True)
    rng = random.Random(name)
    shown, info = environment.reset(seed=4)
    assert info["briefing"].strip()
    over = False
    for _ in range(environment.sitting.game.horizon):
        action = an_action(environment.form, info["actions"], rng)
        shown, _, terminated, truncated, info = environment.step(action)
        assert environment.observation_space.contains(shown) and info["caption"]
        over = terminated or truncated
        if over:
            break
    assert over and terminated != truncated and 0 <= info["outcome"] <= 1
    assert environment.render().count("\n> ") >= 1


# --- RLlib ----------------------------------------------------------------------------------------


def test_turns_and_pay_of_two_seats_by_hand():
    environment = GameEnv({"game": "parrot", "form": "text", "options": {"seats": 2, "rounds": 2}})
    shown, _ = environment.reset(seed=3)
    words = {"parrot0": shown["parrot0"].removeprefix("say ")}
    shown, rewards, ends, _, _ = environment.step({"parrot0": words["parrot0"]})
    words["parrot1"] = shown["parrot1"].removeprefix("say ")
    assert rewards == {"parrot1": 0.0} and ends == {"__all__": False}, "parrot0's pay waits for its next turn"
    _, rewards, _, _, infos = environment.step({"parrot1": f"{words['parrot1']} please"})
    assert rewards == {"parrot0": 1.0} and infos["parrot0"]["executable"]
    _, rewards, _, _, _ = environment.step({"parrot0": "nothing of the kind"})
    assert rewards == {"parrot1": 0.5}
    shown, rewards, terminateds, truncateds, infos = environment.step({"parrot1": words["parrot1"]})
    assert rewards == {"parrot0": 0.0, "parrot1": 1.0}
    assert not any(terminateds.values()) and truncateds == {"parrot0": True, "parrot1": True, "__all__": True}
    assert shown == {seat: f"say {word}" for seat, word in words.items()}
    assert {seat: each["outcome"] for seat, each in infos.items()} == {"parrot0": 0.5, "parrot1": 0.75}


@pytest.mark.parametrize("name", ["parrot", "bargaining", "negotiation"])
def test_everything_that_a_game_pays_is_paid_once(name):
    options = {"seats": 3} if name == "parrot" else {}
    for seed in range(20):
        game = make_game(name, options)
        players = {seat: make_player(name, "mediocre", options) for seat in game.seats}
        for number, player in enumerate(players.values()):
            player.reset(seed + number)
        game.reset(seed)
        owed, said = dict.fromkeys(game.seats, 0.0), []
        while game.seat is not None:
            said.append(players[game.seat].reply(game.observe(), tuple(game.actions())))
            for seat, reward in game.step(said[-1]).rewards.items():
                owed[seat] += reward
        environment = GameEnv({"game": name, "form": "text", "options": options})
        environment.reset(seed=seed)
        paid = dict.fromkeys(game.seats, 0.0)
        for utterance in said:
            _, rewards, *_ = environment.step({environment.sitting.seat: utterance})
            for seat, reward in rewards.items():
                paid[seat] += reward
        spoken = environment.sitting.spoken
        assert {seat: paid[seat] for seat in spoken} == pytest.approx({seat: owed[seat] for seat in spoken})


def test_seats_that_scripts_play_are_no_agents():
    config = {"game": "parrot", "form": "text", "options": {"seats": 2, "rounds": 3}}
    environment = GameEnv({**config, "players": {"parrot0": "scripted:perfect"}, "pay": "outcome"})
    assert environment.possible_agents == ["parrot1"]
    shown, _ = environment.reset(seed=0)
    total = 0.0
    while True:
        assert set(shown) == {"parrot1"}
        shown, rewards, _, truncateds, _ = environment.step({"parrot1": shown["parrot1"].removeprefix("say ")})
        total += sum(rewards.values())
        if truncateds["__all__"]:
            break
        assert total == 0.0, "the outcome is paid at the end"
    assert total == 1.0 and environment.sitting.game.outcome() == {"parrot0": 1.0, "parrot1": 1.0}


def test_a_seat_that_was_never_asked_has_no_episode_to_end():
    environment = GameEnv({"game": "textarena", "form": "text"})
    environment.reset(seed=0)
    environment.step({"player_0": "hello"})
    shown, rewards, terminateds, _, _ = environment.step({"player_0": "hello"})  # refused twice: lost
    assert set(shown) == {"player_0"} and rewards == {"player_0": -1.0}
    assert terminateds == {"player_0": True, "__all__": True}


def test_a_seed_fixes_an_episode_and_workers_draw_their_own():
    class Context(dict):
        worker_index = vector_index = 0

    def opening(config, seed=None):
        return GameEnv(config).reset(seed=seed)[0]

    config = {"game": "twenty_questions", "form": "text"}
    assert opening(config, 5) == opening(config, 5)
    secrets = []
    for worker in range(6):
        context = Context(config)
        context.worker_index = worker // 2
        environment = GameEnv(context)  # two of one worker, which RLlib gives the same context
        secrets.append([])
        for _ in range(4):
            environment.reset()
            secrets[-1].append(environment.sitting.game._secret)
    assert len(set(map(tuple, secrets))) == 6


def test_an_action_out_of_turn_is_refused():
    environment = GameEnv({"game": "parrot", "form": "text", "options": {"seats": 2}})
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="turn of 'parrot0'"):
        environment.step({"parrot1": "apple"})


def test_the_page_s_configuration_is_one_that_rllib_trains(ray_cluster):
    page = (ROOT / "docs" / "how-to" / "doors.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "PPOConfig" in each)
    names: dict = {}
    exec(compile(block, "doors.md", "exec"), names)
    small = names["config"].env_runners(num_env_runners=0, rollout_fragment_length=32)
    small.training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    algorithm = small.rl_module(model_config={"fcnet_hiddens": [8]}).build_algo()
    try:
        assert algorithm.train()["learners"]["talker"]["module_train_batch_size_mean"] > 0
    finally:
        algorithm.stop()


@pytest.mark.long
def test_rllibs_ppo_learns_parrot(ray_cluster):
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment(
            GameEnv, env_config={"game": "parrot", "options": {"seats": 2, "rounds": 2}, "observation_length": 16}
        )
        .env_runners(num_env_runners=0, rollout_fragment_length=256)
        .multi_agent(policies={"parrots"}, policy_mapping_fn=lambda agent, episode, **_: "parrots")
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=8, lr=5e-3)
        .rl_module(model_config={"fcnet_hiddens": [32]})
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    try:
        returns = [algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(6)]
    finally:
        algorithm.stop()
    assert 0.4 < returns[0] < 0.95, "four turns, six words: chance is 4/6"
    assert returns[-1] > returns[0] + 0.2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "needs 'game'"),
        ({"game": "parrot", "colour": 1}, "env_config has no 'colour'"),
        ({"game": "parrot", "form": "pictures"}, "form='pictures'"),
        ({"game": "parrot", "pay": "never"}, "pay='never'"),
        ({"game": "parrot", "players": {"cat": "random"}}, "no seat 'cat'"),
        ({"game": "parrot", "players": {"parrot0": "random"}}, "leave no seat"),
        ({"game": "parrot", "form": "text", "utterances": ["a"]}, "utterances are for form='arrays'"),
        ({"game": "parrot", "utterances": []}, "utterances=\\[\\]"),
        ({"game": "parrot", "observation_length": 0}, "observation_length=0"),
    ],
)
def test_impossible_configurations_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        GameEnv(config)


# --- Gymnasium ------------------------------------------------------------------------------------


def test_twenty_questions_through_gymnasium_is_the_game_itself():
    environment = gymnasium.make("envs.doors.outward.gymnasium:parley/twenty_questions-v0")
    game, expert = make_game("twenty_questions"), make_player("twenty_questions", "expert")
    for seed in range(5):
        shown, _ = environment.reset(seed=seed)
        expert.reset(seed)
        game.reset(seed)
        ended = False
        while not ended:
            assert shown == game.observe()
            said = expert.reply(shown, ())
            shown, reward, ended, truncated, info = environment.step(said)
            step = game.step(said)
            assert (reward, ended, info["caption"]) == (step.rewards.get("guesser", 0), step.terminated, step.caption)
        assert info["outcome"] == 1.0 and info["facts"] == game.facts() and not truncated


def test_what_a_seat_is_paid_before_its_first_turn_comes_with_that_turn():
    name = f"{__name__}:Presents"
    environment = gymnasium_out.GameEnvironment(name, players={"giver": "random"})
    environment.reset(seed=0)
    said = [environment.step("here you are") for _ in range(2)]
    assert [reward for _, reward, *_ in said] == [1.0, 0.0] and said[-1][3]
    environment.reset(seed=1)
    assert environment.step("here you are")[1] == 1.0


@pytest.mark.parametrize("make", [GameEnv, lambda config: gymnasium_out.GameEnvironment(**config)])
def test_a_class_of_ones_own_has_a_phrasebook_too(make, monkeypatch):
    assert make({"game": f"{__name__}:Presents", "form": "arrays"}).form.phrases == ("here you are",)
    monkeypatch.setattr(Presents, "players", classmethod(lambda cls: {"expert": AnyAction}))
    config = {"game": f"{__name__}:Presents", "form": "arrays", "players": {"taker": "expert"}}
    assert make(config).form.phrases == ("here you are",)


@pytest.mark.parametrize("make", [GameEnv, lambda config: gymnasium_out.GameEnvironment(**config)])
def test_without_a_seed_nobody_trains_on_what_is_held_out(make):
    tasks = [{"question": f"what is {n} ?", "answer": n} for n in range(4)]
    environment, met = make({"game": "dataset", "form": "text", "options": {"tasks": tasks, "held_out": 0.5}}), set()
    for _ in range(30):
        environment.reset()
        met.add(environment.sitting.game.observe())
    assert met == {"what is 0 ?", "what is 1 ?"}


def test_without_a_seed_the_generator_of_the_environment_is_drawn_from():
    environment = gymnasium.make("parley/twenty_questions-v0").unwrapped

    def secrets(seed):
        environment.reset(seed=seed)
        found = []
        for _ in range(6):
            environment.reset()
            found.append(environment.sitting.game._secret)
        return found

    assert secrets(1) == secrets(1) != secrets(2)


def test_the_other_seats_are_played_by_scripts():
    environment = gymnasium.make(
        "parley/parrot-v0", options={"seats": 3}, players={"parrot0": "random", "parrot2": "perfect"}
    )
    environment.reset(seed=0)
    assert environment.unwrapped.sitting.free == ("parrot1",)
    default = gymnasium.make("parley/parrot-v0", options={"seats": 3}).unwrapped
    assert default.sitting.free == ("parrot0",) and set(default.sitting.scripts) == {"parrot1", "parrot2"}
    with pytest.raises(ValueError, match="an agent plays one seat"):
        gymnasium.make("parley/parrot-v0", options={"seats": 3}, players={"parrot0": "random"})


def test_importing_twice_registers_once():
    before = set(gymnasium.registry)
    gymnasium_out.register()
    assert set(gymnasium.registry) == before and {f"parley/{name}-v0" for name in NAMES} <= before


# --- the forms ------------------------------------------------------------------------------------


def test_text_is_shown_as_it_is_but_for_what_the_space_cannot_hold():
    form = TextForm(observation_length=10)
    assert form.shown("caf\u00e9\n\u201chi\u201d") == "caf\u00e9\n\u201chi\u201d"
    assert form.shown("\u6f22\u5b57 ok") == "\ufffd\ufffd ok"
    assert form.shown("0123456789abc") == "3456789abc", "of what is too long, the newest"
    assert form.observations.contains(form.shown("".join(map(chr, range(0x3000)))))
    assert len(set(CHARACTERS)) == len(CHARACTERS)


def test_arrays_hold_bytes_and_a_number_means_one_phrase():
    form = ArrayForm(["yes", "no", "yes", "maybe"], observation_length=6)
    assert form.phrases == ("yes", "no", "maybe") and form.actions.n == 3
    assert np.allclose(form.shown("ab") * 255, [97, 98, 0, 0, 0, 0])
    assert form.observations.contains(form.shown("\U0001f600" * 9))
    assert form.said(np.int64(1)) == "no"
    assert form.listed(("no", "never"))["action_mask"].tolist() == [0, 1, 0]
    assert form.listed(())["action_mask"].tolist() == [1, 1, 1]


def test_a_phrasebook_is_gathered_from_scripted_games(monkeypatch):
    from envs.parrot import WORDS, Parrot

    seeds, reset = [], Parrot.reset
    with monkeypatch.context() as patch:
        patch.setattr(Parrot, "reset", lambda game, seed: (seeds.append(seed), reset(game, seed))[1])
        phrasebook("parrot", make_game("parrot"), {})
    assert len(set(seeds)) == len(seeds) > 1 and max(seeds) < 0, "no episode that is trained or evaluated on"
    assert phrasebook("parrot", make_game("parrot"), {}) == sorted(WORDS)
    gathered = phrasebook("twenty_questions", make_game("twenty_questions"), {})
    assert gathered == phrasebook("twenty_questions", make_game("twenty_questions"), {}) and 20 < len(gathered) <= 256
    assert any(phrase.startswith("i guess") for phrase in gathered)


def test_a_sitting_leaves_scripts_their_own_luck():
    players = {"parrot1": "random", "parrot2": "random"}
    sitting = Sitting("parrot", {"seats": 3, "rounds": 20}, players)
    sitting.begin(0)
    while sitting.seat is not None:
        sitting.say("apple")
    outcomes = sitting.game.outcome()
    assert (
        outcomes["parrot1"] != outcomes["parrot2"] or sitting.game.facts()["parrot1"] != sitting.game.facts()["parrot2"]
    )
