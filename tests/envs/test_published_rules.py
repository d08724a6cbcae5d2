"""Games by published rules: what each seat is told and what is hidden, and the users' own copies of published texts."""

from __future__ import annotations

import json
import re

import pytest

from envs.registry import make_game, make_player
from tests.support.glee_games import finish, new, seat_players

TALKS = ("bargaining", "negotiation")
GLEE = (*TALKS, "persuasion")


def whole(name: str, players: tuple[str, str], seed: int, **options) -> tuple:
    game = new(name, seed, **options)
    return game, finish(game, seat_players(name, *players, seed, **options))


@pytest.mark.parametrize("name", GLEE)
@pytest.mark.parametrize("options", [{}, {"messages": True, "complete": False}, {"rounds": 30}])
def test_scripted_players_play_by_published_rules_as_by_the_own(name, options):
    """What they are told is the same, but for the list price."""
    for seed in range(0, 45, 4):
        own, said = whole(name, ("equilibrium", "random"), seed, speech="json", **options)
        published, said_too = whole(name, ("equilibrium", "random"), seed, rules="published", **options)
        if name != "negotiation":
            assert [turn[2] for turn in said] == [turn[2] for turn in said_too]
            assert own.outcome() == published.outcome() and own.facts() == published.facts()


@pytest.mark.parametrize("name", GLEE)
@pytest.mark.parametrize("options", [{"messages": True, "complete": False}, {"messages": False, "rounds": 30}])
def test_the_language_holds_what_is_said_by_published_rules(name, options):
    options = {"rules": "published", **options}
    known = {word for sentence in make_game(name, options).language() for word in sentence.split()}
    for seed in range(0, 45, 4):
        for turn in whole(name, ("mediocre", "random"), seed, **options)[1]:
            assert set(turn[1].split()) <= known


def test_in_negotiation_nobody_is_told_a_list_price():
    game = new("negotiation", 19, rules="published")
    for seat in game.seats:
        assert not re.search(r"10,000|list price", game.briefing(seat) + game.observe())
        game.step('{"product_price": 9000}')
    _, turns = whole("negotiation", ("conceding", "conceding"), 19, rules="published")
    assert turns[-1][3].terminated and all(turn[3].executable for turn in turns)


@pytest.mark.parametrize("name", TALKS)
def test_how_long_a_game_is_stays_hidden_where_it_is_long(name):
    for rounds, told in ((12, True), (20, True), (21, False), (99, False)):
        game = new(name, 19, rules="published", rounds=rounds)
        assert all((f" {rounds} rounds" in game.briefing(seat)) == told for seat in game.seats)
        assert (f"Round 1 of {rounds}." in game.observe()) == told == ("Round 1. " not in game.observe())


AIMS = {
    ("bargaining", "alice"): "more money than Bob",
    ("bargaining", "bob"): "more money than Alice",
    ("negotiation", "alice"): "as much money for the product as you can",
    ("negotiation", "bob"): "keep as much of your money as you can",
}


def test_what_each_seat_is_told_to_want():
    for (name, seat), aim in AIMS.items():
        assert aim in new(name, 1, rules="published").briefing(seat)
    assert all("aim" not in new("persuasion", 1, rules="published").briefing(seat) for seat in ("alice", "bob"))
    assert "aim" not in new("bargaining", 1, rules="published", reward="money").briefing("bob")


@pytest.mark.parametrize("rules", ["own", "published"])
@pytest.mark.parametrize("name", GLEE)
def test_no_example_holds_a_number(name, rules):
    """Else both seats begin from it."""
    for speech in ("json", *["plain"] * (rules == "own")):
        game = new(name, 17, rules=rules, speech=speech)
        told = [game.briefing(seat) for seat in game.seats]
        for said in ("hm", '{"decision": "maybe"}'):
            told.append(game.observe())
            game.step(said)
        told = [
            re.sub(r"Tries left: \d|Round \d+( of \d+)?|\$[\d,.]*\d|[\d.]+ %( of its worth)?", "", each)
            for each in told
        ]
        examples = [each for text in told for each in re.findall(r"\{[^}]*\}|say: .*?\.|like this: .*?\.", text)]
        assert examples and not any(re.search(r"\d", each) for each in examples)
        assert not re.search(r"\b(40|60|105)\b", " ".join(told))


