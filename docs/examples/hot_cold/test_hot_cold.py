import json

import pytest
from hot_cold import HotCold


def wins(player, games=400):
    game, seeker, won = HotCold(), HotCold.players()[player](), 0
    for seed in range(games):
        game.reset(seed)
        seeker.reset(seed)
        while game.seat is not None:
            game.step(seeker.reply(game.observe(), game.actions()))
        won += game.outcome()["seeker"]
    return won / games


def test_a_game_by_hand():
    game = HotCold()
    game.reset(0)  # it hides in place 3
    assert game.observe() == "places 1 to 20"
    said = [("look 10", "no change"), ("LOOK 5", "warmer"), ("look 12", "colder"), ("look up", "look where?")]
    for utterance, answer in said:
        assert game.step(utterance).executable == (utterance != "look up")
        assert game.observe() == answer
    saved = json.loads(json.dumps(game.save()))
    for each in (game, HotCold()):
        each.restore(saved)
        last = each.step("look 3")
        assert last.terminated and last.rewards == {"seeker": 1.0} and each.outcome() == {"seeker": 1.0}
        assert each.seat is None and each.facts() == {"hidden": "3"}


@pytest.mark.parametrize(
    "text", ["", "look", "look 0", "look 21", "look 1 2 3", "look \u0661", "look 1\x00", "look -3"]
)
def test_nonsense_costs_a_look_and_finds_nothing(text):
    game = HotCold(turns=1)
    game.reset(0)
    step = game.step(text)
    assert step.terminated and not step.executable and game.outcome() == {"seeker": 0.0}


def test_players_have_their_stated_strength():
    assert wins("expert") > 0.68 and 0.37 < wins("mediocre") < 0.53 and 0.15 < wins("random") < 0.3


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="places=1 "):
        HotCold(places=1)
