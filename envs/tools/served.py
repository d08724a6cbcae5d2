"""Tools of any MCP server: call them until the task is done, and say the answer.

A task is {question, answer}, with calls: [{name, arguments}, ...] where scripted players are to know a way. An
episode's seed chooses its task. The right answer pays 1 and ends the game, and so does a wrong one, which pays 0: see
`same` of envs/tools/calls for what is the same.

Each episode has a session of its own, so that none meets what another one has done. Arguments are checked against the
tool's schema; what does not fit is not executable, and no server is asked. A server that is gone or late is an
EndpointError: the episode's failure, counted, and no other episode's. A server that is started ends with Parley,
however Parley ends; what it prints beside the protocol is ignored. How strong scripted players are depends on the
tasks.
"""

from __future__ import annotations

import random
import shlex
import weakref
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from envs.coroutines import finish, submit
from envs.doors.inward.imported import ImportedGame, settings_of
from envs.game import Player, Step, Trial
from envs.options import one_of, whole_number
from envs.text.chat import EndpointError, headers_with_key
from envs.text.listed import yes_or_no
from envs.text.tasks import share_of, task_of, tasks_in
from envs.tools.calls import WORD, Answer, Call, Unread, names_of, plain_answer, read_json, read_plain, same, say_json
from envs.tools.families import next_name
from envs.tools.servers import connected, started
from envs.tools.session import Session
from envs.tools.tool import Tool
from envs.tools.words import briefing, response, shown
from envs.worlds.package import package

SEAT = "agent"
FORMS = ("json", "plain")


