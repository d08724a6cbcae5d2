"""VirtualHome: whole tasks by hand, what is best in them, the rules, what is seen and listed."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.registry import make_game, make_player
from envs.virtualhome.home import actions_of, after, in_sight, start_of, within_reach
from envs.virtualhome.plan import best_actions
from envs.virtualhome.task import shipped, task_named
from envs.virtualhome.words import description
from tests.support.homes import SEAT, done, fails, fewest_turns, game_of, play, success

ROOMS = ("walk to the kitchen", "walk to the bathroom", "walk to the bedroom", "walk to the living room")
VARIANTS = {  # task -> room, the thing and its article, where it goes, what for, is or are
    "food_preparation": ("kitchen", "pancake", "a pancake", "microwave", "heat up", "is"),
    "cheese": ("kitchen", "cheese", "some cheese", "microwave", "heat up", "is"),
    "hamburger": ("kitchen", "hamburger", "a hamburger", "microwave", "heat up", "is"),
    "apple_pie": ("kitchen", "apple pie", "an apple pie", "microwave", "heat up", "is"),
    "pizza": ("kitchen", "pizza", "a pizza", "microwave", "heat up", "is"),
    "dishes": ("kitchen", "dishes", "some dishes", "dishwasher", "wash", "are"),
    "laundry": ("bathroom", "clothes", "some clothes", "washing machine", "wash", "are"),
}
ENTERTAINMENT = (
    "walk to the chips", "grab the chips", "walk to the milk", "grab the milk", "walk to the living room",
    "walk to the coffee table", "put the chips on the coffee table", "put the milk on the coffee table",
    "walk to the TV", "turn on the TV", "walk to the sofa", "sit on the sofa",
)  # fmt: skip


def listed_in(game) -> set[str]:
    return set(game.actions())


@pytest.mark.parametrize("task", VARIANTS)
def test_a_whole_task_by_hand(task):
    """All seven are the same task in other words."""
    room, thing, called, box, aim, are = VARIANTS[task]
    game = game_of(task)
    opening = "There are four rooms: the kitchen, the bathroom, the bedroom and the living room."
    here, task_words = f"You are in the {room}.", f"In order to {aim} the {thing} in the {box}, your next step is to"
    others = {walk for walk in ROOMS if walk != f"walk to the {room}"}
    walk, grab, put = f"walk to the {thing}", f"grab the {thing}", f"put the {thing} in the {box}"
    to_box, swing_open, swing_shut = f"walk to the {box}", f"open the {box}", f"close the {box}"
    alone, both = f"You notice a {box}.", f"You notice {called} and a {box}."
    shut, wide = f"The {box} is closed.", f"The {box} is open."
    nowhere, free, full = "You are not close to anything.", "Your hands are empty.", f"You are holding the {thing}."
    near = f"You are close to the {box}."
    script = [
        (f"{both} {shut} {nowhere} {free}", {walk, to_box}, walk),
        (f"{both} {shut} You are close to the {thing}. {free}", {grab, to_box}, grab),
        (f"{alone} {shut} {nowhere} {full}", {to_box}, to_box),
        (f"{alone} {shut} {near} {full}", {put, swing_open, swing_shut}, swing_open),
        (f"{alone} {wide} {near} {full}", {put, swing_open, swing_shut}, put),
        (
            f"{alone} The {thing} {are} in the {box}. {wide} {near} {free}",
            {grab, swing_open, swing_shut},
            swing_shut,
        ),
    ]
    earned = 0.0
    for turn, (seen, possible, said) in enumerate(script):
        assert game.observe() == f"{opening} {here} {seen} {task_words}"
        assert listed_in(game) == others | possible
        assert game.outcome() == {SEAT: 0.0} and game.closing() == {}
        step = game.step(said)
        earned += 0.95**turn * step.rewards.get(SEAT, 0.0)
        assert step.executable and not step.truncated and step.terminated == (said == swing_shut)
    assert earned == pytest.approx(0.95**5) == pytest.approx(0.7738, abs=1e-4)
    assert game.seat is None and game.outcome() == {SEAT: 1.0}
    assert game.closing() == {SEAT: f"{opening} {here} {alone} {shut} {near} {free} {task_words}"}
    assert step.caption == f"the agent chooses to close the {box}, and the task is done"
    with pytest.raises(RuntimeError, match="over"):
        game.step(swing_open)


def test_entertainment_by_hand():
    """Both hands are needed to carry the two in one go, and one of them to turn on the TV."""
    game = game_of("entertainment")
    *before, last = play(game, *ENTERTAINMENT)
    assert all(step.executable and not step.rewards and not step.terminated for step in before)
    assert last.rewards == {SEAT: 1.0} and last.terminated and game.outcome() == {SEAT: 1.0}
    closing = game.closing()[SEAT]
    assert "You notice a coffee table, a TV and a sofa. The chips are on the coffee table." in closing
    assert "The milk is on the coffee table. The TV is on. You are sitting on the sofa." in closing


# --- what is best -------------------------------------------------------------------------


@pytest.mark.parametrize("task", shipped())
def test_the_optimum_is_what_the_rules_imply(task):
    """Six: the thing must be walked to and grabbed, its place walked to and opened, the thing
    put in and the door closed. Twelve: two things to be walked to, grabbed and put down (6), the
    living room, the table, the TV and the sofa to be walked to (4), and the TV and the seat."""
    turns = 12 if task == "entertainment" else 6
    assert best_actions(task_named(task))[start_of(task_named(task))][0] == turns
    assert fewest_turns(task) == fewest_turns(task, listing="executable") == turns


def test_the_tasks_have_as_many_actions_as_published():
    counts = {task: len(actions_of(task_named(task))) for task in shipped()}
    assert counts == {**dict.fromkeys(VARIANTS, 10), "entertainment": 17}
    assert listed_in(game_of(listing="all")) == {
        *ROOMS, "walk to the pancake", "walk to the microwave", "grab the pancake", "open the microwave",
        "close the microwave", "put the pancake in the microwave",
    }  # fmt: skip
    assert listed_in(game_of("entertainment", listing="all")) == {
        *ROOMS, *ENTERTAINMENT, "turn off the TV", "stand up from the sofa",
    }  # fmt: skip


# --- the rules ----------------------------------------------------------------------------


def test_nothing_goes_into_what_is_closed():
    game = done(game_of(), "walk to the pancake", "grab the pancake", "walk to the microwave")
    assert fails(game, "put the pancake in the microwave") and fails(game, "close the microwave")
    assert done(game, "open the microwave") and fails(game, "open the microwave")


def test_closing_the_microwave_on_nothing_is_no_success():
    game = done(game_of(), "walk to the microwave", "open the microwave", "close the microwave")
    assert game.outcome() == {SEAT: 0.0} and game.seat == SEAT


def test_switching_needs_a_free_hand_and_walking_needs_standing():
    game = done(game_of("entertainment"), *ENTERTAINMENT[:5], "walk to the TV")
    assert fails(game, "turn on the TV")
    done(game, "walk to the coffee table", "put the chips on the coffee table", "walk to the TV", "turn on the TV")
    assert fails(game, "turn on the TV")
    done(game, "turn off the TV", "turn on the TV", "walk to the sofa", "sit on the sofa")
    assert fails(game, "walk to the kitchen") and fails(game, "sit on the sofa") and fails(game, "walk to the TV")
    done(game, "stand up from the sofa")
    assert fails(game, "stand up from the sofa")
    *_, last = play(
        game, "walk to the coffee table", "put the milk on the coffee table", "walk to the sofa", "sit on the sofa"
    )
    assert last.terminated


@pytest.mark.parametrize(
    "left_out", ["put the chips on the coffee table", "put the milk on the coffee table", "turn on the TV"]
)
def test_every_part_of_the_goal_counts(left_out):
    game = game_of("entertainment")
    assert not any(step.terminated for step in play(game, *(said for said in ENTERTAINMENT if said != left_out)))


@pytest.mark.parametrize("task", shipped())
def test_what_is_listed(task):
    """What works is within reach, what is within reach is an action; all the game says agrees."""
    home_task, rng = task_named(task), random.Random(f"walk {task}")
    games = {listing: game_of(task, listing=listing) for listing in ("reach", "executable", "all")}
    for _ in range(400):
        if games["all"].seat is None:
            for game in games.values():
                game.reset(rng.randrange(10**6))
        home = games["all"]._home
        works = {a.phrase for a in actions_of(home_task) if after(home_task, home, a) is not None}
        near = {a.phrase for a in actions_of(home_task) if within_reach(home_task, home, a)}
        listed = {listing: listed_in(game) for listing, game in games.items()}
        assert listed["executable"] == works and listed["reach"] == near and works <= near <= listed["all"]
        assert works, "there is always something to do"
        said = rng.choice(sorted(listed["executable"]))
        assert (
            len({json.dumps(step.rewards) + str(step.executable) for step in (g.step(said) for g in games.values())})
            == 1
        )


def test_what_is_not_listed_does_nothing():
    for said in (
        "",
        "grab the pancake",
        "walk to the kitchen",
        "open the microwave",
        "teleport",
        "walk to pancake",
        "x" * 10**6,
    ):
        game = game_of()
        before = game.save()
        step = game.step(said)
        assert not step.executable and step.rewards == {} and game.save() == {**before, "turn": 1}
    for said in ("walk to the pancake", " Walk to the PANCAKE. ", "walk to the pancake\n"):
        assert game_of().step(said).executable
    assert done(game_of("entertainment"), "walk to the living room", "walk to the tv")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=50), st.sampled_from(shipped()))
def test_any_text_is_taken(text, task):
    step = game_of(task).step(text)
    assert step.rewards == {} and not step.terminated


def test_fifty_turns_cut_an_episode_off():
    game = game_of()
    steps = [game.step("hello") for _ in range(50)]
    assert [step.truncated for step in steps] == [False] * 49 + [True] and not any(step.terminated for step in steps)
    assert game.seat is None and game.outcome() == {SEAT: 0.0} and game.closing()[SEAT].startswith("There are four")
    game = game_of(turns=6)
    *_, last = play(game, "walk to the pancake", "grab the pancake", "walk to the microwave", "open the microwave",
                    "put the pancake in the microwave", "close the microwave")  # fmt: skip
    assert last.terminated and not last.truncated, "the last turn may be the right one"


# --- what is seen -------------------------------------------------------------------------


@pytest.mark.parametrize("task", shipped())
def test_what_is_out_of_sight_changes_nothing_that_is_seen(task):
    """Put what is not in sight elsewhere out of sight, switch and open it: the text stays."""
    home_task, rng, hidden = task_named(task), random.Random(f"hide {task}"), 0
    state = start_of(home_task)
    for _ in range(600):
        state = after(home_task, state, rng.choice(actions_of(home_task))) or state
        text = description(home_task, state)
        for number in range(len(home_task.things)):
            if in_sight(home_task, state, number):
                continue
            hidden += 1
            room = rng.choice([room for room in range(len(home_task.rooms)) if room != state.room])
            places, opened, lit = list(state.places), list(state.opened), list(state.lit)
            places[number], opened[number], lit[number] = room, not opened[number], not lit[number]
            other = state._replace(places=tuple(places), opened=tuple(opened), lit=tuple(lit))
            assert description(home_task, other) == text
    assert hidden > 300


def test_a_closed_door_hides_what_is_behind_it():
    game = done(game_of(), "walk to the pancake", "grab the pancake", "walk to the microwave", "open the microwave")
    done(game, "put the pancake in the microwave")
    home = game._home._replace(opened=(False, False))
    game.restore({**game.save(), "home": home._asdict()})
    assert "The pancake" not in game.observe() and "a pancake" not in game.observe()
    assert not any("grab" in action for action in game.actions())


def test_the_place_in_the_list_gives_nothing_away():
    places = Counter(game_of(seed=seed).actions().index("walk to the pancake") for seed in range(2000))
    assert set(places) == set(range(5)) and all(330 < count < 470 for count in places.values())
    assert {game_of(seed=seed, shuffle=False).actions() for seed in range(20)} == {game_of(shuffle=False).actions()}
    assert game_of(seed=-1).actions() != game_of(seed=1).actions()


def test_the_menu_names_what_is_listed():
    game = game_of(menu=True, shuffle=False)
    assert game.observe().startswith(f"You can: {'; '.join(game.actions())}. There are four rooms:")


@pytest.mark.parametrize("menu", [False, True])
def test_all_tasks_share_one_language_that_holds_every_word(menu):
    words = {
        task: frozenset(w for sentence in game_of(task, menu=menu).language() for w in sentence.lower().split())
        for task in shipped()
    }
    assert len(set(words.values())) == 1 and len(words["pizza"]) < 250
    for task in shipped():
        for seed in range(6):
            game, seen = game_of(task, seed, menu=menu), []
            one = make_player("virtualhome", "mediocre", {"task": task})
            one.reset(seed)
            while game.seat:
                seen += [game.observe(), *game.actions()]
                game.step(one.reply(game.observe(), game.actions()))
            assert {w for text in [*seen, *game.closing().values()] for w in text.lower().split()} <= words[task]


# --- the episode --------------------------------------------------------------------------


@pytest.mark.parametrize("task", shipped())
def test_an_episode_goes_on_from_where_it_was_saved(task):
    one, other, rng = game_of(task, 5), make_game("virtualhome", {"task": task}), random.Random("save")
    while one.seat:
        other.reset(99)
        other.restore(json.loads(json.dumps(one.save())))
        assert (other.observe(), other.actions(), other.save()) == (one.observe(), one.actions(), one.save())
        said = rng.choice(one.actions())
        assert other.step(said) == one.step(said)


def test_the_players_have_their_stated_strength():
    for task in shipped():
        game, one = game_of(task), make_player("virtualhome", "expert", {"task": task})
        one.reset(0)
        while game.seat:
            game.step(one.reply(game.observe(), game.actions()))
        assert game.outcome() == {SEAT: 1.0} and game._turn == (12 if task == "entertainment" else 6)
    assert 0.29 < success("food_preparation", "mediocre", 400) < 0.46
    assert 0.25 < success("entertainment", "mediocre", 400) < 0.43
    assert success("food_preparation", "random", 400) < 0.05
    assert success("entertainment", "random", 400) < 0.02


@pytest.mark.parametrize(
    "options", [{"task": "gardening"}, {"task": 3}, {"turns": 0}, {"turns": True}, {"listing": "some"}, {"shuffle": 1}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_game("virtualhome", options)
