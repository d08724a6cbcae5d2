"""A server of OpenEnv, run by a Python that has the package: guess a number from 1 to 9 in six tries.

python openenv_server.py PORT SESSIONS
"""

import random
import sys

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Say(Action):
    message: str


class Seen(Observation):
    text: str


class Guess(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()

    def reset(self, seed=None, episode_id=None, **more):
        self.number, self.tries = random.Random(seed).randint(1, 9), 6
        return Seen(text="a number from 1 to 9")

    def step(self, action, timeout_s=None, **more):
        if action.message == "crash":
            raise RuntimeError("it crashed")
        if action.message == "nan":
            return Seen(text="strange", reward=float("nan"))
        self.tries -= 1
        right = action.message.strip() == str(self.number)
        return Seen(text="right" if right else "wrong", reward=float(right), done=right or not self.tries)

    @property
    def state(self):
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Guess, Say, Seen, max_concurrent_envs=int(sys.argv[2]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
