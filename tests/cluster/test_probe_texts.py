"""What a sync's probe scores are the beginnings of games as they were played."""

from __future__ import annotations

import numpy as np

from cluster.recipe.reading import load_recipe
from cluster.run.probe_texts import ProbeTexts
from envs.episode import Episode, Ticket, Turn, TurnTokens


def test_a_seat_that_never_spoke_has_no_beginning(monkeypatch):
    """The first one has lost before the second one's turn."""
    ids = np.array([4, 5, 6], np.int32)
    tokens = TurnTokens(ids, ids[:2], np.zeros(2, np.float32), np.zeros(2, np.int32))
    ticket = Ticket("run", "parrot", 0, 0, (("first", "policy"), ("second", "policy")))
    game = Episode(ticket, [Turn("first", "policy", "o", "u", tokens=tokens)], {"first": 0.0, "second": 1.0}, True)
    monkeypatch.setattr("cluster.run.probe_texts.ray.get", lambda episodes, timeout: episodes)
    texts = ProbeTexts(load_recipe(None), "model")
    texts.heard([game])
    assert texts.sequences() == [[4, 5, 6, 4, 5]]
