"""Car Dealer of LMRL-Gym: what is heard, who sells at what price, and a buyer that keeps to its rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.game import money_of
from envs.glee.labelled import PRICING, aloud
from envs.lmrl.car_dealer.game import CHARACTERS, WANTS
from envs.lmrl.car_dealer.speech import understood
from envs.registry import make_game, make_player
from tests.support.glee_games import new

LISTED = 30_000_00
WORDS = sorted({word for text in make_game("car_dealer").language() for word in text.split()})


@pytest.mark.parametrize(
    ("said", "act", "price"),
    [
        *(("my price is 95 %", "talk", 28_500), ("I can do it for $28,500.", "talk", 28_500)),
        *(('{"message": "a fine car", "price": 27000}', "talk", 27_000), ("Price: $27,000", "talk", 27_000)),
        ("The MSRP is $30,000, but for you I will go down to $27,500, with heated seats!", "talk", 27_500),
        ("It is $28,000, or $31,000 with leather seats.", "talk", None),
        *(("I can give you a 5 % discount.", "talk", None), ("How about 27.5k? I mean $27.5k", "talk", 27_500)),
        *(("What features are you looking for?", "talk", None), ("no thanks", "reject", None)),
        *(("i accept", "accept", None), ('{"decision": "accept"}', "accept", None)),
        *(("I leave.", "leave", None), ('{"decision": "leave", "message": "bye"}', "leave", None)),
        *(("lorem ipsum", "", None), ("", "", None), ('{"price": -3}', "", None), ("h\u0435ated seats", "", None)),
    ],
)
def test_what_is_heard(said, act, price):
    heard = understood(said, LISTED)
    assert (heard.act, heard.price) == (act, None if price is None else price * 100)


def test_features_and_discounts_are_heard_in_any_words():
    heard = understood("It comes with GPS, a third row and a Sunroof, and there is a rebate.", LISTED)
    assert set(heard.features) == {"navigation system", "third-row seating", "sunroof"} and heard.discount


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("Thought: I would pay the full price.\nMessage: I am interested in heated seats.", "heated seats."),
        ("Thought: I would pay the full price.\nI am interested in heated seats.", "heated seats."),
        (
            "**Reasoning:**\nI would pay the full price.\nAll of it.\n\nI am interested in heated seats.",
            "heated seats.",
        ),
        ("Message: I am interested in heated seats.\nPlan: I will pay the full price.", "heated seats."),
        ("Thought: I would pay the full price for heated seats.", ""),
    ],
)
def test_the_rival_is_shown_no_labelled_thought(said, heard):
    message = understood(said, LISTED).message
    assert message.endswith(heard) and bool(message) == bool(heard) and "full price" not in message


@given(st.lists(st.sampled_from([*WORDS, "Message:", "Price:", "Offer:", "\n", "\n\n", "$28,500", "-"])))
def test_words_without_a_label_of_a_thought_are_heard_as_they_are(said):
    text = " ".join(said)
    assert aloud(text, PRICING) == text


def test_a_sale_by_hand():
    game = new("car_dealer", 0, character="discount", speech="dollars")
    assert game.observe().startswith("the car : ") and "budget" not in game.observe()
    game.step("I ask $9,900 for it.")
    assert WANTS["discount"] in game.observe() and "the seller names $9,900 ." in game.observe()
    assert 'the seller says : "I ask $9,900 for it."' in game.observe()
    assert not game.step("zork").executable and game.observe() == "the buyer says nothing clear ."
    game.step("What is your budget?")
    game.step('{"message": "less", "price": 8000}')
    last = game.step("i accept")
    assert last.terminated and game.facts()["price"] == "8000.00" and game.facts()["ending"] == "sold"
    ratio = 2 * 800_000 / (game.budget + game.listed)
    assert last.rewards == game.outcome() == {"seller": min(1.0, ratio), "buyer": max(0.0, 1 - 800_000 / game.budget)}
    assert money_of(game) == {"seller": 8000.0} and game.closing()["buyer"] == "the seller accepts ."


@pytest.mark.parametrize("reward", ["outcome", "published", "revenue"])
def test_the_three_rewards(reward):
    game = new("car_dealer", 1, reward=reward)
    budget, listed = game.budget, game.listed
    assert not game.step("i accept").executable, "there is nothing to accept yet"
    game.step("my price is 90 %")
    game.step("my price is 200 %")
    sold = game.step("i accept")
    ratio = 2 * 2 * listed / (budget + listed)
    due = {"outcome": min(1.0, ratio), "published": ratio, "revenue": 2 * listed / 100_000}[reward]
    assert sold.rewards["seller"] == pytest.approx(due)
    game = new("car_dealer", 1, reward=reward)
    left = game.step("i leave")
    assert left.terminated and game.outcome() == {"seller": 0.0, "buyer": 0.0}
    assert left.rewards["seller"] == ((listed - budget) / listed if reward == "published" else 0.0)


def bought(character: str, lines: list[str], speech: str = "plain") -> list[str]:
    """What the buyer that keeps to the rule answers."""
    options = {"character": character, "speech": speech}
    game, buyer = new("car_dealer", 4, **options), make_player("car_dealer", "expert", options)
    buyer.reset(0)
    game.features, game.budget, game.listed = ["sunroof", "heated seats"], 30_000_00, 30_000_00
    game._news = {"seller": game._car(), "buyer": f"{game._car()} {game._private()}"}
    answers = []
    for line in lines:
        if game.seat is None:
            break
        game.step(line)
        answers.append(buyer.reply(game.observe(), ()))
        game.step(answers[-1])
    return answers


@pytest.mark.parametrize("speech", ["plain", "dollars"])
def test_the_buyer_keeps_to_its_rule(speech):
    assert bought("discount", ["my price is 96 %", "my price is 95 %"], speech)[1:] == ["i accept"]
    answers = bought(
        "features", ["my price is 90 %", 'my price is 90 % "it has a sunroof"', "It has heated seats."], speech
    )
    assert "sunroof , heated seats" in answers[0] and '"does it have heated seats"' in answers[1]
    assert answers[2] == "i accept", "the price stands"
    assert bought("features", ['my price is 110 % "sunroof and heated seats"'], speech) == ["i accept"]
    assert bought("features", ['my price is 111 % "sunroof and heated seats"'], speech) != ["i accept"]
    assert bought("impatient", ["my price is 100 %"], speech) == ["i accept"]
    put_off = bought("impatient", ['my price is 100 % "a sunroof"', "my price is 96 %", "my price is 95 %"], speech)
    assert "keep it short" in put_off[0] and put_off[1] != "i accept" and put_off[2] == "i accept"


@pytest.mark.parametrize(("character", "lines"), [("discount", 8), ("features", 8), ("impatient", 5)])
def test_the_buyer_raises_its_bid_and_leaves_when_nothing_comes_of_it(character, lines):
    answers = bought(character, ["my price is 150 %"] * 10)
    bids = [int(answer.split("price is ")[1].split(" ")[0]) for answer in answers[:-1]]
    assert len(answers) == lines and answers[-1] == "i leave"
    assert bids == sorted(bids) and bids[-1] > bids[0]


def test_sellers_have_their_stated_strength():
    for who, stated in (("expert", 0.94), ("generous", 0.37), ("concise", 0.20), ("mediocre", 0.74)):
        total = 0.0
        for seed in range(120):
            game = new("car_dealer", seed)
            players = {"seller": make_player("car_dealer", who), "buyer": make_player("car_dealer", "expert")}
            for number, player in enumerate(players.values()):
                player.reset(2 * seed + number)
            while game.seat is not None:
                game.step(players[game.seat].reply(game.observe(), ()))
            total += game.outcome()["seller"]
        assert abs(total / 120 - stated) < 0.1, (who, total / 120)


def test_lines_run_out_and_every_kind_of_buyer_comes():
    game = new("car_dealer", 0, lines=2)
    game.step("hm")
    last = game.step("hm")
    assert last.terminated and not last.truncated and game.facts()["ending"] == "no time"
    kinds = set()
    for seed in range(40):
        game.reset(seed)
        kinds.add(game.kind)
        assert 1 <= len(game.features) <= 4
    assert kinds == set(CHARACTERS)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"character": "rich"}, "character='rich' must be one of"),
        ({"lines": 1}, "lines=1 must be"),
        ({"speech": "json"}, "speech='json' must be one of"),
        ({"reward": "fancy"}, "reward='fancy' must be one of"),
    ],
)
def test_impossible_options_are_one_line(options, told):
    with pytest.raises(ValueError, match="^game option ") as refused:
        make_game("car_dealer", options)
    assert told in str(refused.value) and "\n" not in str(refused.value)
