"""WebShop's files: read piece by piece, kept by their digest, and one line where they are missing or damaged."""

from __future__ import annotations

import json
import random
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from envs.registry import make_game
from envs.worlds.webshop import files, shop
from envs.worlds.webshop.files import ShopData, by_product, files_in, listed
from envs.worlds.webshop.goals import bound_of
from envs.worlds.webshop.products import Product
from tests.support.shops import SAID, TOLD
from tests.support.shops import shop as made

TINY = files_in("tiny")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "cache"))
    shop._shop.cache_clear()
    return tmp_path / "cache" / "webshop"


def opened(folder: Path, *products: dict, goals: str = "human", most: int | None = None, **told) -> shop.Shop:
    return shop.shop_of(made(folder, *products, **told), most, goals)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_files_are_read_piece_by_piece(chunk, monkeypatch, tmp_path):
    monkeypatch.setattr(files, "CHUNK", chunk)
    assert list(listed(TINY.products)) == json.loads(TINY.products.read_text(encoding="utf-8"))
    assert dict(by_product(TINY.human)) == json.loads(TINY.human.read_text(encoding="utf-8"))
    (tmp_path / "empty.json").write_text(" [ ] ")
    assert list(listed(tmp_path / "empty.json")) == []


def test_a_product_is_what_webshop_makes_of_it(tmp_path):
    found = opened(
        tmp_path,
        {},
        {"asin": "nan"},
        {"asin": "B0000000012"},  # eleven characters
        {"name": "Another of the same number"},
        {"asin": "B000000002", "pricing": "$10.00$20.00$30", "small_description": "One.", "customization_options": ""},
        {"asin": "B000000003", "pricing": None},
    ).products
    assert len(found) == 3 and found.number_of("B000000003") == 2 and found.number_of("B000000004") is None
    assert found[0] == Product(
        asin="B000000001",
        title="Lumo Desk Lamp",
        category="electronics",
        query="desk lamp",
        product_category="Home \u203a Lighting \u203a Lamps",
        description="Light for late hours.",
        bullets=["Dims in three steps.", "Stands on wood."],
        tag="$29.5",
        price=29.5,
        options={"color": ["red | blue", "green"]},
        attributes=["dimmable"],
        instruction="find me a lamp",
        instruction_attributes=["dimmable"],
    )
    searched = "lumo desk lamp light for late hours. dims in three steps. color: red | blue, green"
    assert found[0].searched == searched
    assert found[1].tag == "$10.0 to $20.0" and 10 < found[1].price < 20 and found[1].bullets == ["One."]
    assert found[1].attributes == ["DUMMY_ATTR"] and found[1].choices == 0
    assert (found[2].tag, found[2].price) == ("$100.0", 100.0)


def test_goals_are_shuffled_as_published():
    """Python's own generator, seeded with 233 once all goals are there."""
    asins = [each["asin"] for each in json.loads(TINY.products.read_text(encoding="utf-8"))]
    human = json.loads(TINY.human.read_text(encoding="utf-8"))
    published = [(asin, each["instruction"].strip(".")) for asin in asins for each in human[asin]]
    random.seed(233)
    random.shuffle(published)
    goals = shop.shop_of("tiny", None, "human").goals
    assert [
        (goal.asin, goal.instruction.partition(", and price")[0]) for goal in map(goals.__getitem__, range(160))
    ] == published
    assert [goals.of(split) for split in ("test", "dev", "train")] == [range(40), range(40, 80), range(80, 160)]
    assert goals.told(goals[77].instruction) == goals[77]


def test_splits_are_the_published_ones_where_there_are_enough_goals(tmp_path):
    many = opened(tmp_path, {}, said={"B000000001": [SAID] * 4000, "B0UNKNOWN0": [SAID]}).goals
    assert [many.of(split) for split in ("test", "dev", "train", "all")] == [
        range(500), range(500, 1500), range(1500, 4000), range(4000),
    ]  # fmt: skip


def test_synthetic_goals_are_all_choices_of_all_options(tmp_path):
    options = {"Size": [{"value": "small"}, {"value": "tall"}], "Color": [{"value": "Red"}, {"value": "dark red"}]}
    goals = opened(tmp_path, {"customization_options": options}, {"asin": "B000000002"}, goals="synthetic").goals
    found = {goal.instruction.partition(", and price")[0]: goal for goal in map(goals.__getitem__, range(len(goals)))}
    assert sorted(found) == [
        f"find me a lamp with color: {color}, and size: {size}"
        for color in ("dark red", "red")
        for size in ("small", "tall")
    ]
    goal = found["find me a lamp with color: red, and size: tall"]
    assert goal.options == ("red", "size tall") and goal.attributes == ("dimmable",) and goal.named_options
    said = SAID | {"instruction_options": {"color": "red", "size": "tall"}}
    human = opened(tmp_path, {}, said={"B000000001": [said]}).goals[0]
    assert (human.options, human.named_options) == (goal.options, True), "people's may be named, too"


