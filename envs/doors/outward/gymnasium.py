"""Every game as a Gymnasium environment.

    import gymnasium
    import envs.doors.outward.gymnasium
    environment = gymnasium.make("parley/twenty_questions-v0")

or, in one line, gymnasium.make("envs.doors.outward.gymnasium:parley/twenty_questions-v0").

Keyword arguments of `make`: `options` of the game, `form` ("text" or "arrays", see
`envs.doors.inward.forms`) with `utterances`, `observation_length` and `utterance_length`, `pay`, and
`players`, the scripts of the seats that the agent does not play. The agent plays one seat: by
default the first, and mediocre scripts the others.

The seed given to `reset` is the game's seed; without one, seeds are drawn from the
environment's own generator, among those of games that are trained on. What the seat is paid
before its first turn comes with the first step. `info` holds the listed actions (with form="arrays" also as
"action_mask"), what the last utterance did ("caption", "executable") and, at the end,
"outcome" and "facts". `render()` in mode "ansi" is the conversation so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium

from envs.doors.inward.forms import make_form
from envs.doors.inward.sitting import Sitting
from envs.registry import game_names, make_game
from envs.text.tasks import HELD_OUT_SEEDS


class GameEnvironment(gymnasium.Env):
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(
        self,
        game: str,
        options: dict[str, Any] | None = None,
        players: dict[str, str] | None = None,
        form: str = "text",
        pay: str = "steps",
        utterances: Sequence[str] | None = None,
        render_mode: str | None = None,
        **lengths: int,
    ):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r} must be ansi or None")
        if players is None:
            players = dict.fromkeys(make_game(game, options).seats[1:], "mediocre")
        self.sitting = Sitting(game, options, players, pay)
        if len(self.sitting.free) != 1:
            raise ValueError(f"an agent plays one seat, but players={players!r} leave: {', '.join(self.sitting.free)}")
        self.form = make_form(form, game, self.sitting.game, options or {}, utterances, **lengths)
        self.observation_space, self.action_space = self.form.observations, self.form.actions
        self.render_mode = render_mode
        self.lines: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        sitting = self.sitting
        sitting.begin(int(self.np_random.integers(HELD_OUT_SEEDS)) if seed is None else seed)
        while sitting.seat is None:  # a game that its scripts ended before the agent could act
            sitting.begin(int(self.np_random.integers(HELD_OUT_SEEDS)))
        text = sitting.game.observe()
        self.lines = [text]
        return self.form.shown(text), self._info(briefing=sitting.game.briefing(sitting.seat))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        sitting, seat, said = self.sitting, self.sitting.free[0], self.form.said(action)
        step = sitting.say(said)
        game = sitting.game
        terminated, truncated = sitting.ended
        info: dict[str, Any] = {"caption": step.caption, "executable": step.executable}
        if terminated or truncated:
            text = game.closing().get(seat, "")
            info |= {"outcome": game.outcome()[seat], "facts": dict(game.facts())}
        else:
            text = game.observe()
        self.lines += [f"> {said}", text]
        return self.form.shown(text), sitting.collect(seat), terminated, truncated, self._info(**info)

    def _info(self, **info: Any) -> dict[str, Any]:
        game = self.sitting.game
        return {**info, **self.form.listed(tuple(game.actions()) if game.seat is not None else ())}

    def render(self) -> str | None:
        return "\n".join(self.lines) if self.render_mode == "ansi" else None


def register() -> None:
    for name in game_names():
        identity = f"parley/{name}-v0"
        if identity not in gymnasium.registry:
            gymnasium.register(identity, entry_point=f"{__name__}:GameEnvironment", kwargs={"game": name})


register()