def test_what_is_due_is_asked_for_in_its_turn():
    game = new("bargaining", 17, rules="published")
    assert game.observe().endswith(
        "Round 1 of 20. Your offer? Say how to share $10,000 and what you have to say about it, as JSON: "
        '{"alice_gain": what you get, "bob_gain": what Bob gets, "message": your words to Bob}'
    )
    game.step('{"alice_gain": 10000, "bob_gain": 0}')
    assert game.observe().endswith('Your answer? Say {"decision": "accept"} or {"decision": "reject"}')
    game.step("no")
    game.step('{"alice_gain": 0, "bob_gain": 10000}')
    assert "worth 20 % less than in round 1, and what Bob gets 10 % less. Say" in game.observe()

    game = new("negotiation", 17, rules="published", messages=False)
    assert game.observe().endswith('Make your offer, as JSON: {"product_price": what you ask}')
    game.step('{"product_price": 9000}')
    assert game.observe().endswith(
        '{"decision": "AcceptOffer"}, {"decision": "RejectOffer"} or {"decision": "BuyFromJhon"}'
    )
    game.step('{"decision": "RejectOffer"}')
    assert game.observe().endswith('Make your counteroffer, as JSON: {"product_price": what you bid}')


def test_nothing_private_is_told_where_information_is_not_complete():
    for name in TALKS:
        for one, other in ((16, 17), (20, 23)):  # Bob's alone differs
            told = []
            for configuration in (one, other):
                game = new(name, 0, configuration=configuration, complete=False, rules="published")
                texts = [game.briefing("alice")]
                for said in ('{"alice_gain": 10000, "bob_gain": 0, "product_price": 1}', "no", "x", "y", "z"):
                    texts += [game.observe()] * (game.seat == "alice")
                    game.step(said)
                told.append([*texts, game.observe() if game.seat == "alice" else ""])
            assert told[0] == told[1]


def test_published_rules_speak_json():
    with pytest.raises(ValueError, match="game option speech='plain' is not for published rules"):
        make_game("bargaining", {"rules": "published", "speech": "plain"})
    with pytest.raises(ValueError, match="game option rules='glee' must be one of: own, published"):
        make_game("persuasion", {"rules": "glee"})
    assert not make_game("negotiation", {"rules": "published"}).plain and make_game("negotiation").plain


def test_myopic_buyers_are_not_told_the_round():
    game = new("persuasion", 3, rules="published", myopic=True, rounds=5)
    game.step("yes")
    assert "Round" not in game.observe() and "5" not in game.briefing("buyer1") and "5 rounds" in game.briefing("alice")
    buyer = make_player("persuasion", "calculating", {"rules": "published", "myopic": True})
    buyer.reset(0)
    assert buyer.reply(game.observe(), ()) == '{"decision": "yes"}'


# copies of published texts, here of our own making


def glee_folder(tmp_path):
    files = {
        "bargaining/prompts/rules_prompt.txt": "{{player_name}} shares {{money_to_divide}}$.\n{{inflation_message}}\n"
        "{{max_rounds_message}}\n",
        "bargaining/prompts/offer_format.txt": 'Give {"{{player_name_lower}}_gain": n, "{{rival_name_lower}}_gain": n'
        "{{add_message2}}}",
        "negotiation/prompts/rules_prompt.json": {
            "seller": "{{player_name}} sells.\n{{complete_information_message}}{{next_rounds_info_seller}}",
            "buyer": "Buy for ${{self_final_value}}. {{next_rounds_info_buyer}}",
        },
        "negotiation/prompts/offer_format.json": {"seller": "Your {{offer_type}} to {{rival_name}}?", "buyer": "Bid."},
        "negotiation/prompts/offer_format_messages_unallowed.json": {"seller": "A number.", "buyer": "A bid."},
        "persuasion/prompts/rules_prompt.json": {
            "seller": "{{seller_intro}} {{p}}% {{seller_p_message}}. {{total_rounds}}. {{buyer_v2_cap}} buys.",
            "buyer": "{{_seller_name}} asks ${{product_price}} of {{buyer_v3}}; ${{v}} or ${{c}}. "
            "{{rounds_prior}} you see.",
        },
        "persuasion/prompts/format_prompt.json": {
            **{"seller_text": "Tell {{rival_name}}.", "seller_binary": "yes/no?", "buyer_binary": "Buy?"},
            "buyer_text": "Buy, and what do you tell {{rival_name}}?",
        },
    }
    for name, content in files.items():
        path = tmp_path / "games" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return tmp_path


