"""Recipes: what is read, what is merged, and that each mistake is one line naming its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import ConfigError
from cluster.recipe.fields import dotted_fields
from cluster.recipe.plain_yaml import read_yaml
from cluster.recipe.reading import load_recipe, to_yaml

FOLDER = Path(__file__).parents[2] / "recipes"


def refused(*overrides: str, path: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, overrides)
    message = str(caught.value)
    assert "\n" not in message and caught.value.exit_code == 2
    return message


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["rollout.workrs=2"], "command line: rollout.workrs: unknown key; did you mean rollout.workers?"),
        (["workers=2"], "command line: workers: unknown key; did you mean rollout.workers?"),
        (["learner.lr=1e-3"], "command line: learner.lr: unknown key; did you mean learner.learning_rate?"),
        (["lora.rank=2"], "command line: lora: unknown key; did you mean learner.lora?"),
        (["updates=abc"], "command line: updates: should be a whole number, not 'abc'"),
        (["updates=1.5"], "command line: updates: should be a whole number, not 1.5"),
        (["updates="], "command line: updates: should be a whole number, not nothing"),
        (["updates=true"], "command line: updates: should be a number, not true"),
        (["updates='10'"], "command line: updates: should be a number, not the text '10'"),
        (
            ["learner.learning_rate='3e-4'"],
            "command line: learner.learning_rate: should be a number, not the text '3e-4'",
        ),
        (["learner.zero=true"], "command line: learner.zero: should be a number, not true"),
        (["learner.zero=4"], "command line: learner.zero: 4 is not one of 0, 1, 2, 3"),
        (["learner.learning_rate=-1"], "command line: learner.learning_rate: should be greater than 0, not -1"),
        (["learner.learning_rate=.inf"], "command line: learner.learning_rate: should be a finite number, not inf"),
        (["rollout=3"], "command line: rollout: should be a mapping of keys to values, not 3"),
        (["learner.lora.targets=q"], "command line: learner.lora.targets: should be a list, not 'q'"),
        (
            ["learner.lora.targets=[q_proj]"],
            "command line: learner.lora: rank=0 trains all weights and does not read targets=['q_proj']: set rank",
        ),
        (["rollout.endpoints={a: {url: x}}"], "command line: rollout.endpoints.a.model: has to be given"),
        (["name=a/b"], "command line: name: 'a/b' does not fit ^[A-Za-z0-9][A-Za-z0-9._-]*$"),
        (
            ["rollout.workers=100000000"],
            "command line: rollout.workers: should be less than or equal to 10000, not 100000000",
        ),
        (["rollout.workers=true"], "command line: rollout.workers: should be a number, not true"),
        (["rollout.workers=two"], "command line: rollout.workers: should be a whole number, not 'two'"),
        (["rollout.workers.least=2"], "rollout.workers.most: has to be given"),
        (
            ["rollout.workers.least=4", "rollout.workers.most=2"],
            "command line: rollout.workers: least=4 is more than most=2",
        ),
        (["rollout.workers.most='4'"], "command line: rollout.workers.most: should be a number, not the text '4'"),
        (
            ["rollout.workers.lest=1", "rollout.workers.most=2"],
            "command line: rollout.workers.lest: unknown key; did you mean rollout.workers.least?",
        ),
        (
            ["rollout.workers={least: 1, most: 2}", "rollout.share_cards=true"],
            "command line: rollout: share_cards=true takes a fixed number of workers, not 1 to 2",
        ),
        (
            ["batch_episodes=1" + "0" * 24],
            "command line: batch_episodes: should be less than or equal to 1000000, not 1" + "0" * 24,
        ),
        ([f"evaluation.seed={2**63}"], f"command line: evaluation.seed: should be less than 2147483648, not {2**63}"),
        ([f"seed={10**26}"], "command line: seed: should be less than 2147483648, not 1" + "0" * 26),
        (["learner.betas=[0.9, 1.5]"], "command line: learner.betas.1: should be less than 1, not 1.5"),
        (["evaluation.seed=5"], "command line: evaluation.seed: should be greater than or equal to 1000000, not 5"),
        (["x"], "command line: 'x' is neither key=value (for example rollout.workers=2) nor a recipe"),
        (["a..b=1"], "command line: 'a..b=1' is neither key=value (for example rollout.workers=2) nor a recipe"),
        (["updates=x", "seed=y"], "command line: seed: should be a whole number, not 'y' (and 1 more)"),
        (
            ["batch_episodes=1", "learner.ranks=2"],
            "batch_episodes=1 is smaller than learner.ranks=2: every rank needs an episode",
        ),
        (["game.name=twenty_question"], "game.name: unknown game 'twenty_question'; did you mean twenty_questions?"),
        (
            ["game.options.turn=4"],
            "game.options.turn: twenty_questions has no such option; did you mean turns?",
        ),
        (
            ["game.players.gueser=policy"],
            "game.players.gueser: twenty_questions has no such seat; its seats: guesser",
        ),
        (
            ["game.players.guesser=frozen:old"],
            "game.players.guesser: no frozen player 'old'; rollout.frozen has: none",
        ),
        (["model.path=./nowhere"], "model.path: no model folder at './nowhere'"),
        (["model.path=a/b/c"], "model.path: no model folder at 'a/b/c'"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(overrides, line):
    assert refused(*overrides) == line


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["learner.sync.transport=adapter"], "learner.lora.rank"),
        (["learner.sync.transport=nccl", "rollout.gpus_per_worker=0"], "gpus_per_worker"),
        (["learner.lora.rank=8", "learner.sync.transport=shared_memory"], "learner.sync.transport"),
        (["learner.credit.baseline=leave_one_out", "batch_episodes=1"], "batch_episodes"),
        (["rollout.engine.max_sequences=100", "rollout.engine.max_batched_tokens=64"], "max_batched_tokens=64"),
        (["rollout.max_utterance_tokens=1024"], "rollout.engine.max_context"),
        (["learner.offload_optimizer=true", "learner.zero=0"], "learner.zero"),
        (["learner.offload_parameters=true", "learner.zero=2"], "learner.offload_parameters needs learner.zero=3"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(overrides, key):
    assert key in refused(*overrides)


def test_a_number_in_yaml_is_what_it_looks_like():
    read = {text: read_yaml(text) for text in ("3e-4", "1e3", "-.5", "1_000", "0x10", "true", "null", "")}
    assert read == {
        "3e-4": 0.0003, "1e3": 1000.0, "-.5": -0.5, "1_000": 1000, "0x10": 16, "true": True, "null": None, "": None
    }  # fmt: skip
    assert {type(value) for text, value in read.items() if text in ("3e-4", "1e3")} == {float}
    for text in ("010", "1:30", "no", "off", "2024-01-01", "1e5f3"):
        assert read_yaml(text) == text


def test_aliases_that_stand_for_very_much_are_refused_at_once(tmp_path):
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    recipe = tmp_path / "r.yaml"
    recipe.write_text("\n".join(laughs))
    with pytest.raises(ConfigError, match=r"not YAML: its aliases \(\*name\) stand for more than 100,000 values"):
        load_recipe(recipe)
    recipe.write_text("game: &a {options: *a}")
    with pytest.raises(ConfigError, match="stand for more than"):
        load_recipe(recipe)
    assert read_yaml("a: &x [1, 2]\nb: *x") == {"a": [1, 2], "b": [1, 2]}


def test_overrides_are_yaml_and_win(tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("updates: 5\nlearner: {learning_rate: 1e-3, betas: [0.8, 0.9]}\n")
    config = load_recipe(
        recipe, ["learner.learning_rate=3e-4", "learner.lora={rank: 4, targets: [q_proj]}", "updates=7"]
    )
    assert config.learner.learning_rate == 3e-4
    assert config.learner.betas == (0.8, 0.9)
    assert (config.learner.lora.rank, config.learner.lora.targets, config.learner.lora.alpha) == (4, ["q_proj"], 16.0)
    assert config.updates == 7


def test_one_gamma_over_a_config_in_which_every_part_has_its_own_is_refused(tmp_path):
    """A run writes every part's: another one for all of them would change nothing."""
    written = tmp_path / "config.yaml"
    written.write_text(to_yaml(load_recipe("recipes/games/bargaining.yaml", ["reward.shaper=aria", "gamma=0.9"])))
    say = "learner.credit.gamma=0.8 reward.shaper.intentions.aggregate.gamma=0.8"
    assert f"gamma=0.8: every part has its own here; say {say}" in refused("gamma=0.8", path=written)
    assert load_recipe(written, ["gamma=0.8", "learner.credit.gamma=0.8"]).learner.credit.gamma == 0.8
    assert load_recipe(written, ["gamma=0.9"]).reward.shaper.intentions.aggregate.gamma == 0.9
    config = load_recipe("recipes/games/bargaining.yaml", ["gamma=0.8", "learner.credit.gamma=1"])
    assert (config.gamma, config.learner.credit.gamma) == (0.8, 1.0)


