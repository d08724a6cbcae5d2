"""Twenty Questions: an honest oracle, rules that hold for any text, players of their stated strength."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.game import Game
from envs.registry import game_class, make_game, make_player
from envs.twenty_questions.meaning import Meaning
from envs.twenty_questions.oracles import oracle_for
from envs.twenty_questions.table import TableError

ORACLE = oracle_for("small")
TABLE = ORACLE.table
SEAT = "guesser"

WORLD = """
[attributes.alive]
ask = ["is it alive?"]
keywords = ["alive"]
[attributes.cold]
ask = ["is it cold?"]
keywords = ["cold"]
[objects]
"polar bear" = ["alive", "cold"]
bear = ["alive"]
"ice cream" = ["cold"]
"""


def play(player: str, seed: int, **options) -> tuple[Game, list[tuple[str, str]]]:
    game, guesser = make_game("twenty_questions", options), make_player("twenty_questions", player, options)
    game.reset(seed)
    guesser.reset(seed)
    said = []
    while game.seat is not None:
        observation = game.observe()
        said.append((observation, guesser.reply(observation, game.actions())))
        game.step(said[-1][1])
    return game, said


def secret_of(seed: int) -> str:
    return play("expert", seed)[0].facts()["secret"]


def world(tmp_path, text: str) -> str:
    path = tmp_path / "world.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("is it a cat?", Meaning(guess="cat")),
        ("I guess cat", Meaning(guess="cat")),
        ("My guess is: the Cat!", Meaning(guess="cat")),
        ("it's a cat.", Meaning(guess="cat")),
        ("is it smaller than a cat?", None),
        ("is it a cat or a dog?", None),
        ("cat dog lion horse cow sheep elephant", None),
        ("i guess cat dog", None),
        ("is it not a cat?", None),
        ("isn't it a cat?", None),
        ("is it a catfish?", None),
        ("cat", None),
        ("is it alive?", Meaning(attribute="alive")),
        ("Would you say", None),
        ("Is it a living thing?", Meaning(attribute="alive")),
        ("does it have legs", Meaning(attribute="legs")),
        ("is it not alive?", None),
        ("is it alive or round?", None),
        ("is it alive and furry?", None),
        ("is it alive furry?", None),
        ("what is it?", None),
        ("is it a thing?", None),
        ("tell me the secret", None),
        ("", None),
        ("is it alive? " * 40, None),
    ],
)
def test_the_oracle_understands_whole_utterances_only(text, meaning):
    assert ORACLE.understand(text) == meaning


def test_every_answer_is_the_truth_of_the_table():
    for name, truths in TABLE.objects.items():
        for attribute in TABLE.attributes:
            for question in attribute.ask:
                expected = "yes" if attribute.name in truths else "no"
                assert ORACLE.answer(ORACLE.understand(question), name) == expected
        for other in TABLE.names:
            assert ORACLE.answer(ORACLE.understand(f"i guess {other}"), name) == ("yes" if other == name else "no")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.lists(st.sampled_from([*TABLE.names, "is", "it", "a", "alive", "not", "i", "guess"])))
def test_any_text_is_answered_and_only_a_guess_wins(text, words):
    """Whatever is said, the game goes on by its rules; `invalid` is the same for every secret."""
    for said in (text, " ".join(words), f"is it {text}?"):
        meaning = ORACLE.understand(said)
        answers = {ORACLE.answer(meaning, name) for name in TABLE.names}
        assert answers <= ({"yes", "no"} if meaning else {"invalid"})
        game = make_game("twenty_questions")
        game.reset(3)
        step = game.step(said)
        assert step.executable == (meaning is not None)
        won = meaning is not None and meaning.guess == secret_of(3)
        assert game.outcome() == {SEAT: float(won)}
        assert step.terminated == won and not step.truncated
        assert step.rewards == ({SEAT: 1.0} if won else {})


def test_running_out_of_turns_ends_the_game_with_nothing():
    game = make_game("twenty_questions", {"turns": 3})
    assert isinstance(game, Game) and game.horizon == 3
    assert game.seat is None
    game.reset(1)
    assert game.facts() == {} and game.closing() == {}
    steps = [game.step("hello") for _ in range(3)]
    assert [step.terminated for step in steps] == [False, False, True]
    assert not any(step.truncated or step.executable for step in steps)
    assert game.seat is None and game.outcome() == {SEAT: 0.0}
    assert game.closing() == {SEAT: "invalid"} and game.facts()["secret"] in TABLE.names
    with pytest.raises(RuntimeError, match="over"):
        game.step("is it alive?")
    game.reset(1)
    assert game.seat == SEAT and game.outcome() == {SEAT: 0.0} and game.observe() == TABLE.opening


def test_the_observations_never_hold_the_secret_before_the_end():
    for seed in range(50):
        game, said = play("random", seed)
        assert {observation for observation, _ in said[1:]} <= {"yes", "no", "invalid"}


def test_a_seed_fixes_the_game_and_negative_seeds_are_games_of_their_own():
    assert play("mediocre", 5)[1] == play("mediocre", 5)[1]
    assert [secret_of(seed) for seed in range(1, 40)] != [secret_of(-seed) for seed in range(1, 40)]
    assert {secret_of(seed) for seed in range(400)} == set(TABLE.names)


def wins(player: str, games: int) -> float:
    return sum(play(player, seed)[0].outcome()[SEAT] for seed in range(games)) / games


def test_the_players_have_their_stated_strength():
    assert wins("expert", 600) > 0.99
    assert 0.25 < wins("mediocre", 600) < 0.45
    assert 0.08 < wins("random", 600) < 0.22


def test_the_expert_only_ever_asks_what_splits_its_candidates():
    from envs.twenty_questions.players import Expert

    for seed in range(60):
        game, expert = make_game("twenty_questions"), Expert()
        game.reset(seed)
        expert.reset(seed)
        left = []
        while game.seat is not None:
            said = expert.reply(game.observe(), ())
            left.append(expert.candidates.bit_count())
            game.step(said)
        assert all(after < before for before, after in pairwise(left))


def test_the_language_holds_every_word_that_is_said_or_seen():
    words = {word for sentence in make_game("twenty_questions").language() for word in sentence.lower().split()}
    for player in game_class("twenty_questions").players():
        for seed in range(60):
            game, said = play(player, seed)
            texts = [*(text for pair in said for text in pair), *game.closing().values(), *game.facts().values()]
            assert {word for text in texts for word in text.lower().split()} <= words


def test_another_table_is_another_world(tmp_path):
    """Names of several words; the longer name is not taken for the shorter one."""
    table = world(tmp_path, WORLD)
    game = make_game("twenty_questions", {"table": table, "turns": 20})
    game.reset(0)
    assert game.oracle.understand("is it a polar bear?") == Meaning(guess="polar bear")
    assert game.oracle.understand("is it a bear?") == Meaning(guess="bear")
    assert game.oracle.understand("is it a polar?") is None
    assert "polar bear" in game.briefing(SEAT) and "20 turns" in game.briefing(SEAT)
    assert play("expert", 0, table=table, turns=20)[0].outcome() == {SEAT: 1.0}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('bear = ["alive"]', 'bear = ["alive", "cold"]', "tells 'bear' from 'polar bear'"),
        ('bear = ["alive"]', 'bear = ["alife"]', "'bear' has unknown attribute 'alife'"),
        ('ask = ["is it cold?"]', 'ask = ["is it freezing?"]', "does not understand 'is it freezing\\?' as 'cold'"),
        ('keywords = ["cold"]', 'keywords = ["cold", "alive"]', "keyword 'alive' means both 'alive' and 'cold'"),
        ("[objects]", "[things]", "unknown key 'things'"),
        ("[attributes.alive]", "[attributes.alive", "not a TOML file"),
        ('keywords = ["cold"]', "", "exactly `ask` and `keywords`"),
    ],
)
def test_a_table_that_cannot_be_played_is_refused_by_name(tmp_path, old, new, message):
    assert old in WORLD
    with pytest.raises(TableError, match=message):
        make_game("twenty_questions", {"table": world(tmp_path, WORLD.replace(old, new))})


def test_bad_options_name_what_is_wrong():
    with pytest.raises(ValueError, match="turns=0"):
        make_game("twenty_questions", {"turns": 0})
    with pytest.raises(ValueError, match="no option 'horizon'; it has: table, turns, listed, oracle"):
        make_game("twenty_questions", {"horizon": 5})
    with pytest.raises(ValueError, match="nowhere"):
        make_game("twenty_questions", {"table": "nowhere"})
    with pytest.raises(ValueError, match="no scripted player 'genius'"):
        make_player("twenty_questions", "genius")
    with pytest.raises(ValueError, match="unknown game 'checkers'"):
        make_game("checkers")
