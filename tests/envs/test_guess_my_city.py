"""Guess My City: whole games, true answers that never give the name away, players of their stated strength."""

from __future__ import annotations

import json
import time

import pytest

from envs.game import Game
from envs.guess_my_city.oracle import INVALID, NAME_REFUSED, RIGHT, TOO_TELLING, WRONG
from envs.guess_my_city.oracles import oracle_for
from envs.guess_my_city.players import questions_of
from envs.guess_my_city.topics import Meaning
from envs.guess_my_city.wording import words_of
from envs.registry import game_class, make_game, trials_of
from tests.support.city_games import CITIES, MEXICO_CITY, ORACLE, PARIS, SEAT, SINGAPORE, answer, heard, play, started


def test_a_whole_game_by_hand():
    game = started(PARIS)
    assert isinstance(game, Game) and game.horizon == 20 and game.actions() == ()
    assert game.observe() == "I am thinking of a city." and game.facts() == {} == game.closing()
    told = {
        "Which continent is it on?": "It is in Europe.",
        "do they speak Spanish?": "No, people there do not speak that language.",
        "What language do they speak there?": "People there speak French.",
        "Is it on the coast?": "No, it does not lie on the coast.",
        "Is it inland?": "Yes, it does not lie on the coast.",
        "Which river flows through it?": "It lies on the Seine.",
        "Is it a capital?": "Yes, it is a capital.",
        "Is it bigger than a million people?": "Yes, it has more people than that.",
        "Has it fewer than 10 million inhabitants?": "No, it has more people than that.",
        "Does it have a metro?": "Yes, it has a metro.",
        "Do they drive on the left?": "No, cars drive on the right there.",
        "Do they drive on the right?": "Yes, cars drive on the right there.",
        "When did it host the Olympics?": "It hosted the Olympics in 1900, 1924 and 2024.",
        "What food is it known for?": (
            "Typical food there is croissants and baguettes and cheese and wine and snails "
            "and onion soup and macarons ."
        ),
        "Is it in Bulgaria?": "No, it is not in that country.",
        "How are you today?": INVALID,
        "What letter does it start with?": NAME_REFUSED,
        "Is it Lyon?": WRONG,
        "Is it near Paris?": INVALID,
    }
    assert heard(game, list(told)) == list(told.values())
    assert game.outcome() == {SEAT: 0.0} and game.seat == SEAT
    step = game.step("My guess is Paris, France!")
    assert step.rewards == {SEAT: 1.0} and step.terminated and not step.truncated and step.executable
    assert step.caption == "the guesser guesses paris: right"
    assert game.outcome() == {SEAT: 1.0} and game.facts() == {"secret": "paris"} and game.closing() == {SEAT: RIGHT}
    with pytest.raises(RuntimeError, match="over"):
        game.step("is it paris?")


def test_what_would_give_the_name_away_is_withheld_by_hand():
    """The region instead of a country that shares its name, a river instead of the river's name."""
    assert heard(started(SINGAPORE), ["which country is it in?", "is it in singapore?", "which river is it on?"]) == [
        "It is in Southeast Asia.",
        "Yes.",
        "It lies on a river.",
    ]
    assert heard(started(MEXICO_CITY), ["what country is it in?", "is it a mexican city?", "is it in spain?"]) == [
        "It is in Latin America.",
        "Yes.",
        "No, it is not in that country.",
    ]
    assert answer("which river is it on?", "moscow") == "It lies on a river."


def test_with_few_answers_no_open_question_looks_the_city_up():
    """Open questions part the 140 cities into ten groups at most; closed ones and the players are as ever."""
    asked = [
        "what is it known for?",
        "which country is it in?",
        "what is the capital of its country?",
        "how high is it?",
    ]
    told = heard(started(PARIS, most_answers=10), [*asked, "which continent is it on?", "is it known for art?"])
    assert told[:3] == [TOO_TELLING] * 3 and told[3:] == [
        "It lies less than 200 metres above the sea.",
        "It is in Europe.",
        "Yes, it is known for art.",
    ]
    game = started(PARIS, most_answers=10)
    assert not game.step(asked[0]).executable and "more than 10 possible answers" in game.briefing(SEAT)
    assert questions_of(oracle_for("world", False, 10)) == questions_of(ORACLE)


def test_running_out_of_turns_ends_the_game_with_nothing():
    game = started(PARIS, turns=3)
    steps = [game.step("hello") for _ in range(3)]
    assert [step.terminated for step in steps] == [False, False, True]
    assert not any(step.truncated or step.executable or step.rewards for step in steps)
    assert game.outcome() == {SEAT: 0.0} and game.facts() == {"secret": "paris"} and game.closing() == {SEAT: INVALID}