def test_a_base_is_read_relative_to_its_recipe_and_merged_below_it(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.yaml").write_text("updates: 3\nseed: 4\ngame: {options: {turns: 4}}\n")
    (tmp_path / "sub" / "r.yaml").write_text("base: ../base.yaml\nseed: 5\n")
    config = load_recipe(tmp_path / "sub" / "r.yaml")
    assert (config.updates, config.seed, config.game.options) == (3, 5, {"turns": 4})
    assert load_recipe(tmp_path / "sub" / "r.yaml", ["game.options={}"]).game.options == {}


def test_a_base_that_leads_back_to_itself_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    assert "is its own base" in refused(path=tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("updates: 3\nupdates: 4\n", "line 2, column 1: key 'updates' is given twice"),
        ("updates: [1\n", "line 2, column 1"),
        ("- updates\n", "a recipe is a mapping of keys to values, not a list"),
        ("1: 2\n", "a key should be text, not 1"),
        ("rollout:\n  workrs: 2\n", "rollout.workrs: unknown key; did you mean rollout.workers?"),
    ],
)
def test_a_recipe_that_cannot_be_read_says_where(tmp_path, text, part):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    message = refused(path=path)
    assert message.startswith(str(path)) and part in message


def test_a_recipe_that_is_not_there_suggests_a_neighbour(tmp_path):
    (tmp_path / "demo.yaml").write_text("")
    message = refused(path=tmp_path / "demoo.yaml")
    assert "does not exist" in message and message.endswith(f"did you mean {tmp_path / 'demo.yaml'}?")


