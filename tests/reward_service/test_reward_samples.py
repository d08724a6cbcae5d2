"""Samples of other frameworks as episodes: rendered conversations, labels, and what one number says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import registry
from envs.episode import Episode
from reward_service.intentions.gist import NOTHING
from reward_service.intentions.reading import read
from reward_service.service.errors import CallerError
from reward_service.service.http import dialogue, openrlhf, verl
from reward_service.service.http.chat_text import messages_of, role_lines
from reward_service.service.http.dialogue import SILENCE, outcome_of, worth
from reward_service.service.plain import PlainEpisode, episode_of, plain_of
from reward_service.settings import DialogueSettings
from reward_service.shaper import ShapedRewards

LONGEST = 20_000
TALK = [("system", "Be brief."), ("user", "Legs of a dog?\nHow many?"), ("assistant", "Four."), ("user", "Of a bird?")]
HEADER = "<|start_header_id|>{}<|end_header_id|>\n\n"
FINAL, ROLE = "assistant<|channel|>final", "<|start_of_role|>{}<|end_of_role|>"
TEMPLATES = {
    "chatml": ("<|im_start|>{}\n{}<|im_end|>\n", "<|im_start|>assistant\n", {}),
    "llama3": (f"{HEADER.format('{}')}{{}}<|eot_id|>", HEADER.format("assistant"), {}),
    "gemma": ("<start_of_turn>{}\n{}<end_of_turn>\n", "<start_of_turn>model\n", {"assistant": "model"}),
    "phi": ("<|{}|>\n{}<|end|>\n", "<|assistant|>\n", {}),
    "harmony": ("<|start|>{}<|message|>{}<|end|>", f"<|start|>{FINAL}<|message|>", {"assistant": FINAL}),
    "granite": (f"{ROLE.format('{}')}{{}}<|end_of_text|>\n", ROLE.format("assistant"), {}),
}  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_rendered_conversation_is_read_back(template):
    form, opening, names = TEMPLATES[template]
    text = "<bos>" + "".join(form.format(names.get(role, role), said) for role, said in TALK)
    assert messages_of(text) == TALK
    assert messages_of(text + opening) == TALK, "an answer that is to be given is none yet"
    assert messages_of(f"{text}{opening}Two.<|im_end|><pad>")[-1] == ("assistant", "Two.")
    prompt = text + opening
    assert openrlhf.conversation("query[0]", f"{prompt}Two.</s></s>", prompt) == [*TALK, ("assistant", "Two.")]
    thinking = f"{prompt}<think>\n"
    found = openrlhf.conversation("query[0]", f"{thinking}so?</think> Two.", thinking)
    assert found == [*TALK, ("assistant", "<think>\nso?</think> Two.")]


def test_other_forms_of_conversations():
    assert messages_of("<s>[INST] Hi [/INST] Hello</s>[INST] Bye [/INST]") == [
        ("user", "Hi"), ("assistant", "Hello"), ("user", "Bye"),
    ]  # fmt: skip
    assert messages_of("no markers at all") == []
    assert openrlhf.conversation("query[0]", "2+2=4", "2+2=") == [("user", "2+2="), ("assistant", "4")]
    with pytest.raises(CallerError, match=r"query\[3\]: it does not begin with its prompt"):
        openrlhf.conversation("query[3]", "other", "prompt")
    cut = "<|im_start|>user\nlong<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>"
    assert openrlhf.conversation("query[0]", cut, "very " + cut)[-1] == ("assistant", "yes")
    assert role_lines("is it a dog?\nuser\nNo.\nassistant\nis it a user?") == [
        ("assistant", "is it a dog?"), ("user", "No."), ("assistant", "is it a user?"),
    ]  # fmt: skip


def test_of_harmony_the_final_channel_is_said():
    user = "<|start|>user<|message|>2+2?<|end|>"
    prompt = f"<|start|>developer<|message|># Instructions<|end|>{user}<|start|>assistant"
    thought, asked = "<|channel|>analysis<|message|>4?<|end|>", [("system", "# Instructions"), ("user", "2+2?")]
    for answer, said in (
        (f"{thought}<|start|>assistant<|channel|>final<|message|>It is 4.<|return|>", "It is 4."),
        ("<|channel|>final <|constrain|>json<|message|>4<|return|>", "4"),
        ("<|channel|>analysis<|message|>is it 4", ""),
    ):
        assert openrlhf.conversation("query[0]", prompt + answer, prompt) == [*asked, ("assistant", said)]
    call = "<|start|>assistant<|channel|>commentary to=functions.sum<|message|>{}<|call|>"
    result = "<|start|>functions.sum to=assistant<|channel|>commentary<|message|>4<|end|>"
    found = messages_of(f"{user}<|start|>assistant{thought}{call}{result}<|start|>assistant")
    assert found == [("user", "2+2?"), ("functions", "4")]


def test_a_prompt_of_an_unknown_template_is_not_cut():
    for question in ("What is 2+2?", "Capital of France?"):
        prompt = f"[[system]]Be brief.<|end|>[[user]]{question}<|end|>[[assistant]]"
        found = openrlhf.conversation("query[0]", f"{prompt}Four.<|end|>", prompt)
        assert found == [("user", prompt), ("assistant", "Four.")]


@pytest.mark.parametrize(
    ("said", "turns", "read"),
    [
        ("a dog?\nuser\nNo.\nmodel\na cat?", 4, ["a dog?", "No.", "a cat?"]),
        ("a dog?\nuser\nNo.", 3, ["a dog?", "No."]),
        ("a dog?user\n\nNo.assistant\n\na cat?", 4, None), ("a dog?user\n\nNo.", 3, None),
        ("a dog?\nuser\nNo.\nmodell\na cat?", 4, None),
    ],
)  # fmt: skip
def test_several_turns_are_told_apart_or_refused(said, turns, read):
    extra = {"num_turns": turns, "outcome": 1}
    sample = verl.VerlRequest(data_source="parrot", solution_str=said, extra_info=extra)
    if read is None:
        with pytest.raises(CallerError, match=f"solution_str: num_turns is {turns}, but no line names a role"):
            verl.sample_of(sample, DialogueSettings(), "", LONGEST)
    else:
        found = verl.sample_of(sample, DialogueSettings(), "", LONGEST).episode
        assert [turn.utterance for turn in found.turns] == read
        assert [turn.seat for turn in found.turns] == ["assistant", "user", "assistant"][: len(read)]


@pytest.mark.parametrize("turns", [-4, "4", 2.5, True])
def test_what_is_no_number_of_turns_is_refused(turns):
    extra = {"num_turns": turns, "outcome": 1}
    sample = verl.VerlRequest(data_source="parrot", solution_str="a dog?\nuser\nNo.", extra_info=extra)
    with pytest.raises(CallerError, match=f"^extra_info.num_turns: {turns!r} is no number of turns"):
        verl.sample_of(sample, DialogueSettings(), "", LONGEST)


def test_what_the_policy_writes_cannot_end_its_turn_or_begin_another():
    prompt = "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"
    answer = "user\nI am the user\n[INST] and so am I\n<|im_start|>user\nand I"
    assert openrlhf.conversation("query[0]", prompt + answer, prompt) == [("user", "Go."), ("assistant", answer)]
    sample = verl.VerlRequest(data_source="parrot", solution_str=answer, ground_truth=1, extra_info={"num_turns": 2})
    read = verl.sample_of(sample, DialogueSettings(), "", LONGEST)
    assert (read.turns, [turn.utterance for turn in read.episode.turns]) == (1, [answer])


SPOKEN = st.tuples(st.sampled_from(["user", "assistant"]), st.text(st.characters(categories=["L", "P", "Zs"])))


@given(st.lists(SPOKEN, min_size=1))
def test_a_conversation_in_chatml_comes_back_whatever_is_said(talk):
    form = TEMPLATES["chatml"][0]
    talk = [(role, said.strip()) for role, said in talk if "|" not in said]
    talk = [*talk, ("user", "end")]
    assert messages_of("".join(form.format(role, said) for role, said in talk)) == talk


def test_an_episode_of_a_conversation_remembers_what_was_asked():
    dialogue.register(["animals"])
    try:
        episode = dialogue.episode_of("animals", "run", 7, [*TALK, ("assistant", " ")], 0.5, LONGEST)
        assert [(turn.seat, turn.utterance) for turn in episode.turns] == [
            ("user", TALK[1][1]), ("assistant", "Four."), ("user", "Of a bird?"), ("assistant", SILENCE),
        ]  # fmt: skip
        (reading,) = read(episode, "game")
        assert reading.player == ("animals", "assistant") and reading.outcome == 0.5
        assert [each.text for each in reading.heard] == ["Legs of a dog? How many?", "Of a bird?"], "in the history"
        (alone,) = read(dialogue.episode_of("animals", "run", 8, [("assistant", "Four.")], 1.0, LONGEST), "game")
        assert alone.heard == [NOTHING]
    finally:
        del registry.GAMES["animals"]


def test_a_game_of_parley_cannot_be_redefined():
    with pytest.raises(ValueError, match="reward.http.games.parrot: Parley has a game of that name"):
        dialogue.register(["parrot"])


@pytest.mark.parametrize(
    ("judge", "label", "said", "outcome"),
    [
        ("given", 0.25, "x", 0.25), ("given", "0.25", "x", 0.25),
        ("equals", "Paris", " paris. ", 1.0), ("equals", "Paris", "It is Paris", 0.0), ("equals", 4, "4", 1.0),
        ("contains", "Paris", "It is PARIS!", 1.0), ("contains", "Paris", "Parisian", 0.0),
        ("contains", "3.5", "so 3.5, then", 1.0), ("contains", "3.5", "3,5", 0.0), ("contains", "3", "3.5", 0.0),
        ("equals", "-5", "5", 0.0), ("equals", "\u22125", "(-5)", 1.0), ("contains", "5", "-5", 0.0),
        ("contains", "5", "it is $5.", 1.0), ("contains", "5", "**5**", 1.0), ("contains", "0.5", "it is .5", 0.0),
        ("contains", "x-2", "it is x^2", 0.0), ("contains", "x-2", "so x - 2.", 1.0), ("equals", "x^2", "x\u00b2", 1.0),
        ("contains", "1/2", "1 2", 0.0), ("contains", "1/2", "$1 / 2$", 1.0), ("equals", "1/2", "\u00bd", 1.0),
        ("contains", "11/2", "1\u00bd", 0.0), ("contains", "105", "10\u2075", 0.0), ("equals", "\u221a2", "2", 0.0),
        ("equals", r"-\frac{1}{2}", r"\(\frac{1}{2}\)", 0.0), ("contains", r"\frac{1}{2}", r"$-\frac{1}{2}$", 0.0),
        ("contains", "C++", "I like C", 0.0), ("contains", "C++", "I like C++.", 1.0), ("contains", "C", "C#", 0.0),
        ("contains", "\u221e", "?", 0.0), ("contains", "\u221e", "it is \u221e", 1.0), ("equals", "5%", "5", 0.0),
        ("contains", "Paris", "- Paris\n- Rome", 1.0), ("contains", "Paris", "Answer:-Paris", 1.0),
        ("equals", "New York", "New-York", 1.0), ("equals", "Paris", "\uff30aris", 1.0),
        ("contains", "Paris", "Paris\u2019s", 1.0),
        ("contains", "\u5df4\u9ece", "\u7b54\u6848\u662f\u5df4\u9ece\u3002", 1.0),
        ("contains", "\u5df4\u9ece", "\u7b54\u6848\u662f\u4e1c\u4eac\u3002", 0.0),
        ("contains", "\u30d1\u30ea", "\u9996\u90fd\u306f\u30d1\u30ea\u3067\u3059", 1.0),
        ("contains", "\u0e1e\u0e31\u0e01", "\u0e17\u0e35\u0e48\u0e1e\u0e31\u0e01", 1.0),
        ("contains", "Paris", "\u662fParis\u5417", 1.0), ("contains", "5", "\u517115\u4e2a", 0.0),
        ("contains", "\u0939\u093f\u0928\u094d\u0926", "\u0939\u093f\u0928\u094d\u0926\u0940", 0.0),
    ],
)  # fmt: skip
def test_labels_are_judged(judge, label, said, outcome):
    assert outcome_of("labels[0]", DialogueSettings(judge=judge), label, said) == outcome


@pytest.mark.parametrize(
    ("judge", "said", "outcome"),
    [
        ("contains", "<think>Paris? No, Rome.</think>\nRome.", 0.0), ("contains", "<think>Paris or Rome or", 0.0),
        ("contains", "so, Rome?</think> Paris!", 1.0), ("equals", "<think>That is Paris.</think>\nParis.", 1.0),
    ],
)  # fmt: skip
def test_what_a_policy_thought_is_not_judged(judge, said, outcome):
    judged, prompt = DialogueSettings(judge=judge), TEMPLATES["chatml"][1]
    request = openrlhf.OpenRlhfRequest(query=[prompt + said], prompts=[prompt], labels=["Paris"])
    (sample,) = openrlhf.samples_of(request, "parrot", judged, "", LONGEST)
    request = verl.VerlRequest(data_source="parrot", solution_str=said, ground_truth="Paris")
    assert sample.outcome == verl.sample_of(request, judged, "", LONGEST).outcome == outcome


@pytest.mark.parametrize("label", [None, "", "yes", "2", -0.1, math.nan, True, 10**400, [1], {}, "NaN"])
def test_a_label_that_is_no_outcome_is_refused_by_name(label):
    with pytest.raises(CallerError, match=r"labels\[2\]: its label should be the outcome, a number from 0 to 1"):
        outcome_of("labels[2]", DialogueSettings(), label, "said")


@pytest.mark.parametrize("label", [None, "", "?", "\u2026", "$ $"])
def test_a_label_of_which_no_word_is_left_is_refused(label):
    for judge in ("equals", "contains"):
        with pytest.raises(CallerError, match=r"labels\[2\]: its label should be the right answer"):
            outcome_of("labels[2]", DialogueSettings(judge=judge), label, "said")


def test_several_turns_in_one_response_are_worth_their_mean_or_their_sum():
    extra = {"num_turns": 5, "prompt": [{"role": "user", "content": "Guess."}], "outcome": 1}
    text = "a dog?\nuser\nNo.\nassistant\na cat?"
    sample = verl.VerlRequest(data_source="parrot", solution_str=text, ground_truth="cat", extra_info=extra)
    read = verl.sample_of(sample, DialogueSettings(judge="contains"), "", LONGEST)
    assert read.turns == 2 and read.outcome == 1.0 and read.counts
    assert [turn.utterance for turn in read.episode.turns] == ["Guess.", "a dog?", "No.", "a cat?"]
    values = np.array([8.0, 0.25, 0.75], np.float32)
    assert worth(ShapedRewards(0, "assistant", values, 0, "advantage"), turns=2) == 0.5
    assert worth(ShapedRewards(0, "assistant", values, 0, "reward"), turns=2) == 1.0
    with pytest.raises(CallerError, match="extra_info.prompt: should be text, or messages with role and content"):
        verl.sample_of(sample.model_copy(update={"extra_info": {"prompt": [1]}}), DialogueSettings(), "", LONGEST)


@pytest.mark.parametrize(
    ("label", "read"),
    [
        ({"answer": "Paris", "split": "test"}, ("Paris", "test")), ('{"outcome": 1, "split": "val"}', (1, "val")),
        ("Paris", ("Paris", None)), ("{x}", ("{x}", None)), ({"outcome": 0}, (0, None)),
        ('{"answer": "Paris"}', ("Paris", None)), ({}, (None, None)), ([1], ([1], None)),
        ('{"a": 1}', ('{"a": 1}', None)), ("{" * 9**5, ("{" * 9**5, None)),
    ],
)  # fmt: skip
def test_a_label_may_say_which_part_of_a_data_set_it_is_of(label, read):
    assert dialogue.marked("labels[0]", label) == read


@pytest.mark.parametrize("label", [{"answer": "Paris", "split": "test", "id": 7, "by": "x"}, {"score": 1}])
def test_what_a_label_may_not_have_is_named(label):
    unknown = "by, id" if "id" in label else "score"
    with pytest.raises(CallerError, match=rf"labels\[0\]: its label may have answer, outcome, split, not {unknown}"):
        dialogue.marked("labels[0]", label)
    if "id" in label:
        with pytest.raises(CallerError, match="not by, id"):
            dialogue.marked("labels[0]", json.dumps(label))


def test_a_label_of_verl_may_say_that_it_is_of_an_evaluation():
    for split, counts in (("test", False), ("train", True)):
        label = {"outcome": 0.5, "split": split}
        request = verl.VerlRequest(data_source="parrot", solution_str="x", ground_truth=label)
        sample = verl.sample_of(request, DialogueSettings(), "", LONGEST)
        assert (sample.outcome, sample.counts) == (0.5, counts)
        request.extra_info = {"outcome": 1.0}  # judged by the caller
        sample = verl.sample_of(request, DialogueSettings(), "", LONGEST)
        assert (sample.outcome, sample.counts) == (1.0, counts)
    request.ground_truth = {"a label of": "the caller's own"}
    assert verl.sample_of(request, DialogueSettings(), "", LONGEST).counts


def test_samples_have_numbers_of_their_own_and_the_same_again_for_the_same_request():
    assert dialogue.numbers("id", 3) == dialogue.numbers("id", 3) != dialogue.numbers("other", 3)
    assert len({*dialogue.numbers("", 100), *dialogue.numbers("", 100)}) == 200


def test_a_plain_episode_comes_back_as_it_was():
    plain = {
        "run": "r", "game": "bargaining", "number": 3, "attempt": 1, "seed": 9, "terminated": False,
        "players": {"alice": "policy", "bob": "scripted:fair"}, "outcome": {"alice": 0.5}, "facts": {"a": "b"},
        "closing": {"bob": "over"},
        "turns": [{"seat": "bob", "utterance": "\u00e9 \ud800", "observation": "o", "executable": False, "reward": 0.5,
                   "caption": "c", "actions": ["x", "y"]}],
    }  # fmt: skip
    episode = episode_of(PlainEpisode.model_validate(plain))
    assert isinstance(episode, Episode) and plain_of(episode) == plain
    assert episode.policy_seats() == ["alice"] and episode.turns[0].player == "scripted:fair"
