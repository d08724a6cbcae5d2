"""The reward service over HTTP, for training that goes on elsewhere.

request -> gate (key, size) -> episodes -> the shard of their game -> RewardStream -> per-turn values
"""
