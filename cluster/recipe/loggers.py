"""Which loggers a run has, and what each is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from envs.settings import Settings

NAMES = ("tensorboard", "wandb", "mlflow", "trackio")


class WandbSettings(Settings):
    project: str = Field("parley", min_length=1, description="project of the runs")
    entity: str | None = Field(None, description="user or team; null: your own")
    mode: Literal["online", "offline"] = Field("online", description="offline: into the run's folder, for `wandb sync`")


class MlflowSettings(Settings):
    uri: str | None = Field(
        None,
        description="tracking server, or sqlite:///FILE; null: MLFLOW_TRACKING_URI, else mlflow.db beside the runs",
    )
    experiment: str = Field("parley", min_length=1, description="experiment of the runs")


class TrackioSettings(Settings):
    project: str = Field("parley", min_length=1, description="project of the runs")
    space: str | None = Field(None, description="Hugging Face space that shows it; null: this machine alone")


class LoggerSettings(Settings):
    to: tuple[str, ...] = Field(
        ("tensorboard",),
        description=f"where numbers go beside metrics.jsonl: {', '.join(NAMES)}, or module:Class of your own",
    )
    wandb: WandbSettings = Field(default_factory=WandbSettings)
    mlflow: MlflowSettings = Field(default_factory=MlflowSettings)
    trackio: TrackioSettings = Field(default_factory=TrackioSettings)

    @field_validator("to")
    @classmethod
    def known(cls, to: tuple[str, ...]) -> tuple[str, ...]:
        for name in to:
            if name not in NAMES and ":" not in name:
                raise ValueError(f"{name!r} is none of {', '.join(NAMES)}, nor module:Class of your own")
        if len(set(to)) < len(to):
            raise ValueError("a logger is named twice")
        return to
