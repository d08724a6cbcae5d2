"""Intentions on real sentence embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from envs.episode import Episode, Ticket, Turn
from envs.text.embedding import embed
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import Gist
from reward_service.intentions.matching import compare
from reward_service.intentions.settings import IntentionSettings
from reward_service.shapers.aria import AriaShaper


def test_with_the_packaged_embeddings_paraphrases_share_their_reward():
    ask, guess = ("is it alive?", "is it a living thing?", "does it live?"), ("i guess banana", "banana is my guess")
    aria = AriaShaper(IntentionSettings(refit="inline", first_fit=4, space=Ward(granularity={"kind": "fixed", "k": 2})))
    episodes = []
    for number, text in enumerate((*ask, *guess)):
        turn = Turn("guesser", "policy", "ask", text)
        ticket = Ticket("run", "parrot", number, number, (("guesser", "policy"),))
        episodes.append(Episode(ticket, [turn], {"guesser": float(number % 2)}, True))
    rewards = [float(each.rewards[0]) for each in aria.shape(episodes)]
    assert rewards == pytest.approx([1 / 3] * 3 + [0.5] * 2)


def test_offers_group_by_phrase_unless_their_amounts_count():
    phrases = ("I propose that I take {} and you take {}.", "How about {} for me and {} for you?", "My offer: {}, {}.")
    offers = [(phrase, share) for phrase in range(3) for share in (20, 25, 30, 70, 75, 80)]
    texts = [phrases[phrase].format(share, 100 - share) for phrase, share in offers]
    gists = [Gist(text, (("share", share / 50 - 1),)) for text, (_, share) in zip(texts, offers, strict=True)]
    once, rows = np.ones(len(texts), np.int64), embed(texts)
    claims = np.array([share > 50 for _, share in offers])
    for weight, follows in ((0.0, False), (4.0, True)):
        space = fit_space(Utterances(gists, rows, once), Ward(amount_weight=weight))
        agreement = compare(space.labels(space.features(rows, gists), 2), claims, once).agreement
        assert agreement == 1.0 if follows else agreement < 0.1
