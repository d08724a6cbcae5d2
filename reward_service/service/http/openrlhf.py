r"""Samples as OpenRLHF sends them to `--reward.remote_url` (read off its version 0.11).

    {"query": [prompt + response], "prompts": [prompt], "labels": [label]}
    -> {"rewards": [...], "scores": [outcomes], "extra_logs": {name: [...]}}

The query is decoded with its special tokens, so that the prompt's markers say who spoke. What comes
after the prompt is the policy's one answer; it gets the value of that turn. OpenRLHF sends no headers:
the API key goes into the URL, http://parley:KEY@host:port/v1/openrlhf?game=NAME, which becomes HTTP
basic authentication. Its evaluation asks in the same way, and only the label tells: see `dialogue.marked`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from reward_service.service.errors import CallerError, bad_sample
from reward_service.service.http import dialogue
from reward_service.service.http.chat_text import head_of, messages_of, said
from reward_service.service.http.dialogue import ASSISTANT, USER, Message, Sample
from reward_service.settings import DialogueSettings
from reward_service.shaper import ShapedRewards

RUN = "openrlhf"


class OpenRlhfRequest(BaseModel):
    """What else a later version may send is not read."""

    model_config = ConfigDict(strict=True)

    query: list[str] = Field(min_length=1, description="prompt and response of each sample, with special tokens")
    prompts: list[str] = Field(description="the prompt of each")
    labels: list[Any] = Field(description="the label of each, from the data set or from a reward function of yours")


class OpenRlhfAnswer(BaseModel):
    rewards: list[float] = Field(description="value of the response: what training uses; its outcome in an evaluation")
    scores: list[float] = Field(description="outcome, 0 to 1: what dynamic filtering uses")
    extra_logs: dict[str, list[float]] = Field(description="for the log")


def samples_of(
    request: OpenRlhfRequest, game: str, settings: DialogueSettings, request_id: str, longest: int
) -> list[Sample]:
    if not len(request.query) == len(request.prompts) == len(request.labels):
        sizes = f"{len(request.query)} query, {len(request.prompts)} prompts and {len(request.labels)} labels"
        raise CallerError(422, "bad_request", f"{sizes}: should be as many of each")
    given = zip(
        dialogue.numbers(request_id, len(request.query)), request.query, request.prompts, request.labels, strict=True
    )
    samples = []
    for place, (number, query, prompt, label) in enumerate(given):
        where, messages = f"labels[{place}]", conversation(f"query[{place}]", query, prompt)
        label, split = dialogue.marked(where, label)
        outcome = dialogue.outcome_of(where, settings, label, messages[-1][1])
        episode = dialogue.episode_of(game, RUN, number, messages, outcome, longest)
        samples.append(Sample(episode, counts=dialogue.counts(f"{where}.split", split)))
    return samples


def conversation(where: str, query: str, prompt: str) -> list[Message]:
    """Ends with the policy's answer. A prompt without markers is one question."""
    if query.startswith(prompt):
        before = messages_of(prompt) or [(USER, prompt.strip())]
        answer = said(query[len(prompt) :], head_of(prompt))
        if before[-1][0] == ASSISTANT:  # the prompt opens the answer, as templates do that make a model think
            answer = f"{before.pop()[1]}\n{answer}".strip()
        return [*before, (ASSISTANT, answer)]
    messages = messages_of(query)  # of a prompt that was cut to fit, the end is there
    if not messages or messages[-1][0] != ASSISTANT:
        raise bad_sample(where, "it does not begin with its prompt, and no chat markers tell who spoke")
    return messages


def answer_of(samples: Sequence[Sample], values: Sequence[ShapedRewards]) -> OpenRlhfAnswer:
    outcomes = [sample.outcome for sample in samples]
    return OpenRlhfAnswer(
        rewards=[dialogue.worth(each, turns=1) for each in values],
        scores=outcomes,
        extra_logs={"parley_outcome": outcomes, "parley_version": [float(each.version) for each in values]},
    )