def test_a_folder_without_a_model_is_refused_and_one_with_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy").mkdir()
    assert refused("model.path=policy") == "model.path: folder 'policy' holds no model (no config.json)"
    Path("policy/config.json").write_text("{}")
    assert load_recipe(None, ["model.path=policy"]).model.path == str(tmp_path / "policy")
    assert load_recipe(None, ["model.path=Qwen/Qwen3-0.6B"]).model.path == "Qwen/Qwen3-0.6B"


def test_a_file_that_a_game_is_given_is_found_from_everywhere(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sums.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n' * 20)
    monkeypatch.chdir(tmp_path)
    asked = ["game.name=dataset", "game.options.tasks=data/sums.jsonl"]
    config = load_recipe(None, asked)
    assert config.game.options["tasks"] == str(tmp_path / "data" / "sums.jsonl")
    monkeypatch.chdir(tmp_path / "data")
    found = load_recipe(None, ["game.name=dataset", "game.options={tasks: sums.jsonl, question: question}"])
    assert found.game.options == {"tasks": str(tmp_path / "data" / "sums.jsonl"), "question": "question"}
    job = tmp_path / "working_dir_files" / "_ray_pkg_1"
    (job / "data").mkdir(parents=True)
    (job / "data" / "sums.jsonl").write_text((tmp_path / "data" / "sums.jsonl").read_text())
    monkeypatch.chdir(job)
    assert load_recipe(None, asked).game.options["tasks"] == "data/sums.jsonl", "the next job has another folder"


def test_the_resolved_config_reads_back_equal(tmp_path):
    config = load_recipe(None, ["learner.betas=[0.5, 0.75]", "game.options={turns: 3}", "name='7'"])
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config))
    assert load_recipe(path) == config


def test_layers_lie_over_the_recipe_from_left_to_right(tmp_path):
    over, more = tmp_path / "over.yaml", tmp_path / "more.yml"
    over.write_text("seed: 3\nlearner: {epochs: 2, gradient_clip: 0.5}\n")
    more.write_text("base: over.yaml\nlearner: {epochs: 3}\n")
    config = load_recipe(FOLDER / "demo.yaml", ["learner.gradient_clip=0.25", str(over), "seed=4"])
    assert (config.seed, config.learner.epochs, config.learner.gradient_clip) == (4, 2, 0.5)
    assert config.game == load_recipe(FOLDER / "demo.yaml").game
    assert load_recipe(None, [str(over), str(more)]).learner.epochs == 3
    # a mistake is reported where it was made
    over.write_text("learner: {epochz: 2}\n")
    assert refused(str(over)) == f"{over}: learner.epochz: unknown key; did you mean learner.epochs?"
    over.write_text("learner: {epochs: 0}\n")
    assert refused(str(over), "learner.minibatches=2").startswith(f"{over}: learner.epochs: ")
    assert refused(str(over), "learner.epochs=-1").startswith("command line: learner.epochs: ")
    assert "does not exist" in refused(str(tmp_path / "nowhere.yaml"))


