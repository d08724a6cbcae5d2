"""Samples as a custom reward function of verl gets them (read off its version 0.8).

    compute_score(data_source, solution_str, ground_truth, extra_info) -> {"score": ..., ...}

`data_source` names the game. verl decodes without special tokens and pays one number for a whole
response. Where its agent loops took several turns (`extra_info["num_turns"]` above 2) the response
holds the others' turns too, each role on a line of its own; its number is then the mean of the
advantages, or the sum of the rewards, of the policy's turns. The prompt is not given to a reward function:
it comes as `extra_info["prompt"]` or `extra_info["question"]`, text or messages, if the data set
puts it there. Without it, answers to all prompts are compared with each other. Its validation asks in the same
way; `extra_info["split"]`, which its data sets have, tells that from training.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from reward_service.service.errors import CallerError, bad_sample
from reward_service.service.http import dialogue
from reward_service.service.http.chat_text import messages_of, role_lines, said
from reward_service.service.http.dialogue import ASSISTANT, USER, Message, Sample
from reward_service.settings import DialogueSettings
from reward_service.shaper import ShapedRewards

RUN = "verl"
ONE_ANSWER = 2  # turns, as verl counts them: a prompt and a response


class VerlRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    data_source: str = Field(min_length=1, description="the game")
    solution_str: str = Field(description="the decoded response")
    ground_truth: Any = Field(None, description="the label: the outcome or the right answer, as the game is judged")
    extra_info: dict[str, Any] | None = Field(
        None, description="prompt or question, num_turns, outcome, split; the rest is not read"
    )


class VerlAnswer(BaseModel):
    score: float = Field(description="value of the response; its outcome in an evaluation")
    acc: float = Field(description="the outcome, under the name that verl's validation takes for its first metric")
    outcome: float
    version: int = Field(description="of the state that made the values")
    kind: str = Field(description="advantage or reward")
    values: list[float] = Field(description="of each turn of the policy in the response")


def sample_of(request: VerlRequest, settings: DialogueSettings, request_id: str, longest: int) -> Sample:
    extra = request.extra_info or {}
    response = _response(request.solution_str, extra.get("num_turns"))
    messages = [*_prompt(extra), *response]
    counts = dialogue.counts("extra_info.split", extra.get("split"))
    if "outcome" in extra:
        outcome = dialogue.outcome_of("extra_info.outcome", DialogueSettings(), extra["outcome"], "")
        split = None
        with suppress(CallerError):  # whoever judges has labels of any kind
            split = dialogue.marked("ground_truth", request.ground_truth)[1]
    else:
        last = next(text for role, text in reversed(response) if role == ASSISTANT)
        label, split = dialogue.marked("ground_truth", request.ground_truth)
        outcome = dialogue.outcome_of("ground_truth", settings, label, last)
    counts = counts and dialogue.counts("ground_truth.split", split)
    number = dialogue.numbers(request_id, 1)[0]
    episode = dialogue.episode_of(request.data_source, RUN, number, messages, outcome, longest)
    turns = sum(role == ASSISTANT for role, _ in response)
    return Sample(episode, turns, counts)


def _response(text: str, turns: Any) -> list[Message]:
    if turns is not None and (type(turns) is not int or turns < 0):
        raise bad_sample("extra_info.num_turns", f"{turns!r} is no number of turns")
    if turns is None or turns <= ONE_ANSWER:
        return [(ASSISTANT, said(text))]
    found = role_lines(text)
    if len(found) == 1 or (turns > ONE_ANSWER + 1 and sum(role == ASSISTANT for role, _ in found) == 1):
        raise bad_sample("solution_str", f"num_turns is {turns}, but no line names a role (user, assistant)")
    return found


def _prompt(extra: dict[str, Any]) -> list[Message]:
    for name in ("prompt", "question"):
        given = extra.get(name)
        if isinstance(given, str) and given.strip():
            return messages_of(given) or [(USER, given)]
        if isinstance(given, list):
            try:
                return [(str(each["role"]), str(each["content"])) for each in given]
            except (KeyError, TypeError):
                raise bad_sample(f"extra_info.{name}", "should be text, or messages with role and content") from None
    return []


def answer_of(sample: Sample, values: ShapedRewards) -> VerlAnswer:
    return VerlAnswer(
        score=dialogue.worth(values, sample.turns),
        acc=sample.outcome,
        outcome=sample.outcome,
        version=values.version,
        kind=values.kind,
        values=values.rewards[-sample.turns :].tolist(),
    )