class ServedTools(ImportedGame):
    name = "mcp"
    seats = (SEAT,)
    longest: ClassVar[int] = 20_000
    open_vocabulary = True

    def __init__(
        self,
        command: Annotated[
            str | Sequence[str],
            "of a server that is started and talked to over its input and output: [python, server.py]",
        ] = "",
        url: Annotated[str, "or the address of one that runs, over streamable HTTP: http://host:8000/mcp"] = "",
        tasks: Annotated[
            str | Sequence[dict], "a list of {question, answer}, or a file with one of them a line (JSON)"
        ] = (),
        held_out: Annotated[
            float, "share of the tasks, the last ones, that held-out games alone have; 0: all have all"
        ] = 0.0,
        form: Annotated[str, "json, as language models say it, or plain: see the game `tools`"] = "json",
        turns: Annotated[
            int, "a turn is one call (json: several) or the answer; when they run out, the task has failed"
        ] = 8,
        tools: Annotated[Sequence[str] | None, "only these of the server's tools; null: all"] = None,
        fresh: Annotated[
            bool, "true: a session for every episode; false: one for many, for servers that remember nothing"
        ] = True,
        seconds: Annotated[float, "time limit of every wait"] = 30.0,
        environment: Annotated[dict | None, "more variables for a server that is started"] = None,
        key_variable: Annotated[str, "environment variable with the key (bearer token) for a server that runs"] = "",
    ):
        package("mcp")
        super().__init__(whole_number("turns", turns, 1, 100))
        self.command, self.url = words_of(command), address(url)
        if bool(self.command) == bool(self.url):
            raise ValueError("game option command or url has to be given: a server to start, or one that runs")
        if environment and self.url:
            raise ValueError(
                "game option environment is for a server that is started by command; url names one that runs"
            )
        if key_variable and self.command:
            raise ValueError("game option key_variable is for a server at url; one that is started has no key")
        self.tasks, self.held_out = tasks_of(tasks), share_of("held_out", held_out)
        self.form, self.fresh = one_of("form", form, FORMS), yes_or_no("fresh", fresh)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86400:
            raise ValueError(f"game option seconds={seconds!r} must be a number of seconds above 0")
        if tools is not None and not (
            isinstance(tools, list | tuple) and tools and all(isinstance(each, str) for each in tools)
        ):
            raise ValueError(f"game option tools={tools!r} must be a list of names")
        self.only, self.seconds, self.key_variable = tools, float(seconds), key_variable
        self.environment = {name: str(value) for name, value in settings_of("environment", environment).items()}
        self._sessions: list[Session] = []  # the one that is open comes first; others are about to end
        weakref.finalize(self, leave, self._sessions).atexit = False  # a process that ends hangs up by itself
        self._tools: dict[str, Tool] = {}
        self._over, self._right = False, False

    # the server

    def _new_session(self) -> Session:
        if self.command:
            return started(self.command, self.environment, self.seconds)
        return connected(self.url, headers_with_key(f"game {self.name!r}", self.key_variable), self.seconds)

    async def _connect(self) -> None:
        if not self.fresh and self._sessions and not self._sessions[0].over:
            return
        self._hang_up()
        session = self._new_session()
        self._sessions.insert(0, session)
        found = names_of(await session.open())
        try:
            self._tools = self._fit(found, session.where)
        except Exception:
            session.leave()
            raise

    def _fit(self, found: dict[str, Tool], where: str) -> dict[str, Tool]:
        """The tools that are used, or one line on why these cannot be."""
        missing = [name for name in self.only or () if name not in found]
        if missing:
            raise ValueError(f"game option tools: {where} has no {missing[0]!r}; it has: {', '.join(found)}")
        tools = {name: tool for name, tool in found.items() if self.only is None or name in self.only}
        if not tools:
            raise EndpointError(f"{where} has no tools")
        ending = next((name for name in tools if name.lower() == WORD), "")
        if self.form == "plain" and ending:
            raise ValueError(
                f"game option form='plain': {where} has a tool {ending!r}, and that word ends the game there: "
                "use form=json, or leave the tool out of the option tools"
            )
        return tools

    def _hang_up(self) -> None:
        for session in self._sessions:
            session.leave()
        self._sessions[:] = [each for each in self._sessions if each.lives]

    def close(self) -> None:
        """End the session, and wait for the server's process to end."""
        for session in self._sessions:
            finish(session.left(), f"the end of a session with {session.where}")

    # the game

    async def reset(self, seed: int) -> None:
        self._seed = None  # no seat may act if the beginning fails
        await self._connect()
        self._task = task_of(seed, self.tasks, self.held_out, "mcp")
        self._known: dict[str, Any] = {}
        self._over, self._right = False, False
        self._shown = self._task["question"]
        self._begun(seed)

    async def step(self, utterance: str) -> Step:
        said = self._heard(utterance)
        read = read_json(said, self._tools) if self.form == "json" else read_plain(said, self._tools, self._known)
        if isinstance(read, Answer):
            self._over, self._right = True, same(read.text, self._task["answer"])
            caption = f"the agent answers {read.text.strip()[:100]}, which is {'right' if self._right else 'wrong'}"
        elif isinstance(read, Unread):
            caption = f"the agent says nothing that could be read: {read.why}"[:400]
            self._shown = f"error {read.why}" if self.form == "plain" else response(f"error: {read.why}")
        else:
            caption = await self._call(read)
        if not self._over and len(self._said) + 1 >= self.horizon:
            self._over = True
            caption += ", and has no turns left"
        if self._over and self.fresh:
            self._hang_up()
        step = Step(
            rewards={SEAT: 1.0} if self._right else {},
            executable=not isinstance(read, Unread),
            terminated=self._over,
            caption=caption,
        )
        return self._written(said, step)

    async def _call(self, calls: list[Call]) -> str:
        results, names, told = [], [], []
        for call in calls:
            text, failed = await self._sessions[0].call(call.name, call.arguments)
            if not failed:
                names.append(next_name(self._known))
                self._known[names[-1]] = text
            results.append(f"error: {text}" if failed else text)
            told.append(f"{call}: {results[-1]}")
        failed_in_words = self.form == "plain" and failed
        self._shown = f"error {text}" if failed_in_words else shown(results, self.form, names)
        return f"the agent calls {'; '.join(told)}"[:400]

    def _acting(self) -> str | None:
        return None if self._over else SEAT

    def briefing(self, seat: str) -> str:
        return briefing(self._tools.values(), self.form, self.horizon)

    def observe(self) -> str:
        return self._shown

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._seed is not None and self._over and self._right)}

    def closing(self) -> dict[str, str]:
        if self._seed is None or not self._over:
            return {}
        return {SEAT: "right" if self._right else f"wrong ; the answer is {self._task['answer']}"}

    def facts(self) -> dict[str, str]:
        return {"answer": self._task["answer"]} if self._seed is not None and self._over else {}

    def _texts(self) -> Iterator[str]:
        """Of the tasks alone, for no server is asked. What tools return is in other words, too."""
        yield from (shown(["is"], "plain", [f"r{turn + 1}"]) for turn in range(self.horizon))
        for task in self.tasks:
            yield from (task["question"], task["answer"], *map(say_json, task["calls"]), "error right wrong")

    def _options(self) -> dict[str, Any]:
        return {"tasks": self.tasks, "form": self.form}

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial("all tasks", {"held_out": 0})]


