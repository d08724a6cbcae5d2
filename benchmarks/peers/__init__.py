"""Parley beside libraries that people would pick for the same work.

python -m benchmarks.peers            all sizes; an hour on two cores
python -m benchmarks.peers --quick    the smallest policy, one seed

contest.py          what is run, in turns, and the tables
environment.py      a virtual environment of the peer's own
trl_games.py        runs in it: GRPOTrainer with a rollout function that plays the games
    rllib_games.py      PPO on an environment whose steps are tokens
"""
