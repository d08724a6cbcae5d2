"""Configs of run folders that earlier versions wrote: told whole, so that today's shape can be made of them.

Then one section had the settings of every credit method, and so had loss, critic, shapers and what intentions are made
by; what the chosen one did not read stood at its default. Only what it reads is kept.
"""

from __future__ import annotations

from typing import Any, get_args

from pydantic.fields import FieldInfo

from envs.kinds import Kinds
from learners.credit.method import CREDIT
from learners.loss.loss import LOSS
from reward_service.intentions.clustering.clustering import CLUSTERINGS
from reward_service.intentions.granularity.granularity import GRANULARITIES
from reward_service.intentions.pooling.pooling import POOLINGS
from reward_service.intentions.settings import AggregateSettings
from reward_service.models.settings import REWARD_MODELS
from reward_service.shaper import SHAPERS

RENAMED_FIELDS = {"vtrace_step": "step", "correct_fresh": "correct_on_policy"}


def in_todays_shape(tree: dict[str, Any]) -> dict[str, Any]:
    """As it is, if it has that shape."""
    learner, reward = dict(tree.get("learner") or {}), dict(tree.get("reward") or {})
    if "critic" in learner and "credit" in learner and "loss" in learner:
        critic, cap = learner.pop("critic"), learner.pop("importance_cap", None)
        learner["credit"] = _kind(CREDIT, learner["credit"], critic=critic)
        learner["loss"] = _kind(LOSS, learner["loss"], importance_cap=cap)
    if isinstance(reward.get("shaper"), str) and "intentions" in reward:
        reward = _reward(reward)
    shaper = reward.get("shaper")
    if isinstance(shaper, dict) and isinstance(shaper.get("intentions"), dict):
        reward["shaper"] = shaper | {"intentions": _intentions(shaper["intentions"])}
    return tree | ({"learner": learner} if learner else {}) | ({"reward": reward} if reward else {})


def _kind(kinds: Kinds, section: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the chosen kind has of a section; null is left to the kind where it takes no null any more."""
    name = section[kinds.tag]
    fields = kinds.find(name).model_fields
    said = {RENAMED_FIELDS.get(key, key): value for key, value in section.items()} | more
    found = _taken(said, fields)
    if isinstance(critic := found.get("critic"), dict):
        known = fields["critic"].annotation.model_fields
        critic = critic | {"tau": section.get("tau")}
        found["critic"] = _taken(critic, known)
    return {kinds.tag: name} | found


def _taken(said: dict[str, Any], fields: dict[str, FieldInfo]) -> dict[str, Any]:
    nullable = {key for key, field in fields.items() if type(None) in get_args(field.annotation)}
    return {key: value for key, value in said.items() if key in fields and (value is not None or key in nullable)}


def _reward(reward: dict[str, Any]) -> dict[str, Any]:
    name, intentions = reward["shaper"], dict(reward.pop("intentions"))
    own = {each: reward.pop(each, {}) for each in ("aria_rm", "spa", "oni", "regressed")}.get(name, {})
    said = {"gives": intentions.pop("gives", None), "intentions": intentions} | own
    if name == "regressed":
        said = {key: intentions.get(key) for key in ("model", "observations")} | said
    model = said.get("model")
    if isinstance(model, dict) and {"kind", "embedding", "transformer"} <= set(model):
        network = model[model["kind"]]
        said["model"] = _kind(REWARD_MODELS, {**model, **network})
    return reward | {"shaper": _kind(SHAPERS, {SHAPERS.tag: name, **said})}


def _intentions(said: dict[str, Any]) -> dict[str, Any]:
    space, aggregate = said.get("space"), said.get("aggregate")
    if isinstance(space, dict) and "k" in space:
        own = _kind(GRANULARITIES, space | {GRANULARITIES.tag: space["granularity"]})
        said = said | {"space": _kind(CLUSTERINGS, space | {"granularity": own})}
    if isinstance(aggregate, dict) and "strength" in aggregate:
        own = _kind(POOLINGS, aggregate | {POOLINGS.tag: aggregate["pooling"]})
        said = said | {"aggregate": _taken(aggregate | {"pooling": own}, AggregateSettings.model_fields)}
    return said