def test_no_answer_holds_a_piece_of_the_name():
    """Every open question, every flag, every value that is true of a city and one that is true of none."""
    common = [Meaning(name) for name, topic in ORACLE.topics.items() if topic.open]
    for name, topic in ORACLE.topics.items():
        common += [Meaning(name, value="no such thing")] if topic.kind == "list" else []
        common += [Meaning(name, low=1e6), Meaning(name, high=500)] if topic.kind == "number" else []
        common += [Meaning(name, value=value) for value in ("yes", "no") if topic.kind == "flag" or topic.some]
    known = ORACLE.answers()
    for key, city in CITIES.items():
        asked = common + [Meaning(name, value=value) for name, values in city.truths.items() for value in values]
        names = [words for words, named in ORACLE.atlas.names.cities.items() if named == key]
        for meaning in asked:
            said = ORACLE._answer(meaning, key)
            assert not city.gives_away(said), (key, said)
            run_together = "".join(words_of(said))
            for name in names:
                assert len("".join(name)) < 5 or "".join(name) not in run_together, (key, said)
            assert said in known


@pytest.mark.parametrize(
    ("city", "sentence", "gives_away"),
    [
        ("paris", "They wear Parisian fashion.", True),
        ("mexico city", "It is in Mexico.", True),
        ("mexico city", "They eat Mexican food in the city.", True),
        ("rome", "People are Roman Catholic.", True),
        ("vienna", "They eat Wiener schnitzel.", True),
        ("vienna", "They eat schnitzel.", False),
        ("new york", "They eat New York cheesecake.", True),
        ("new york", "It is a new city.", False),
        ("london", "You can see the Tower of London.", True),
        ("beijing", "They eat Peking duck.", True),
        ("rio de janeiro", "It lies on the Rio de la Plata.", True),
        ("buenos aires", "It lies on the Rio de la Plata.", False),
        ("singapore", "They pay with the Singaporean dollar.", True),
        ("hong kong", "It is in HongKong.", True),
        ("los angeles", "People call it the City of Angels.", True),
        ("los angeles", "Las playas.", False),
    ],
)
def test_what_gives_a_name_away(city, sentence, gives_away):
    assert CITIES[city].gives_away(sentence) == gives_away


def test_a_seed_fixes_the_game_and_negative_seeds_are_games_of_their_own():
    assert play("mediocre", 5)[1] == play("mediocre", 5)[1]
    secrets = [started(seed).save()["secret"] for seed in range(-2000, 2000)]
    assert secrets[1999:1960:-1] != secrets[2001:2040] and set(secrets) == set(CITIES)


def test_a_saved_episode_is_small_and_goes_on():
    game = started(PARIS)
    game.step("is it in europe?")
    saved = json.dumps(game.save())
    assert len(saved) < 500
    other = started(SINGAPORE)
    other.restore(json.loads(saved))
    assert other.observe() == game.observe() == "Yes, it is in Europe."
    for said in ("what language do they speak?", "i guess paris"):
        assert other.step(said) == game.step(said)
    assert other.outcome() == game.outcome() == {SEAT: 1.0}


def test_the_players_have_their_stated_strength():
    def wins(player: str) -> float:
        return sum(play(player, seed)[0].outcome()[SEAT] for seed in range(400)) / 400

    assert wins("expert") > 0.99
    assert 0.22 < wins("mediocre") < 0.37
    assert 0.02 < wins("random") < 0.12
    assert [(trial.name, trial.episodes) for trial in trials_of("guess_my_city")] == [
        ("guess_my_city", 200),
        ("published", 200),
    ]


def test_the_language_holds_every_word_that_is_said_or_seen():
    words = {word for sentence in make_game("guess_my_city").language() for word in sentence.split()}
    assert len(words) < 4000
    for player in game_class("guess_my_city").players():
        for seed in range(40):
            game, said = play(player, seed)
            texts = [*(text for pair in said for text in pair), *game.closing().values(), *game.facts().values()]
            assert {word for text in texts for word in text.lower().split()} <= words


def test_turns_are_quick():
    game, asked = (
        started(PARIS),
        ["is it in europe?", "do they speak spanish?", "hello", "is it lima?", "what is it?"] * 4,
    )
    turns, started_at = 0, time.perf_counter()
    for seed in range(500):
        game.reset(seed)
        for said in asked:
            if game.seat is not None:
                game.observe()
                game.step(said)
                turns += 1
    assert turns / (time.perf_counter() - started_at) > 20_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"turns": 0}, "turns=0"),
        ({"turns": True}, "turns=True"),
        ({"most_answers": -1}, "most_answers=-1"),
        ({"paraphrases": "no"}, "paraphrases='no'"),
        ({"table": "nowhere"}, "'nowhere' is neither a file nor one of: lmrl, small, world"),
        ({"table": 3}, "table=3"),
        ({"horizon": 5}, "no option 'horizon'; it has: table, turns, paraphrases, rules, prompts, most_answers"),
    ],
)
def test_bad_options_name_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        make_game("guess_my_city", options)