def test_texts_in_the_shape_of_glee_are_filled_and_used(tmp_path):
    folder = glee_folder(tmp_path)
    game = new("bargaining", 17, prompts=str(folder))
    assert game.briefing("bob").startswith("Bob shares 10,000$.\nMind inflation: each round that passes takes 10 % off")
    assert game.observe().endswith('Give {"alice_gain": n, "bob_gain": n, "message": your words to Bob}')
    game = new("negotiation", 17, prompts=str(folder / "games" / "negotiation" / "prompts"))
    assert game.briefing("alice").startswith("Alice sells.\nIt is worth $10,000 to Bob.")
    assert game.observe().endswith("Your offer to Bob?")
    assert new("negotiation", 17, prompts=str(folder), messages=False).observe().endswith("A number.")
    game = new("persuasion", 17, prompts=str(folder), messages=True)
    assert "33.33% which Bob knows. 20. Bob buys." in game.briefing("alice") and game.observe().endswith("Tell Bob.")
    assert "asks $10,000 of Bob, the buyer; $20,000 or $0. In each of 20 rounds" in game.briefing("bob")
    assert "is over, you see." in game.briefing("bob")


ARIA = '''
import os
raise SystemExit("it must not be run")
INSTRUCT_BARGAIN_SYSTEM = """
{player_name} and {rival_name}: {money_to_divide}$. {inflation_message}
{max_rounds_message}
"""
INSTRUCT_NEGO_SELLER_SYSTEM = "Sell for ${self_final_value}; ${rival_value} to Bob."
INSTRUCT_NEGO_BUYER_SYSTEM = "Buy for ${self_final_value}."
'''


def aria_folder(tmp_path, content: str = ARIA):
    (tmp_path / "reward_aggregation").mkdir()
    (tmp_path / "reward_aggregation" / "prompt_base.py").write_text(content, encoding="utf-8")
    return tmp_path


def test_texts_in_the_shape_of_aria_are_filled_and_used_and_nothing_is_run(tmp_path):
    folder = aria_folder(tmp_path)
    game = new("bargaining", 3, prompts=str(folder))
    assert (
        game.briefing("bob").startswith("Bob and Alice: 100$. Mind inflation") and '"bob_gain": what' in game.observe()
    )
    game = new("negotiation", 3, prompts=str(folder / "reward_aggregation"))
    assert game.briefing("alice") == "Sell for $80; $150 to Bob." and game.briefing("bob") == "Buy for $150."