def test_goals_beyond_memory_are_refused(tmp_path):
    options = {name: [{"value": str(value)} for value in range(999)] for name in "abcd"}
    with pytest.raises(
        ValueError, match="goals='synthetic': more than 200000000 goals; use fewer products=, the first"
    ):
        opened(tmp_path, {"customization_options": options}, goals="synthetic")


def test_the_bound_of_a_price_is_the_greater_of_two_of_the_next_four_tens():
    assert {bound_of(29.5, str(each))[0] for each in range(99)} == {40.0, 50.0, 60.0}
    assert bound_of(30.0, "x")[0] in (50, 60, 70), "above, not at it"
    assert bound_of(975.0, "x") == (990.0, ", and price lower than 990.00 dollars")
    assert bound_of(980.0, "x") == (1_000_000.0, "") == bound_of(5000.0, "x")


def test_an_index_is_made_once_for_the_same_data(tmp_path, cache, monkeypatch):
    opened(tmp_path, {}, {"asin": "B000000002"})
    (first,) = (each for each in cache.iterdir() if each.is_dir())
    shop._shop.cache_clear()
    monkeypatch.setattr(shop, "write_index", None)  # must not be asked again
    assert len(opened(tmp_path, {}, {"asin": "B000000002"}).products) == 2
    monkeypatch.undo()
    monkeypatch.setenv("PARLEY_CACHE", str(cache.parent))
    shop._shop.cache_clear()
    assert len(opened(tmp_path, {}, {"asin": "B000000002"}, most=1).products) == 1
    shop._shop.cache_clear()
    assert opened(tmp_path, {"name": "New Lamp"}).products[0].title == "New Lamp"
    assert len([each for each in cache.iterdir() if each.is_dir()]) == 3 and first.is_dir()


def test_waiting_for_another_process_has_an_end(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(shop, "PATIENCE", 0.0)
    files = files_in(made(tmp_path, {}))
    cache.mkdir(parents=True)
    name = f"{shop.digest_of(*files[:2])[:32]}-all-{shop.FORMAT}"
    with (cache / f"{name}.lock").open("w") as held:
        flock(held, LOCK_EX)
        with pytest.raises(ShopData, match=f"another process has not finished {name} in 0 s"):
            shop.shop_of(str(tmp_path), None, "human")


MISSING = "is not there: download it from https://drive.google.com/uc?id="


def test_missing_files_are_one_line_that_says_what_to_download(tmp_path):
    for name, place in (
        ("items_human_ins", "14Kb5SPBk_j"),
        ("items_ins_v2_1000", "1IduG0xl"),
        ("items_shuffle_1000", "1EgHdx"),
    ):
        made(tmp_path, {}, size="_1000")
        (tmp_path / f"{name}.json").unlink()
        with pytest.raises(ValueError) as caught:
            make_game("webshop", {"data": str(tmp_path)})
        line = str(caught.value)
        assert f"{name}.json {MISSING}{place}" in line and line.endswith("name its folder in game.options.data")
        assert "\n" not in line and len(line) < 300 + len(str(tmp_path))
    (tmp_path / "items_shuffle.json").write_text("[]")
    with pytest.raises(ValueError, match="items_ins_v2.json is not there"):  # that of all products
        make_game("webshop", {"data": str(tmp_path)})


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("items_shuffle", "[", "at character 1"),
        ("items_shuffle", "[]", "it has no product"),
        ("items_shuffle", '{"a": 1}', r"no \[ at character 0"),
        ("items_shuffle", '[{"asin": "B01"}]', "product 0 has no usable '"),
        ("items_shuffle", "[3]", "its element 0 is no product"),
        ("items_shuffle", '[{"asin": "B01"', "at character 1"),
        ("items_shuffle", b"[\xff]", "no UTF-8 after character 0"),
        ("items_ins_v2", '{"B01": []}', "what it tells of 'B01' is no object"),
        ("items_ins_v2", '{"B01": {}', "at character 8"),
        ("items_human_ins", '{"B01": [{"instruction": "x"}]}', "an instruction for 'B01' has no usable 'instr"),
        ("items_human_ins", "<html>Too many downloads</html>", "no { at character 0"),
    ],
)
def test_damaged_files_are_one_line_that_names_them(name, content, says, tmp_path):
    folder = made(tmp_path, {})
    path = tmp_path / f"{name}.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        ValueError, match=f"{name}.json is damaged, .*{says}.*: download it again from https://drive"
    ) as caught:
        make_game("webshop", {"data": folder})
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(folder)


def test_a_shop_without_goals_or_a_place_for_its_index_says_so(tmp_path, monkeypatch):
    folder = made(tmp_path, {}, told={"B000000001": TOLD | {"instruction": None}}, said={})
    for goals in ("human", "synthetic"):
        with pytest.raises(ValueError, match=f"^game option goals='{goals}': none of the 1 products has such a goal"):
            make_game("webshop", {"data": folder, "goals": goals})
    with pytest.raises(ValueError, match="^game option split='test': there are only 1 goals; take split=all"):
        make_game("webshop", {"data": made(tmp_path, {}), "split": "test"})
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "file"))
    shop._shop.cache_clear()
    with pytest.raises(ValueError, match="cannot be kept in .*: name another PARLEY_CACHE"):
        make_game("webshop", {"data": folder})
