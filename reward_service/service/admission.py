"""What an episode of a caller must be before it may touch a shaper's state. It is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from envs.episode import Episode
from reward_service.intentions.reading import EpisodeRefused, check, is_number
from reward_service.settings import StreamSettings

LARGEST_REWARD = 1e30  # many of them add up in 32-bit floats


def admit(episode: Episode, settings: StreamSettings) -> None:
    check(episode)
    if (turns := len(episode.turns)) > settings.longest_episode:
        text = f"it has {turns} turns, more than longest_episode={settings.longest_episode}"
        raise EpisodeRefused(episode, "too_many_turns", text)
    for what, text in _texts(episode):
        try:
            text.encode()
        except UnicodeEncodeError:
            problem = f"{what} holds half of a character (a lone surrogate): send whole ones"
            raise EpisodeRefused(episode, "half_character", problem) from None
    seats = dict(episode.ticket.players)
    if strange := [seat for seat in episode.outcome if seat not in seats]:
        text = f"outcome names {strange[0]!r}, which is no seat of it; its seats are {', '.join(seats) or 'none'}"
        raise EpisodeRefused(episode, "unknown_seat", text)
    valued = episode.policy_seats()
    if not valued:
        raise EpisodeRefused(episode, "no_seat", "no seat is to be valued: give an outcome or a seat of 'policy'")
    for number, turn in enumerate(episode.turns):
        if turn.seat not in seats:
            raise EpisodeRefused(episode, "unknown_seat", f"seat {turn.seat!r} of turn {number} is not in players")
        if not turn.utterance.strip():
            raise EpisodeRefused(episode, "empty_utterance", f"the utterance of turn {number} is empty")
        for what in ("utterance", "observation"):
            if (length := len(getattr(turn, what))) > settings.longest_text:
                text = f"the {what} of turn {number} has {length} characters, more than {settings.longest_text}"
                raise EpisodeRefused(episode, "huge_text", text)
        if not abs(turn.reward) <= LARGEST_REWARD:  # NaN is not, either
            text = f"the reward of turn {number} is {turn.reward}, not a number up to {LARGEST_REWARD:g}"
            raise EpisodeRefused(episode, "bad_reward", text)
    if episode.turns and not {turn.seat for turn in episode.turns} & set(valued):
        text = f"the seats that are to be valued say nothing: {', '.join(valued)}"
        raise EpisodeRefused(episode, "no_seat", text)
    for seat, outcome in episode.outcome.items():
        if not is_number(outcome) or not 0 <= outcome <= 1:  # NaN is not, either
            text = f"the outcome of seat {seat!r} is {outcome}, not a number from 0 to 1"
            raise EpisodeRefused(episode, "bad_outcome", text)


def _texts(episode: Episode) -> Iterator[tuple[str, str]]:
    """All there are, and what each is; the names of run and game are checked where JSON is read."""
    for number, turn in enumerate(episode.turns):
        for what in ("utterance", "observation", "caption"):
            yield f"the {what} of turn {number}", getattr(turn, what)
        for action in turn.actions:
            yield f"an action of turn {number}", action
    for text in chain(*episode.ticket.players):
        yield "a seat", text
    for text in chain(*episode.closing.items(), *episode.facts.items()):
        yield "closing or facts", text
