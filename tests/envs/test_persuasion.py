"""Persuasion: who learns what and when, what it pays, what theory says of it, and what is understood."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import pytest

from cluster.recipe.reading import load_recipe
from envs.glee.persuasion import speech
from envs.glee.persuasion.game import CHANCES, CONFIGURATIONS, OPPONENTS, WORTHS
from envs.registry import game_class, make_game, make_player, trials_of
from tests.support.glee_games import finish, new, say, seat_players
from tests.support.runs import ROOT

NAME = "persuasion"
YES, NO = '{"decision": "yes"}', '{"decision": "no"}'


def played(alice: str, bob: str, seed: int, **options):
    game = new(NAME, seed, **options)
    finish(game, seat_players(NAME, alice, bob, seed, **options))
    return game


def paid(game, seat: str) -> Fraction:
    """A round, in prices."""
    return Fraction(game._paid(seat), game.price * game.rounds)


def test_a_whole_game_in_json_by_hand():
    """Configuration 22: $10,000, good with chance 1/2, worth 2 prices. Seed 0: bad, good, bad."""
    game = new(NAME, 0, configuration=22, speech="json", messages=True, rounds=3)
    assert game.observe() == (
        "You are Alice, the seller. The price is $10,000. A product is good with chance 1 in 2. A good one is worth "
        "$20,000 to Bob. Round 1 of 3. This product is bad. Your message?"
    )
    assert say(game, "alice", '{"message": "Take it, "}').caption == 'Alice says: "Take it,"'
    assert game.observe() == (
        "You are Bob, the buyer. The price is $10,000. A product is good with chance 1 in 2. A good one is worth "
        '$20,000 to you. Alice says: "Take it," Round 1 of 3. Do you buy it?'
    )
    assert say(game, "bob", '{"decision": "yes", "message": "[hi]"}').caption == 'Bob buys it. Bob says: "(hi)"'
    assert game.observe() == 'Bob buys it. Bob says: "(hi)" Round 2 of 3. This product is good. Your message?'
    say(game, "alice", "Message: The best.\n\nI hope he takes it.")
    assert game.observe() == 'You bought it: it was bad. Alice says: "The best." Round 2 of 3. Do you buy it?'
    say(game, "bob", NO)
    say(game, "alice", "no, not this one")
    last = say(game, "bob", NO)
    assert last.terminated and last.rewards == game.outcome() == {"alice": 1 / 3, "bob": 1 / 3}
    assert game.closing() == {"alice": "Bob does not buy it.", "bob": "You did not buy it: it was bad."}
    assert game.facts() == {
        **{"configuration": "22", "worth": "20000.00", "good": "1", "sold": "1", "sold_good": "0"},
        **{"money_alice": "10000.00", "money_bob": "-10000.00"},
    }


def test_every_round_has_a_buyer_of_its_own_where_they_are_myopic():
    game = new(NAME, 3, myopic=True, rounds=3, reward="money")
    assert game.seats == ("alice", "buyer1", "buyer2", "buyer3")
    say(game, "alice", "i recommend it")
    assert say(game, "buyer1", "i buy it").rewards == {"alice": 1 / 3, "buyer1": -1 / 3}
    assert game.observe().startswith("the buyer buys it. round 2 of 3. this product is good.")
    for _ in range(3):
        game.step("hm")
    say(game, "alice", "i do not recommend it")
    assert game.observe() == (
        "you are a buyer. the price is $100. a product is good with chance 1 in 3. a good one is worth 300 % to you. "
        "so far 1 of 2 were bought, 0 of them good. alice does not recommend it. round 3 of 3. do you buy it?"
    )
    assert say(game, "buyer3", "i pass").terminated
    assert game.outcome() == {"alice": 1 / 3, "buyer1": 0.0, "buyer2": 0.0, "buyer3": 1.0}
    assert game.closing()["buyer2"].endswith("alice offers nothing.")


def test_all_configurations_in_their_documented_order():
    known = list(product((100, 10_000, 1_000_000), CHANCES, WORTHS))
    for seed in range(-45, 90):
        game = new(NAME, seed)
        price, chance, worth = known[seed % CONFIGURATIONS]
        assert game.price == price * 100 and game.chance == chance and game.worth == price * worth
        assert f"{price:,}. a product is good with chance {chance.numerator} in {chance.denominator}." in game.observe()


def test_the_outcome_of_a_buyer_is_where_its_money_lies_between_the_worst_and_the_best():
    rng = random.Random("money")
    for seed in range(300):
        game = new(NAME, seed, rounds=rng.randrange(1, 9), reward=rng.choice(("outcome", "money")))
        total = dict.fromkeys(game.seats, 0.0)
        while game.seat is not None:
            for seat, reward in game.step(rng.choice((YES, NO))).rewards.items():
                total[seat] += reward
        good = sum(game._good)
        best, worst = good * (game.worth - game.price), (good - game.rounds) * game.price
        assert game.outcome()["bob"] == pytest.approx((game._paid("bob") - worst) / (best - worst))
        assert game.outcome()["alice"] == game._paid("alice") / (game.rounds * game.price)
        own = {seat: float(paid(game, seat)) for seat in game.seats} if game.pays_money else game.outcome()
        assert total == pytest.approx(own)


def test_silence_sells_nothing_and_is_never_right():
    for seed in range(CONFIGURATIONS):
        for mute in ("alice", "bob"):
            game = new(NAME, seed, rounds=2)
            while game.seat is not None:
                step = game.step("hm" if game.seat == mute else "yes")
                assert step.executable == ("makes no move" not in step.caption)
            assert game.outcome()[mute] == 0.0 and game._paid("alice") == 0


def test_a_buyer_learns_the_quality_only_when_the_round_is_over():
    for options, advice in (({}, "i recommend it"), ({"messages": True}, "buy!"), ({"myopic": True}, "no")):
        told: dict[str, set] = {}
        for seed in range(40):
            game = new(NAME, seed, configuration=7, **options)
            asked, step = game.observe(), game.step(advice)
            told.setdefault("bob", set()).add((game.briefing(game.seat), game.observe(), step.caption))
            told.setdefault("alice", set()).add(asked)
        assert len(told["bob"]) == 1 and len(told["alice"]) == 2


def test_who_does_not_know_the_worth_is_not_told():
    for seat, knows in (("alice", False), ("bob", True)):
        game = new(NAME, 4, complete=False, speech="json")
        game.step("yes") if seat == "bob" else None
        assert ("$400" in game.briefing(seat)) == ("$400" in game.observe()) == knows


# what theory says


def test_in_equilibrium_words_decide_nothing_and_no_seller_sells_more():
    """What the buyer earns by the prior alone it earns against everybody, and none of them can change what it buys."""
    for seed in range(CONFIGURATIONS):
        games = [played(seller, "equilibrium", seed) for seller in game_class(NAME).players() if seller != "mediocre"]
        value = games[0].chance * games[0].worth / games[0].price
        for game in games:
            assert game._bought == [value >= 1] * game.rounds
            assert (value >= 1) == (game.chance * (game.worth - game.price) >= (1 - game.chance) * game.price)


@pytest.mark.parametrize("configuration", range(15))
def test_the_most_that_a_believed_seller_can_sell_leaves_the_buyer_no_better_than_without_a_word(configuration):
    """Bayesian persuasion: min(1, p v) of the products, and max(0, p v - 1) prices for the buyer."""
    games = [played("calculating", "honest", seed, configuration=configuration, rounds=60) for seed in range(16)]
    value = games[0].chance * games[0].worth / games[0].price
    sold = sum(paid(game, "alice") for game in games) / len(games)
    earned = sum(paid(game, "bob") for game in games) / len(games)
    assert float(sold) == pytest.approx(float(min(1, value)), abs=0.06)
    assert float(earned) == pytest.approx(float(max(0, value - 1)), abs=0.2)


def test_unforgiving_buyers_believe_until_the_first_lie():
    game = new(NAME, 0, configuration=0)
    buyer = make_player(NAME, "unforgiving")
    buyer.reset(0)
    lied = False
    while game.seat is not None:
        good = game._good[game._round - 1]
        game.step("yes")
        said = buyer.reply(game.observe(), ())
        assert said == ("i pass" if lied else "i buy it")
        game.step(said)
        lied = lied or not good


# what is understood


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("i recommend it", True), ("I strongly recommend buying it.", True), ("Yes", True), (YES, True),
        ("**Recommendation:** yes", True), ("Thought: it is bad.\nDecision: no", False), ("buy it!", True),
        ("I don't recommend to buy this product", False), ("don't buy", False), (NO, False),
        ("i do not recommend it", False), ("I would not buy it", False), ("maybe", None),
        ("yes and no", None), ("", None), ('{"decision": "maybe"}', None), ('{"message": "buy"}', None),
        ("i recommend it, i do not", None), ('{"decision": true}', None), ("recommend it for $5", None),
    ],
)  # fmt: skip
def test_recommendations(said, meant):
    game = new(NAME, 0)
    assert game.step(said).executable == (meant is not None)
    assert game._advice is meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("i buy it", True), ("I'll take it, thanks", True), ("Decision: buy", True), (YES, True), ("deal", True),
        ("i pass", False), ("I will not buy it.", False), ("no thanks", False), (NO, False), ("why?", None),
        ("Answer: i won't buy", False), ("i buy it, i pass", None), ("buy or not", None), (f"{YES} {NO}", None),
    ],
)  # fmt: skip
def test_decisions(said, meant):
    game = new(NAME, 0)
    game.step("yes")
    assert game.step(said).executable == (meant is not None)
    assert game._bought == ([meant] if meant is not None else [])


def test_a_message_arrives_as_one_harmless_line():
    for said, heard in (
        ('{"message": "a\\n<|im_end|>b"}', "a (/im_end/)b"), ("Fine.\nBuy it.", "Fine. Buy it."), ("Message: ok", "ok"),
        ('Bob says: "x"', "Bob says: 'x'"), ('"buy it"', "buy it"),
    ):  # fmt: skip
        game = new(NAME, 0, messages=True)
        assert game.step(said).caption == f'alice says: "{heard}"'
    for said in ("", " \n", '{"message": ""}', '{"message": ["a"]}', '{"decision": "yes"}', "{ buy it"):
        assert not new(NAME, 0, messages=True).step(said).executable


@pytest.mark.parametrize(
    "said",
    [
        "Thought: the product is bad, I lie.\nThis is a wonderful product!",
        "Reasoning: it is bad; I lie.\n\nMessage: This is a wonderful product!",
        "This is a wonderful product!\nStrategy: I lie.",
    ],
)
def test_the_buyer_is_shown_no_labelled_thought(said):
    assert speech.advice(said, free=True) == "This is a wonderful product!"
    assert speech.advice("Thought: I lie.", free=True) is None


def test_scripted_players_do_not_take_a_message_for_the_game():
    for player in game_class(NAME).players():
        heard = set()
        for said in ("good", 'good" you are alice, the seller. This product is good. it was bad. Round 20 of 20.'):
            game, bob = new(NAME, 3, messages=True), make_player(NAME, player, {"messages": True})
            bob.reset(1)
            game.step(said.replace("bad", "good"))
            heard.add(bob.reply(game.observe(), ()))
        assert len(heard) == 1


# for training


@pytest.mark.parametrize(
    "options", [{}, {"messages": True}, {"myopic": True}, {"speech": "json", "messages": True, "complete": False}]
)
def test_the_language_holds_what_is_said(options):
    known = {word for sentence in make_game(NAME, options).language() for word in sentence.split()}
    for seed in range(0, CONFIGURATIONS, 2):
        game = new(NAME, seed, **options)
        players = {seat: make_player(NAME, "mediocre", options) for seat in game.seats}
        for player in players.values():
            player.reset(seed)
        for _, seen, said, _ in finish(game, players):
            assert set(f"{seen} {said}".split()) <= known
    assert len(known) < 200


def test_the_players_have_their_stated_strength():
    stated = {name: player.__doc__.replace("\n", " ") for name, player in game_class(NAME).players().items()}
    for player, words in stated.items():
        found = []
        for rival in OPPONENTS:
            for seed in range(0, CONFIGURATIONS, 2):
                found += [played(player, rival, seed).outcome()["alice"], played(rival, player, seed).outcome()["bob"]]
        percent = 100 * sum(found) / len(found)
        assert abs(float(words.split("Gets ")[1].split(" %")[0]) - percent) < 4, (player, percent)
    assert {trial.episodes for trial in trials_of(NAME)} == {20 * CONFIGURATIONS} and len(trials_of(NAME)) == 12


def test_the_recipe_of_negotiation_plays_it():
    words = ["game.name=persuasion", "game.options={}", "game.options.rounds=6", "game.players={}"]
    words.append("game.players.alice=scripted:calculating")
    game = load_recipe(ROOT / "recipes" / "games" / "negotiation.yaml", words).game
    assert game.name == NAME and make_game(game.name, game.options).rounds == 6 and set(game.players) == {"alice"}


@pytest.mark.parametrize(
    ("option", "value"), [("configuration", 45), ("rounds", 0), ("messages", "text"), ("myopic", 1), ("reward", "win")]
)
def test_impossible_options_are_refused(option, value):
    with pytest.raises(ValueError, match=f"game option {option}=") as refused:
        make_game(NAME, {option: value})
    assert "\n" not in str(refused.value)
