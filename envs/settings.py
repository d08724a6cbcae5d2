"""Settings of the games floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

RESOURCES = "says where or how fast something is computed"  # marks a field
T = TypeVar("T")
# The type of a field that says where or how fast something is computed, or how long it may take: it changes nothing
# that is computed. Whoever asks whether results still hold leaves these fields out (`what_is_computed`).
Resource = Annotated[T, RESOURCES]


class Settings(BaseModel):
    """Base of every settings model: unknown keys are errors, values are checked on assignment
    too, and every number is finite."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)

    def what_is_computed(self) -> dict[str, Any]:
        """Every setting but those of resources, by dotted key, as JSON values."""
        values = self.model_dump(mode="json")
        for name, field in type(self).model_fields.items():
            if RESOURCES in field.metadata:
                del values[name]
            elif isinstance(value := getattr(self, name), Settings):
                kind = {key: each for key, each in values[name].items() if key not in type(value).model_fields}
                values[name] = kind | value.what_is_computed()
        return _by_dotted_key(values)


def _by_dotted_key(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found |= {f"{name}.{key}": each for key, each in _by_dotted_key(value).items()}
        else:
            found[name] = value
    return found


class GameSettings(Settings):
    name: str = Field(
        "twenty_questions",
        description="registered name of the game (`parley games` lists them), or a class of your own as module:Class",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of the game class")
    players: dict[str, str] = Field(
        default_factory=dict,
        description="who sits where: seat -> 'policy', 'scripted:NAME', 'frozen:NAME' or 'endpoint:NAME'; "
        "seats left out are played by the policy",
    )


class EndpointSettings(Settings):
    """An OpenAI-compatible server: for a seat of a game, or for an oracle."""

    url: str = Field(description="base URL, e.g. http://host:8000/v1")
    model: str = Field(description="model name the server knows")
    key_variable: str = Field("", description="environment variable that holds the API key; empty: no key")
    temperature: float = Field(1.0, ge=0, description="sampling temperature")
    max_tokens: int = Field(256, ge=1, description="longest answer, in tokens")
    timeout_seconds: float = Field(60.0, gt=0, description="time limit of one request")
    retries: int = Field(2, ge=0, description="further tries after a failed request")
    connections: Resource[int] = Field(64, ge=1, description="requests that are open at once; others wait")
    prompt_price: float = Field(0.0, ge=0, description="what a million prompt tokens cost; for the cost counter")
    answer_price: float = Field(0.0, ge=0, description="what a million answer tokens cost; for the cost counter")


def keys_of(*settings: Settings) -> dict[str, str]:
    """The environment variables with API keys that settings name (`key_variable`), for a process of another node.
    One that is not set here is left to that node."""
    return {name: os.environ[name] for name in _key_variables(settings) if name in os.environ}


def _key_variables(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _key_variables(each)
    elif isinstance(value, dict | BaseModel):
        for name, each in dict(value).items():
            if name == "key_variable" and each:
                yield each
            yield from _key_variables(each)
