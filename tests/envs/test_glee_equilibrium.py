"""The equilibrium: textbook values, an independent solution of small games, and nobody gains by deviating."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from envs.glee.equilibrium import best_ultimatum, least_accepted, prices, shares
from envs.glee.talks import CONFIGURATIONS, RIVAL, SEATS
from tests.support.glee_games import earned, play

FACTORS = tuple(Fraction(each, 100) for each in (80, 90, 95, 100))
PAIRS = tuple(product(FACTORS, FACTORS))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_short_games_by_hand(first, second):
    assert shares(100_00, first, second, 1) == (100_00,), "an ultimatum takes it all"
    assert shares(100_00, first, second, 2) == (100_00 - second * 100_00, 100_00)
    three = 100_00 - second * (100_00 - first * 100_00)
    assert shares(100_00, first, second, 3)[0] == three


def test_a_game_of_three_rounds_to_the_cent():
    """d1 = 0.9, d2 = 0.95, $1.00: round 3 keeps 100; round 2 gives ceil(90) = 90 and keeps 10; round 1
    gives ceil(9.5) = 10 and keeps 90."""
    assert shares(100, Fraction(9, 10), Fraction(19, 20), 3) == (90, 10, 100)


@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if 1 not in pair])
def test_long_games_tend_to_rubinsteins_share(first, second):
    """In closed form: s[T] - s* shrinks by d1 d2 every two rounds, from 1 - s* (odd T) or from -s* (even T)."""
    units, limit = 10**9, (1 - second) / (1 - first * second)
    for rounds in (*range(1, 100), 998, 999):
        ahead = (rounds % 2 - limit) * (first * second) ** (rounds // 2)
        assert abs(Fraction(shares(units, first, second, rounds)[0], units) - limit - ahead) <= Fraction(rounds, units)
    assert abs(ahead) < 1e-20


def test_who_loses_nothing_by_waiting():
    one, other = Fraction(1), Fraction(9, 10)
    for rounds in range(1, 100):
        assert shares(100, one, one, rounds)[0] == (100 if rounds % 2 else 0), "the last proposer gets everything"
        assert shares(10**6, one, other, rounds)[0] >= shares(10**6, other, other, rounds)[0]
    patient = shares(10**9, one, other, 99)[0], 10**9 - shares(10**9, other, one, 99)[0]
    assert min(patient) > 0.99 * 10**9, "in long games, whoever begins"


def brute_force(units: int, factors: tuple[Fraction, Fraction], rounds: int) -> tuple[Fraction, ...]:
    """Every offer in every round tried, in plain discounted payoffs: (odd proposer, even proposer)."""

    @cache
    def value(number: int) -> tuple[Fraction, Fraction]:
        if number > rounds:
            return Fraction(0), Fraction(0)
        proposer, later = (number - 1) % 2, value(number + 1)
        best = None
        for kept in range(units, -1, -1):
            split = (kept, units - kept) if proposer == 0 else (units - kept, kept)
            now = tuple(share * factor ** (number - 1) for share, factor in zip(split, factors, strict=True))
            result = now if now[1 - proposer] >= later[1 - proposer] else later
            taken = result is now
            if best is None or (result[proposer], taken) > (best[0][proposer], best[1]):
                best = result, taken
        return best[0]

    return value(1)


@pytest.mark.parametrize("factors", PAIRS)
@pytest.mark.parametrize("units", [1, 7, 20])
def test_an_independent_solution_agrees(factors, units):
    for rounds in range(1, 9):
        kept = shares(units, *factors, rounds)[0]
        assert brute_force(units, factors, rounds) == (kept, units - kept)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_no_single_deviation_pays_in_any_round_of_any_horizon(first, second):
    units = 100
    for rounds in range(1, 100):
        plan = shares(units, first, second, rounds)
        for number in range(1, rounds + 1):
            own, rival = (first, second) if number % 2 else (second, first)
            kept, later = plan[number - 1], plan[number] if number < rounds else None
            rival_waits = rival * later if later is not None else 0
            own_waits = own * (units - later) if later is not None else 0
            assert units - kept >= rival_waits, "it is accepted"
            assert units - kept - 1 < rival_waits, "asking for one more is not"
            assert kept >= own_waits, "and waiting is no better"
            assert least_accepted(units, rival, own, rounds - number) == units - kept


@pytest.mark.parametrize(("speech", "units"), [("json", None), ("plain", 100)])
def test_two_equilibrium_players_agree_at_once_in_every_configuration_and_horizon(speech, units):
    for configuration in range(CONFIGURATIONS):
        for rounds in range(1, 100) if configuration < 16 or speech == "json" else (1, 20, 99):
            options = {"configuration": configuration, "rounds": rounds, "speech": speech}
            game, turns = play("bargaining", "equilibrium", "equilibrium", 0, **options)
            assert len(turns) == 2
            factors = (FACTORS[configuration // 4 % 4], FACTORS[configuration % 4])
            cut = units or game.whole
            kept = shares(cut, *factors, rounds)[0] * (game.whole // cut)
            assert earned(game) == {"alice": kept, "bob": game.whole - kept}


@pytest.mark.parametrize("rival", ["tit_for_tat", "conceding", "stubborn", "mediocre", "random"])
def test_nobody_earns_more_against_it_than_the_equilibrium_leaves_them(rival):
    for name in ("bargaining", "negotiation"):
        for configuration, seat in product(range(CONFIGURATIONS), SEATS):
            for speech in ("plain", "json"):
                options = {"configuration": configuration, "rounds": 1 + configuration % 9, "speech": speech}
                who = {seat: "equilibrium", RIVAL[seat]: rival}
                game, _ = play(name, who["alice"], who["bob"], configuration, **options)
                fair, _ = play(name, "equilibrium", "equilibrium", 0, **options)
                assert earned(game)[RIVAL[seat]] <= earned(fair)[RIVAL[seat]]


def test_who_names_the_last_price_gets_all_the_gains():
    for rounds in range(1, 100):
        for seller_first in (True, False):
            last_is_seller = (rounds % 2 == 1) == seller_first
            assert prices(80, 150, rounds, seller_first) == ((150 if last_is_seller else 80),) * rounds
            assert prices(100, 100, rounds, seller_first) == (100,) * rounds, "nothing to gain: indifferent, so a deal"
            assert prices(120, 100, rounds, seller_first) == (None,) * rounds


def test_equilibrium_negotiators_trade_at_once_or_go_to_john():
    for configuration in range(CONFIGURATIONS):
        for rounds in range(1, 100):
            for speech in ("plain", "json") if rounds < 4 else ("plain",):
                options = {"configuration": configuration, "rounds": rounds, "speech": speech}
                game, turns = play("negotiation", "equilibrium", "equilibrium", 0, **options)
                assert len(turns) == 2
                gains = game.values["bob"] - game.values["alice"]
                if gains < 0:
                    assert game.facts()["ending"] == "outside option" and earned(game) == {"alice": 0, "bob": 0}
                else:
                    assert game.facts()["ending"] == "deal"
                    assert earned(game)["alice" if rounds % 2 else "bob"] == gains
                    assert min(earned(game).values()) == 0


@pytest.mark.parametrize(
    ("own", "selling", "price", "gain"),
    [
        (80, True, 120, Fraction(20)),  # 100: 20 x 3/4; 120: 40 x 2/4; 150: 70 x 1/4
        (100, True, 150, Fraction(50, 4)),  # 120: 20 x 2/4; 150: 50 x 1/4
        (120, True, 150, Fraction(30, 4)),
        (150, True, 150, Fraction(0)),
        (150, False, 100, Fraction(25)),  # 80: 70 x 1/4; 100: 50 x 2/4; 120: 30 x 3/4
        (120, False, 100, Fraction(10)),  # 80: 40 x 1/4 = 100: 20 x 2/4, and 100 is taken more often
        (100, False, 80, Fraction(5)),
        (80, False, 80, Fraction(0)),
    ],
)
def test_the_best_ultimatum_to_an_unknown_rival(own, selling, price, gain):
    assert best_ultimatum(own, (80, 100, 120, 150), selling) == (price, gain)
