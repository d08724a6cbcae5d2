"""The process in which an environment of `verifiers` lives, run by the Python that has the package, without Parley:

    python -P verifiers_host.py '{"id": ..., "settings": ..., "tasks": 100, "first": 0}'

    to it, a line each      {"begin": 3}                  play task number 3 anew, whatever was going on
                            {"say": "..."}                what the seat that was asked says
    from it, a line each    {"seats": [...], "tasks": 7}  once, when it is ready; or {"refused": why}
                            {"seat": ..., "system": ..., "text": ...}    that seat is asked; text is what is new to it
                            {"over": {seat: reward}}      or {"failed": why}

verifiers drives its models: a program plays each seat and asks a server. Here that program is `Seat`, which runs in
this process and hands every conversation on as it is, and the server is one that waits for {"say": ...}. So any
taskset and any environment is played, the turns of whose seats are chats. What they print goes to standard error.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
import time
import types

import httpx
import verifiers.v1 as vf
from aiohttp import web
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.envs.single_agent import SingleAgentEnv
from verifiers.v1.utils.loaders import environment_class, load_environment, resolve_env_config

PROGRAM = "parley_seat"  # the name of the program that plays each seat


class SeatConfig(vf.HarnessConfig):
    pass


class Seat(vf.Harness[SeatConfig]):
    """One exchange: the conversation so far, and what is said to it."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        if mcp_urls:
            raise RuntimeError(f"the task needs tools ({', '.join(mcp_urls)}), and a seat of a game only talks")
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [{"role": each.role, "content": text_of(each.content)} for each in prompt or []]
        async with httpx.AsyncClient(timeout=None) as client:
            answer = await client.post(
                f"{endpoint.rstrip('/')}/chat/completions",
                headers={"Authorization": f"Bearer {secret}", "X-Parley-Seat": trace.agent.name},
                json={"model": ctx.model, "messages": messages},
            )
        if answer.status_code >= 400 and not trace.is_completed:
            raise RuntimeError(f"its server answered {answer.status_code}: {answer.text[:200]}")
        return vf.ProgramResult(0, "", "")


def text_of(content):
    """The text of a message, whose parts are objects in a task and JSON on the wire."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part.get("text") if isinstance(part, dict) else getattr(part, "text", None) for part in content)
    return "\n".join(text or "[something that is no text]" for text in texts)


class Table:
    """The one episode that is played, and the server that its seats ask."""

    def __init__(self, send):
        self.send = send
        self.begin()

    def begin(self):
        self.seen = {}  # by seat: how many messages it was shown
        self.waiting = None  # for what the asked seat says
        self.turn = asyncio.Lock()  # seats may ask at once, and are asked one after the other

    async def asked(self, request):
        body = await request.json()
        seat, messages = request.headers.get("X-Parley-Seat", "agent"), body["messages"]
        async with self.turn:
            new = messages[self.seen.get(seat, 0) :]
            self.seen[seat] = len(messages) + 1  # and its answer
            told = {True: [], False: []}
            for each in new:
                if each["role"] != "assistant":
                    told[each["role"] == "system"].append(text_of(each["content"]))
            self.waiting = asyncio.get_running_loop().create_future()
            self.send({"seat": seat, "system": "\n".join(told[True]), "text": "\n".join(told[False])})
            message = {"role": "assistant", "content": await self.waiting}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "parley", "object": "chat.completion", "created": 0, "model": body["model"]}
        return web.json_response({**whole, "choices": [choice], "usage": usage})

    def said(self, text):
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(text)


def configured(asked):
    """The environment's settings, every seat of it played by `Seat`."""
    module = types.ModuleType(PROGRAM)
    module.Seat, module.__all__ = Seat, ["Seat"]
    module.__spec__ = types.SimpleNamespace(name=PROGRAM, loader=None, submodule_search_locations=None)
    sys.modules[PROGRAM] = module
    data = {"taskset": {"id": asked["id"], **asked["settings"]}, "max_concurrent_agents": None}
    if asked["environment"]:
        data["id"] = asked["environment"]
    roles = {"agent": None}
    made_by = environment_class(asked["id"], asked["environment"])
    if made_by is not SingleAgentEnv:
        roles = agent_config_fields(resolve_env_config(data))
    for role in roles:
        data[role] = {"harness": {"id": PROGRAM}, "runtime": {"type": "subprocess"}}
    return resolve_env_config(data), list(roles)


def end_with(parent):
    """Whoever started this process may be killed while the environment computes and reads nothing."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def refusal(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


async def main():
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    wire = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what the environment prints is no message

    def send(message):
        print(json.dumps(message), file=wire, flush=True)

    asked = json.loads(sys.argv[1])
    try:
        config, roles = configured(asked)
        environment = load_environment(config)
        tasks = list(itertools.islice(environment.taskset, asked["first"], asked["first"] + asked["tasks"]))
        if not tasks:
            raise ValueError(f"it has no task number {asked['first']}")
    except (Exception, SystemExit) as error:
        send({"refused": refusal(error)})
        return
    table = Table(send)
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", table.asked)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    context = vf.ModelContext(
        model="parley", client=vf.EvalClientConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key_var="PARLEY_NO_KEY")
    )

    async def play(number):
        try:
            episode = await environment.run_episode(tasks[number % len(tasks)], context)
            failures = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
            if failures or not episode.ok:
                why = f"{failures[0].type}: {failures[0].message}" if failures else "it is not complete"
                send({"failed": " ".join(why.split())[:400]})
                return
            rewards = dict.fromkeys(roles, 0.0)
            for trace in episode.traces:
                rewards[trace.agent.name] = rewards.get(trace.agent.name, 0.0) + float(trace.reward)
            send({"over": rewards})
        except (Exception, SystemExit) as error:
            send({"failed": refusal(error)})

    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    playing = None
    async with environment.serving():
        send({"seats": roles, "tasks": len(tasks)})
        while line := await reader.readline():
            message = json.loads(line)
            if "say" in message:
                table.said(message["say"])
                continue
            if playing is not None and not playing.done():
                playing.cancel()
                await asyncio.wait([playing], timeout=10)
            table.begin()
            playing = asyncio.create_task(play(message["begin"]))
    if playing is not None:
        playing.cancel()


if __name__ == "__main__":
    asyncio.run(main())