PLACES = re.compile(r"; known here: (\w+, )*\w+( and \d+ more)?$")  # whole words


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("bargaining", {"rules_prompt.txt": "{{b}}"}, "rules_prompt.txt: unknown place {{b}}; known here: add_"),
        ("bargaining", {"rules_prompt.txt": "{{b}}"}, PLACES),
        ("bargaining", {"offer_format.txt": None}, "offer_format.txt is missing"),
        ("bargaining", {"offer_format.txt": " \n"}, "offer_format.txt is empty"),
        ("bargaining", {"offer_format.txt": b"\xff\xfe\x00"}, "offer_format.txt cannot be read: 'utf-8' codec"),
        ("bargaining", {"offer_format.txt": "x" * 1_000_001}, "offer_format.txt is larger than 1,000,000 bytes"),
        ("negotiation", {"rules_prompt.json": "{"}, "rules_prompt.json is no JSON: Expecting property name"),
        ("negotiation", {"rules_prompt.json": '{"seller": "x"}'}, "rules_prompt.json has no text 'buyer'"),
        ("negotiation", {"offer_format.json": "[1]"}, "offer_format.json has no text 'seller'"),
        ("persuasion", {"format_prompt.json": '{"seller_text": 3}'}, "format_prompt.json has no text 'seller_text'"),
        ("persuasion", dict.fromkeys(("rules_prompt.json", "format_prompt.json")), "it holds none of the files"),
    ],
)  # fmt: skip
def test_a_copy_that_is_not_whole_is_one_line_that_says_what_is_wrong(tmp_path, name, change, told):
    folder = glee_folder(tmp_path) / "games" / name / "prompts"
    for file, content in change.items():
        if content is None:
            (folder / file).unlink()
        else:
            (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError) as refused:
        make_game(name, {"prompts": str(folder)})
    line = str(refused.value)
    assert line.startswith("game option prompts=") and "\n" not in line and len(line) < 400
    assert told in line if isinstance(told, str) else told.search(line), line


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("A = 1", "prompt_base.py has no text INSTRUCT_BARGAIN_SYSTEM"),
        ("def", "prompt_base.py is no Python: invalid syntax"),
        (
            'INSTRUCT_BARGAIN_SYSTEM = "{colour}"',
            "prompt_base.py, INSTRUCT_BARGAIN_SYSTEM: unknown place {colour}; known",
        ),
        ('INSTRUCT_BARGAIN_SYSTEM = "a" + "b"', "prompt_base.py has no text INSTRUCT_BARGAIN_SYSTEM"),
    ],
)
def test_a_file_of_aria_that_is_not_whole_is_one_line_too(tmp_path, content, told):
    with pytest.raises(ValueError, match="^game option prompts=") as refused:
        make_game("bargaining", {"prompts": str(aria_folder(tmp_path, content))})
    assert told in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("prompts", ["/no/such/folder", "", 3])
def test_a_folder_that_is_none(prompts):
    with pytest.raises(ValueError, match="^game option prompts=.*(no such folder|must be the path of a folder)$"):
        make_game("persuasion", {"prompts": prompts})


# the games of questions


@pytest.mark.parametrize(("name", "table"), [("twenty_questions", "full"), ("guess_my_city", "small")])
def test_a_guesser_is_told_neither_the_secrets_nor_the_turns_and_wins_as_ever(name, table, tmp_path):
    options = {"table": table, "turns": 20, "rules": "published"}
    told = new(name, 0, **options).briefing("guesser")
    assert "Question: <your question>" in told and not re.search(r"\d|paris|cat\b|guess,", told.lower())
    for seed in range(12):
        game, player = new(name, seed, **options), make_player(name, "expert", options)
        player.reset(seed)
        turns = finish(game, {"guesser": player})
        assert game.outcome() == {"guesser": 1.0}
        if name == "twenty_questions":
            known = set(" ".join(game.language()).split())
            assert {turn[1] for turn in turns[1:]} <= {"Yes.", "No.", "Invalid Question."}
            assert {word for turn in turns for word in turn[1].split()} <= known


@pytest.mark.parametrize(
    ("name", "constant"),
    [("twenty_questions", "INSTRUCTION_TWENTY_QUESTIONS"), ("guess_my_city", "INSTRUCTION_GUESS_MY_CITY")],
)
def test_guessers_are_told_a_users_copy(name, constant, tmp_path):
    folder = aria_folder(tmp_path, f'{constant} = """\nFind it.\n\n{{history}}\nAsk. """\n')
    game = make_game(name, {"prompts": str(folder)})
    assert game.briefing("guesser") == "Find it.\nAsk."
    (folder / "reward_aggregation" / "prompt_base.py").unlink()
    with pytest.raises(ValueError, match=f"it holds none of the files of {name}: prompt_base.py$"):
        make_game(name, {"prompts": f"{folder}/"})
