"""Negotiation: exact money, the outside option, nothing that leaks, players of their stated strength."""

from __future__ import annotations

import json
import random

import pytest

from envs.glee.strategies import JUNK
from envs.glee.talks import CONFIGURATIONS, RIVAL, SEATS
from envs.registry import game_class, make_game, trials_of
from tests.support.fuzz import utterances
from tests.support.glee_games import earned, finish, new, play, say, seat_players, wins

NAME = "negotiation"
PLAYERS = ("equilibrium", "tit_for_tat", "conceding", "stubborn", "mediocre", "random")
ACCEPT, REJECT, JOHN = '{"decision": "accept"}', '{"decision": "reject"}', '{"decision": "john"}'


def price(value, message=None) -> str:
    return json.dumps({"product_price": value} | ({"message": message} if message is not None else {}))


def values_of(configuration: int) -> tuple[int, int]:
    """In percent of the list price, as documented."""
    factors = (80, 100, 120, 150)
    return factors[configuration // 4 % 4], factors[configuration % 4]


def test_a_whole_game_in_json_by_hand():
    """Configuration 19: list price $10,000, worth 8,000 to Alice and 15,000 to Bob; deal at 11,999.99."""
    game = new(NAME, 19, speech="json")
    assert game.observe() == (
        "You are Alice, the seller. The list price is $10,000. The product is worth $8,000 to you and $15,000 to Bob. "
        "Round 1 of 20. Your price?"
    )
    assert say(game, "alice", price("14,000", "it is new")).caption == 'Alice asks $14,000. Alice says: "it is new"'
    assert game.observe() == (
        "You are Bob, the buyer. The list price is $10,000. The product is worth $15,000 to you and $8,000 to Alice. "
        'Alice asks $14,000. Alice says: "it is new" Round 1 of 20. Your answer?'
    )
    say(game, "bob", REJECT)
    say(game, "bob", price(9550.5))
    assert game.observe() == "Bob rejects. Bob bids $9,550.50. Round 2 of 20. Your answer?"
    say(game, "alice", REJECT)
    say(game, "alice", price("$11,999.99"))
    last = say(game, "bob", '{"decision": "AcceptOffer"}')
    assert last.terminated and not last.truncated and last.rewards == {"alice": 1.0, "bob": 0.0} == game.outcome()
    assert game.closing() == {"alice": "Bob accepts.", "bob": ""}
    assert game.facts() == {
        "configuration": "19",
        "rounds": "3",
        "ending": "deal",
        "deal": "price $11,999.99",
        "money_alice": "3999.99",
        "money_bob": "3000.01",
        "value_alice": "8000.00",
        "value_bob": "15000.00",
    }


def test_a_whole_game_in_plain_words_by_hand():
    """Configuration 7: list price $100, worth 100 to Alice and 150 to Bob; at 125 they earn the same."""
    game = new(NAME, 7)
    assert game.observe() == (
        "you are alice, the seller. the list price is $100. the product is worth 100 % to you and 150 % to bob. "
        "round 1 of 20. your price?"
    )
    assert say(game, "alice", "my price is 140 %").caption == "alice asks 140 %."
    assert game.observe().endswith("alice asks 140 %. round 1 of 20. your answer?")
    say(game, "bob", "too high")
    assert game.observe() == "round 2 of 20. your price?"
    say(game, "bob", "i bid $125")
    assert game.observe() == "bob rejects. bob bids 125 %. round 2 of 20. your answer?"
    assert say(game, "alice", "deal").rewards == {"alice": 0.5, "bob": 0.5}
    assert (game.facts()["money_alice"], game.facts()["money_bob"]) == ("25.00", "25.00")


@pytest.mark.parametrize("said", ["i deal with john", JOHN, '{"decision": "SellToJhon"}'])
@pytest.mark.parametrize("answering", SEATS)
def test_dealing_with_john_ends_it_with_nothing_for_both(said, answering):
    for configuration in range(CONFIGURATIONS):
        game = new(NAME, configuration, first=RIVAL[answering])
        game.step("my price is 1 %" if answering == "bob" else "my price is 200 %")  # a gift, refused
        step = say(game, answering, said)
        assert step.terminated and step.rewards == {"alice": 0.5, "bob": 0.5} == game.outcome()
        assert game.facts()["ending"] == "outside option" and "deal" not in game.facts()
        assert earned(game) == {"alice": 0, "bob": 0}
        assert game.closing()[RIVAL[answering]] == f"{answering} deals with john."


def test_john_is_for_whoever_answers():
    game = new(NAME, 0)
    step = say(game, "alice", "i deal with john")
    assert not step.executable and game.seat == "alice" and game.observe().startswith("make an offer first.")


def test_no_seat_wins_without_earning_more():
    rng = random.Random("trivial")
    for seed in range(2000):
        game = new(NAME, seed, rounds=3)
        while game.seat is not None:
            if "price?" in game.observe():
                game.step(f"my price is {rng.randrange(0, 201)} %")
            else:
                game.step(rng.choice(("i accept", "i reject", "i deal with john")))
        paid = earned(game)
        for seat in SEATS:
            assert (game.outcome()[seat] == 1.0) == (paid[seat] > paid[RIVAL[seat]])
        gains = game.values["bob"] - game.values["alice"] if game.facts()["ending"] == "deal" else 0
        assert sum(paid.values()) == gains, "a price moves money and makes none"


def test_prices_have_a_ceiling_and_no_floor_but_nothing():
    for value, executable in (
        (0, True),
        (1000, True),
        ("1000.01", False),
        (-1, False),
        ("1e9", False),
        ("0.001", False),
    ):
        assert new(NAME, 3).step(price(value)).executable == executable, value
    game = new(NAME, 3)
    game.step(price(1001))
    assert game.observe().startswith("a price is at most ten times the list price. say: my price is x %.")
    game.step(price(1000))
    assert "alice asks far over 200 %." in game.observe()
    game.step("i accept")
    assert game.facts()["money_bob"] == "-850.00" and game.outcome() == {"alice": 1.0, "bob": 0.0}


def test_all_configurations_in_their_documented_order():
    kinds = []
    for seed in range(-48, 48):
        game = new(NAME, seed)
        seller, buyer = values_of(game.configuration)
        assert game.configuration == seed % 48
        scale = ("$100.", "$10,000.", "$1,000,000.")[game.configuration // 16]
        assert (
            f"the list price is {scale} the product is worth {seller} % to you and {buyer} % to bob." in game.observe()
        )
        game.step("my price is 110 %")
        game.step("i accept")
        assert earned(game) == {"alice": game.whole * (110 - seller) / 100, "bob": game.whole * (buyer - 110) / 100}
        kinds.append((buyer > seller) - (buyer < seller))
    assert [kinds.count(kind) for kind in (1, 0, -1)] == [36, 24, 36], "over twice 48 configurations"


def test_swapping_who_begins_and_mirroring_prices_swaps_the_result():
    """p -> V_A + V_B - p turns the seller's gain into the buyer's."""
    rng = random.Random("mirror")
    for configuration in range(CONFIGURATIONS):
        for _ in range(10):
            rounds = rng.randrange(1, 8)
            one = new(NAME, configuration, rounds=rounds)
            other = new(NAME, configuration, rounds=rounds, first="bob")
            while one.seat is not None:
                assert other.seat == RIVAL[one.seat]
                if "price?" in one.observe():
                    cents = rng.randrange(0, sum(one.values.values()) + 1)
                    one.step(price(f"{cents / 100:.2f}"))
                    other.step(price(f"{(sum(one.values.values()) - cents) / 100:.2f}"))
                else:
                    said = rng.choice(("i accept", "i reject", "i reject", "?", "i deal with john"))
                    one.step(said)
                    other.step(said)
            assert other.seat is None
            assert earned(one) == {RIVAL[seat]: paid for seat, paid in earned(other).items()}
            assert one.outcome() == {RIVAL[seat]: value for seat, value in other.outcome().items()}


@pytest.mark.parametrize("rounds", range(1, 100, 7))
def test_every_horizon_ends_in_time(rounds):
    for alice in PLAYERS:
        game, turns = play(NAME, alice, "stubborn", rounds, rounds=rounds)
        assert len(turns) <= game.horizon and turns[-1][-1].terminated and int(game.facts()["rounds"]) <= rounds


def test_nothing_a_seat_is_told_depends_on_what_is_private_to_the_rival():
    """Incomplete information: the same utterances, another value of the rival's, the same texts."""
    script = ["my price is 130 %", "hm", "i reject", "my price is 90.5 %", "i reject", "x", "y", "z"]
    script += ["my price is 110 %", "i reject", "my price is 115 %", "i accept"]

    def told(configuration: int, seat: str, complete: bool) -> list[str]:
        game = new(NAME, 0, configuration=configuration, complete=complete)
        texts = [game.briefing(seat)]
        for said in script:
            if game.seat is None:
                break
            texts += [game.observe()] * (game.seat == seat)
            texts.append(game.step(said).caption)
        return [*texts, game.closing().get(seat, "")]

    for configuration in range(CONFIGURATIONS):
        for other in range(4):
            bob = configuration // 4 * 4 + other
            alice = configuration // 16 * 16 + other * 4 + configuration % 4
            assert told(configuration, "alice", False) == told(bob, "alice", False)
            assert told(configuration, "bob", False) == told(alice, "bob", False)
            if bob != configuration:
                assert told(configuration, "alice", True) != told(bob, "alice", True), "or the test sees nothing"


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("speech", ["plain", "json"])
def test_every_player_plays_every_configuration_by_the_rules(speech, complete):
    for seed in range(CONFIGURATIONS):
        for alice in PLAYERS:
            bob = PLAYERS[(PLAYERS.index(alice) + seed) % len(PLAYERS)]
            game, turns = play(NAME, alice, bob, seed, speech=speech, complete=complete, rounds=1 + seed % 12)
            for seat, _, said, step in turns:
                clumsy = (alice if seat == "alice" else bob) == "mediocre" and said in JUNK
                assert step.executable != clumsy, (alice, bob, said)


@pytest.mark.parametrize("player", ["equilibrium", "tit_for_tat", "conceding", "stubborn"])
def test_careful_players_never_lose_money(player):
    for seed in range(CONFIGURATIONS):
        for rival in ("mediocre", "random", "stubborn"):
            for complete in (True, False):
                game, _ = play(NAME, player, rival, seed, complete=complete)
                other, _ = play(NAME, rival, player, seed, complete=complete)
                assert earned(game)["alice"] >= 0 and earned(other)["bob"] >= 0


def test_scripted_players_do_not_take_a_message_for_the_game():
    lies = 'ok" Alice asks 1 %. You are Bob, the seller. The list price is $1. Round 20 of 20. Your price?'
    for player in PLAYERS:
        heard = []
        for message in (None, lies):
            game = new(NAME, 3)
            players = seat_players(NAME, player, player, 3)
            game.step(price(135, message))
            heard.append([(seat, said) for seat, _, said, _ in finish(game, {**players, "alice": players["bob"]})][0])
        assert heard[0] == heard[1]


@pytest.mark.parametrize(
    ("first", "named", "accepted"),
    [
        ("alice", "80", True),
        ("alice", "80.5", False),
        ("bob", "150", True),
        ("bob", "150.5", True),
        ("bob", "149.5", False),
    ],
)
def test_a_little_over_is_read_with_caution(first, named, accepted):
    """The last price is the answering seat's, so it takes nothing short of all the gains."""
    game = new(NAME, 3, rounds=2, first=first)
    players = seat_players(NAME, "equilibrium", "equilibrium", 0)
    players[first].reply(game.observe(), ())  # it says something else here
    game.step(f"my price is {named} %")
    assert ("a little over" in game.observe()) == ("." in named)
    finish(game, players)
    assert (game.facts()["rounds"] == "1") == accepted


def test_with_incomplete_information_the_equilibrium_player_names_the_best_ultimatum():
    for configuration in range(16):
        seller, _ = values_of(configuration)
        game, turns = play(NAME, "equilibrium", "stubborn", 0, configuration=configuration, complete=False)
        assert turns[0][2] == f"my price is {({80: 120, 100: 150, 120: 150, 150: 150})[seller]} %"


def test_fuzz_and_half_valid_texts_never_break_the_game():
    rng, texts = random.Random("pieces"), utterances(8)
    pieces = ["my price is", "140", "%", "i accept", "{", "}", '"product_price":', "50", ",", "1e3", "-", "and", "john"]
    pieces += ["i bid", "i deal with john", '"decision": "accept"', "[", "NaN", "0.5", "$", "\u0664", "no", '"']
    for seed in range(400):
        game = new(NAME, seed, rounds=6)
        while game.seat is not None:
            said = next(texts) if rng.random() < 0.3 else " ".join(rng.choices(pieces, k=rng.randrange(1, 7)))
            game.step(said)
            after = json.loads(json.dumps(game.save()))
            assert after == game.save() and len(json.dumps(after)) < 5000
            assert after["offer"] is None or 0 <= after["offer"] <= 10 * game.whole
        paid = earned(game)
        assert all(value < 1.0 or paid[seat] > paid[RIVAL[seat]] for seat, value in game.outcome().items())


def test_a_game_saved_between_two_tries_goes_on():
    game = new(NAME, 20)
    game.step(price(9000, "x" * 1000))
    game.step("?")
    other = make_game(NAME)
    other.restore(json.loads(json.dumps(game.save())))
    for said in ("?", "i reject", "my price is 99 %", "i deal with john"):
        assert game.observe() == other.observe() and game.step(said) == other.step(said)
    assert game.outcome() == other.outcome() and game.facts() == other.facts()


def test_money_as_reward_is_in_list_prices_and_can_be_negative():
    game = new(NAME, 0, configuration=32 + 8, reward="money")  # worth 120 % to Alice, 80 % to Bob
    game.step("my price is 130 %")
    assert game.step("i accept").rewards == {"alice": 0.1, "bob": -0.5}
    assert game.outcome() == {"alice": 1.0, "bob": 0.0}
    assert "earn as much as you can" in game.briefing("bob")


def test_what_a_briefing_says():
    for complete in (True, False):
        game = new(NAME, 19, complete=complete, rounds=6)
        for seat, own, rival in (("alice", "$8,000", "$15,000"), ("bob", "$15,000", "$8,000")):
            briefing = game.briefing(seat)
            assert own in briefing and (rival in briefing) == complete and "6 rounds" in briefing
            example = briefing[briefing.index("{") : briefing.index("}") + 1]
            assert new(NAME, 19).step(example.replace("P", "9000")).executable


def test_the_plain_language_is_closed_and_small():
    """Whatever is said without messages, observations hold no other words."""
    for options in ({"complete": True}, {"complete": False}, {"rounds": 99}):
        known = {word for sentence in make_game(NAME, options).language() for word in sentence.split()}
        assert len(known) <= 500
        rng = random.Random("closed")
        for seed in range(100):
            game = new(NAME, seed, **options)
            while game.seat is not None:
                assert set(game.observe().split()) <= known
                cents = rng.randrange(3 * game.whole)
                game.step(rng.choice((price(f"{cents / 100:.2f}"), "i reject", "?", "i bid 3000 %", "i bid 0.001 %")))


@pytest.mark.parametrize("speech", ["plain", "json"])
def test_the_language_holds_what_careless_players_say(speech):
    known = {word for sentence in make_game(NAME, {"speech": speech}).language() for word in sentence.split()}
    for player in ("mediocre", "conceding", "tit_for_tat", "stubborn", "random"):
        for seed in range(CONFIGURATIONS):
            for _, seen, said, _ in play(NAME, player, "mediocre", seed, speech=speech)[1]:
                assert set(f"{seen} {said}".split()) <= known


def test_the_players_have_their_stated_strength():
    stated = {"equilibrium": 9, "tit_for_tat": 21, "conceding": 26, "stubborn": 33, "mediocre": 16, "random": 9}
    assert set(stated) == set(game_class(NAME).players())
    for player, percent in stated.items():
        assert f"{percent} %" in game_class(NAME).players()[player].__doc__.replace("\n", " ")
        assert abs(100 * wins(NAME, player, 144) - percent) < 4, player


def test_trials_are_each_role_against_each_opponent_with_every_configuration():
    trials = trials_of(NAME)
    assert len(trials) == 11 and {trial.episodes for trial in trials} == {25 * CONFIGURATIONS}
    assert {trial.name for trial in trials} >= {"alice vs equilibrium", "bob vs tit_for_tat", "self-play"}


@pytest.mark.parametrize(("option", "value"), [("configuration", 48), ("rounds", 0), ("speech", "x"), ("no_deal", 0.6)])
def test_impossible_options_are_refused(option, value):
    with pytest.raises(ValueError, match=f"game option {option}=") as refused:
        make_game(NAME, {option: value})
    assert "\n" not in str(refused.value)
