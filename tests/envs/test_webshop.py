"""WebShop: pages and clicks as published, on the shop of Parley's own."""

from __future__ import annotations

import pytest

from envs.registry import make_game, make_player
from envs.worlds.webshop.game import SEAT, WebShop, searched
from tests.support.shops import shop

INSTRUCTION = "i need a scarf that lasts"


def lasting(**options) -> WebShop:
    game = make_game("webshop", options)
    game.reset(0)
    return game


def said(game: WebShop, *utterances: str) -> str:
    for utterance in utterances:
        assert game.step(utterance).executable, utterance
    return game.observe()


@pytest.fixture(scope="module")
def thirteen(tmp_path_factory) -> str:
    """One lamp that is wanted, with two options that share a value, and twelve others."""
    folder = tmp_path_factory.mktemp("thirteen")
    options = {"Color": [{"value": "green"}, {"value": "olive"}], "Shade": [{"value": "olive"}, {"value": "buy now"}]}
    lamps = [{"asin": f"B00000000{number:X}", "customization_options": options} for number in range(1, 13)]
    wanted = {"instruction": INSTRUCTION, "instruction_attributes": ["dims"], "instruction_options": ["olive"]}
    return shop(folder, {"asin": "B000000000", "customization_options": options}, *lamps, said={"B000000000": [wanted]})


def test_pages_are_the_published_ones(thirteen):
    game = lasting(data=thirteen, split="all", attributes=True, turns=30)
    told = game.observe().split(" [SEP] ")
    assert told[:2] == ["WebShop", "Instruction:"] and told[3:] == ["Search"] and game.actions() == ()
    assert told[2].startswith(f"{INSTRUCTION}, and price lower than ")
    head = ["Instruction:", told[2], "Back to Search"]
    first = said(game, "search[lumo lamps]").split(" [SEP] ")
    assert first[:8] == [*head, "Page 1 (Total results: 13)", "Next >", "B000000000", "Lumo Desk Lamp", "$29.5"]
    assert len(first) == 5 + 10 * 3
    assert game.actions()[:3] == ("click[back to search]", "click[next >]", "click[b000000000]")
    second = said(game, "click[Next >]").split(" [SEP] ")
    assert second[3:7] == ["Page 2 (Total results: 13)", "< Prev", "Next >", "B00000000A"] and len(second) == 6 + 3 * 3
    third = said(game, "click[next >]").split(" [SEP] ")
    assert third[3:] == ["Page 3 (Total results: 13)", "< Prev", "Next >"], "there is always a next page"
    assert said(game, "click[< prev]").split(" [SEP] ") == second
    item = said(game, "click[< prev]", "click[b000000000]").split(" [SEP] ")
    assert item == [
        *head, "< Prev", "color", "green", "olive", "shade", "olive", "buy now", "Lumo Desk Lamp", "Price: $29.5",
        "Rating: N.A.", "Description", "Features", "Reviews", "Attributes", "Buy Now",
    ]  # fmt: skip
    for which, lines in (
        ("description", ["Light for late hours."]),
        ("features", ["Dims in three steps.", "Stands on wood."]),
        ("reviews", []),
        ("attributes", ["dimmable", "electronics", "desk lamp", "Home \u203a Lighting \u203a Lamps"]),
    ):
        assert said(game, f"click[{which}]").split(" [SEP] ") == [*head, "< Prev", *lines]
        assert game.actions() == ("click[back to search]", "click[< prev]")
        assert said(game, "click[< prev]").split(" [SEP] ") == item
    assert said(game, "click[< prev]").split(" [SEP] ") == first
    assert said(game, "click[back to search]").split(" [SEP] ") == told