def test_every_setting_says_what_it_means():
    fields = list(dotted_fields())
    assert len(fields) > 70
    assert [key for key, _, text in fields if not text] == []
    assert ("learner.learning_rate", "0.0003", "AdamW step size") in fields


def test_an_annotating_rule_is_the_games_own():
    with pytest.raises(ConfigError, match="reward.shaper.annotator=rule: bargaining has no rule `helpful`"):
        load_recipe(None, ["reward.shaper=oni", "game.name=bargaining"])
    load_recipe(None, ["reward.shaper=oni", "game.name=virtualhome"])


def test_a_rise_of_the_right_answer_is_paid_only_where_it_is_asked_for():
    with pytest.raises(ConfigError, match="reward.shaper=igpo pays by .* only with rollout.score_answers=true"):
        load_recipe(None, ["reward.shaper=igpo"])
    with pytest.raises(ConfigError, match="rollout.score_answers: bargaining does not say what would have been right"):
        load_recipe(None, ["rollout.score_answers=true", "game.name=bargaining"])
    for game in ("twenty_questions", "wordle"):
        load_recipe(None, ["reward.shaper=igpo", "rollout.score_answers=true", f"game.name={game}"])


def test_a_charge_for_length_fits_where_utterances_are_cut():
    overlong = "learner.credit.overlong={limit: 32, buffer: 8}"
    with pytest.raises(ConfigError, match="limit=32 is not rollout.max_utterance_tokens=64, where utterances are cut"):
        load_recipe(None, [overlong])
    assert load_recipe(None, [overlong, "rollout.max_utterance_tokens=32"]).learner.credit.overlong.buffer == 8
    with pytest.raises(ConfigError, match="gives advantages, so learner.credit.overlong, which is a reward, is paid"):
        load_recipe(None, [overlong, "rollout.max_utterance_tokens=32", "reward.shaper=aria"])


def test_credit_that_clashes_with_the_rest_is_refused():
    with pytest.raises(ConfigError, match="learner.credit.method=twosome trains a choice among listed actions"):
        load_recipe(None, ["learner.credit.method=twosome"])
    for shaper in ("aria", "aria_rm", "regressed"):
        with pytest.raises(ConfigError, match=f"reward.shaper={shaper} gives advantages"):
            load_recipe(None, ["learner.credit.method=poad", f"reward.shaper={shaper}"])
    with pytest.raises(ConfigError, match="goes with .*=reinforce, or with reward.shaper.gives=outcome"):
        load_recipe(None, ["learner.credit.method=poad", "reward.shaper=regressed"])
    load_recipe(None, ["learner.credit.method=poad", "reward.shaper=regressed", "reward.shaper.gives=outcome"])


def test_a_range_of_workers_is_read_written_and_replaced(tmp_path):
    few = load_recipe(None, ["rollout.workers.least=2", "rollout.workers.most=4"])
    recipe = tmp_path / "few.yaml"
    recipe.write_text(to_yaml(few))
    assert load_recipe(recipe) == few and (few.rollout.least_workers, few.rollout.most_workers) == (2, 4)
    fixed = load_recipe(recipe, ["rollout.workers=3"]).rollout
    assert (fixed.workers, fixed.least_workers, fixed.most_workers) == (3, 3, 3)
    recipe.write_text(to_yaml(load_recipe(None, ["rollout.workers=3"])))
    assert load_recipe(recipe, ["rollout.workers.most=5"]).rollout.workers_in_words == "1 to 5 workers"
    assert few.what_is_computed() == load_recipe(None).what_is_computed()


def test_a_setting_says_which_words_it_takes():
    meaning = {key: text for key, _, text in dotted_fields()}
    assert meaning["learner.schedule"].endswith("(constant, linear, cosine)")
    assert meaning["learner.credit.baseline"].endswith("(none, batch, turn, leave_one_out, running)")