def leave(sessions: list[Session]) -> None:
    """Of a game that is thrown away; nobody waits for it."""
    for session in sessions:
        submit(_leave(session))


async def _leave(session: Session) -> None:
    session.leave()


class Knowing:
    """Players who know the tasks: `wisdom` is the share of turns in which they do what leads to the answer."""

    wisdom = 1.0

    def __init__(self, tasks: str | Sequence[dict] = (), form: str = "json", **options: Any):
        self.tasks, self.form = tasks_of(tasks), form
        self.by_question = {task["question"]: task for task in self.tasks}

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"knowing {seed}")
        self.task: dict[str, Any] | None = None

    def reply(self, observation: str, actions: tuple[str, ...] = ()) -> str:
        if self.task is None:
            self.task = self.by_question[observation]
            self.left = list(self.task["calls"])
        if self.random.random() < self.wisdom:
            return self.call(self.left.pop(0)) if self.left else self.answer(self.task["answer"])
        other = self.random.choice(self.tasks)
        return self.call(self.random.choice(other["calls"])) if other["calls"] else self.answer(other["answer"])

    def call(self, call: Call) -> str:
        return say_json(call) if self.form == "json" else " ".join([call.name, *map(str, call.arguments.values())])

    def answer(self, text: str) -> str:
        return f"Answer: {text}" if self.form == "json" else f"answer {text}"


class Expert(Knowing):
    """Makes the calls that the task names, and answers: does every task."""


class Mediocre(Knowing):
    """The expert in half of its turns, and in the others any call that a task names."""

    wisdom = 0.5


class Random(Knowing):
    """Any call that a task names."""

    wisdom = 0.0


PLAYERS: dict[str, type[Knowing]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}


# options


def words_of(command: Any) -> list[str]:
    if isinstance(command, str):
        try:
            return shlex.split(command)
        except ValueError as error:
            raise ValueError(f"game option command={command!r} cannot be read: {error}") from None
    if not isinstance(command, list | tuple) or not all(isinstance(word, str) for word in command):
        raise ValueError(f"game option command={command!r} must be a list of words")
    return list(command)


def address(url: Any) -> str:
    if url == "":
        return ""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"game option url={url!r} must be like http://host:8000/mcp")
    return url


def tasks_of(tasks: Any) -> tuple[dict[str, Any], ...]:
    """Each with a question, an answer and calls."""
    return tasks_in(tasks, "game option tasks", _task)


def _task(where: str, task: Any) -> dict[str, Any]:
    like = "must be like {question: ..., answer: ..., calls: [...]}"
    if not isinstance(task, dict):
        raise ValueError(f"{where} {like}")
    if strange := sorted(map(str, set(task) - {"question", "answer", "calls"})):
        raise ValueError(f"{where} has {strange[0]!r}, and {like}")
    question, answer, calls = task.get("question"), task.get("answer"), task.get("calls", [])
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"{where} has no question")
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or not plain_answer(str(answer)):
        raise ValueError(f"{where} has no answer")
    if not isinstance(calls, list | tuple):
        raise ValueError(f"{where}: calls must be a list of {{name: ..., arguments: ...}}")
    return {"question": question, "answer": str(answer), "calls": [_call_of(where, call) for call in calls]}


def _call_of(where: str, call: Any) -> Call:
    if isinstance(call, Call):
        return call
    if isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("arguments", {}), dict):
        return Call(call["name"], call.get("arguments", {}))
    raise ValueError(f"{where}: calls must be a list of {{name: ..., arguments: ...}}")