def test_what_is_chosen_counts_until_one_goes_back_to_the_results(thirteen):
    """The price and the attribute match, and the option if it is chosen. A value of two options is the last one's."""
    options = {"data": thirteen, "split": "all", "view": "rich"}
    for ways, paid, shown in (
        (("click[olive]",), 1.0, "You have clicked olive."),
        (("click[olive]", "click[description]", "click[< prev]"), 1.0, "You have clicked olive."),
        (("click[olive]", "click[< prev]", "click[b000000000]"), 2 / 3, ""),
        (("click[green]",), 2 / 3, "You have clicked green."),
        (("click[green]", "click[olive]"), 1.0, "You have clicked olive.\nYou have clicked green."),
    ):
        game = lasting(**options)
        text = said(game, "search[lamp]", "click[b000000000]", *ways)
        assert set(text.partition("Instruction:")[0].strip().split("\n")) == set(shown.split("\n"))
        step = game.step("click[buy now]")
        assert step.terminated and step.rewards[SEAT] == pytest.approx(paid) == game.outcome()[SEAT]
        assert game.closing()[SEAT].endswith(f"{paid:.3f}") and game.facts()["wanted"].startswith(
            "B000000000, Lumo Desk"
        )
    assert "of 1 attributes and 1 of 1 options match, and the price fits" in step.caption


def test_success_is_a_reward_of_one_and_turns_end_a_game_with_nothing(thirteen):
    for ways, outcome in ((("click[olive]",), 1.0), ((), 0.0)):
        game = lasting(data=thirteen, split="all", pay="success")
        said(game, "search[lamp]", "click[b000000000]", *ways, "click[buy now]")
        assert game.outcome() == {SEAT: outcome}
    game = lasting(turns=2)
    said(game, "search[lamp]")
    assert game.step("search[scarf]").truncated and game.outcome() == {SEAT: 0.0} and game.closing() == {}
    assert game.facts()["type"] == "nothing bought"


def test_only_what_stands_on_the_page_can_be_clicked(thirteen):
    game = lasting(data=thirteen, split="all")
    for nothing in ("click[search]", "click[buy now]", "click[b000000000]", "search[]", "search", "buy now", "lamp"):
        assert not game.step(nothing).executable, nothing
    assert "Page 1" in said(game, "Action: search[lamp].") and not game.step("click[b00000000c]").executable
    assert "Price" in said(game, "I will open it.\n\nclick[B000000003]")
    assert "Page 1" in said(game, "search[lamp]"), "a search works on every page"


@pytest.mark.parametrize(
    ("utterance", "words"),
    [
        ("search[Red Scarf]", "red scarf"),
        ("Thought: first the kind.\nAction: search[red scarf]", "red scarf"),
        ("**Action:** search[scarf [long]]", "scarf [long]"),
        ("I will search[scarf].", "scarf"),
        ("search[a]\nsearch[b]", ""),
        ("I could say search[a] or not", ""),
        ("research[a]", ""),
    ],
)
def test_searches_are_read_in_the_published_form(utterance, words):
    assert searched(utterance) == words


def test_listed_searches_are_those_of_the_published_baselines():
    game = lasting(searches="listed", split="test", menu=True)
    instruction = game.observe().split(" [SEP] ")[2]
    query = game.actions()[0].removeprefix("search[").removesuffix("]")
    assert query in instruction and game.actions()[-1] == f"search[{instruction.lower()}]" and len(game.actions()) > 2
    assert all(query in each for each in game.actions()) and f"You can: search[{query}]; " in game.observe()


def test_players_are_as_strong_as_they_say():
    def score(name: str, **options) -> float:
        game, player = make_game("webshop", {"split": "all", **options}), make_player("webshop", name, options)
        total = 0.0
        for seed in range(40):
            game.reset(seed)
            player.reset(seed)
            while game.seat is not None:
                game.step(player.reply(game.observe(), game.actions()))
            total += game.outcome()[SEAT] / 40
        return total

    assert (
        score("oracle")
        == pytest.approx(1)
        == score("oracle", goals="synthetic", view="rich", searches="listed", menu=True)
    )
    reader, mediocre, rule, random = map(score, ("reader", "mediocre", "rule", "random"))
    assert reader > 0.8 > mediocre > 0.45 and 0.7 > rule > random < 0.25


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"data": 3}, "game option data=3 must be a folder with WebShop's files, or 'tiny'"),
        ({"products": 0}, "game option products=0 must be a whole number"),
        ({"split": "eval"}, "game option split='eval' must be one of: train, dev, test, all"),
        ({"goals": "all"}, "game option goals='all' must be one of: human, synthetic"),
    ],
)
def test_bad_options_are_named(options, line):
    with pytest.raises(ValueError) as caught:
        make_game("webshop", options)
    assert str(caught.value).startswith(line) and "\n" not in str(caught.value)
