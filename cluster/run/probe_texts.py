"""What the sync's probe scores: the beginnings of the policy's own games."""

from __future__ import annotations

from collections.abc import Sequence

import ray

from cluster.errors import RunError
from cluster.recipe.config import RunConfig
from envs.registry import make_game
from envs.text.dialogue import Dialogue
from envs.well_formed import good_sight, told

SEQUENCES = 4
TOKENS = 96
FETCH_SECONDS = 60.0


class ProbeTexts:
    """Finished episodes, as soon as there are any; until then the openings that the game shows."""

    def __init__(self, config: RunConfig, model: str):
        self.config, self.model = config, model
        self.length = min(TOKENS, config.rollout.engine.max_context - 1)  # vLLM makes a token when it scores
        self.episodes: list[ray.ObjectRef] = []

    def heard(self, episodes: Sequence[ray.ObjectRef]) -> None:
        self.episodes = list(episodes[-SEQUENCES:])

    def sequences(self) -> list[list[int]]:
        found = []
        for episode in ray.get(self.episodes, timeout=FETCH_SECONDS):
            seats = (seat for seat in episode.policy_seats() if episode.turns_of(seat))
            found += [episode.sequence(seat).ids.tolist() for seat in seats]
        cut = [ids[: self.length] for ids in found if len(ids) > 1]
        return cut[:SEQUENCES] or self.openings()

    def openings(self) -> list[list[int]]:
        from transformers import AutoTokenizer

        game_settings, trust = self.config.game, self.config.model.trust_remote_code
        dialogue = Dialogue(AutoTokenizer.from_pretrained(self.model, trust_remote_code=trust))
        game = make_game(game_settings.name, game_settings.options)
        found: dict[tuple[int, ...], None] = {}
        for seed in range(SEQUENCES):
            try:
                game.reset(seed)
                shown = game.briefing(game.seat), good_sight(game)[0]
            except Exception as error:  # of whoever wrote the game
                raise RunError(f"{game_settings.name} does not begin with seed {seed}: {told(error)}") from error
            found[dialogue.opening(*shown)[: self.length]] = None
        return [list(ids) for ids in found]
