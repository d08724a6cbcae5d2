"""Rollout: what games, seats, exact token bookkeeping and log-probs cost on top of vLLM.

    parley        Play over VllmEngine: Twenty Questions with the embedded policy, demo recipe
    raw           the requests that Play made, put straight to the same vLLM engine with the
                  same sampling parameters (seed, log-probs), each for exactly as many tokens:
                  with the end of sequence ignored, max_tokens alone fixes that
    raw, bare     the same prompts and lengths without seeds or log-probs: the least vLLM can do
    transformers  Play over TransformersEngine, the same tickets

A request is asked as soon as the one it continues is answered, as Play asks it, so the
engine sees the same waves. `raw` samples the very tokens that Play got; the share that did
is reported. parley / raw is the price of Parley's own code; raw / bare that of seeds and
log-probs, which training cannot do without.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from benchmarks.games import Recorded, Recorder, demo, new_play, play_out, start_engine, tickets, tokens_made
from benchmarks.models import parameters_of, untrained
from benchmarks.report import Say, run_alone, short, spread_of
from benchmarks.rounds import cpu_ratio, ratio, speed, take_turns
from learners.embedded.build import build_policy

ROUNDS = 7
OTHERS = ("raw", "bare", "transformers")


class Played(NamedTuple):
    size: str | None  # of an untrained model; None: the demo's policy
    episodes: tuple[int, ...]  # that begin together
    rounds: int


PLAYED = (Played(None, (128, 256), ROUNDS), Played("10M", (32,), 5), Played("100M", (8,), 3))


def same_parameters(recorded: Recorded) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=recorded.request.temperature,
        seed=recorded.request.seed,
        max_tokens=len(recorded.made),
        ignore_eos=True,
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def bare_parameters(recorded: Recorded) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=recorded.request.temperature,
        max_tokens=len(recorded.made),
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


class RawVllm:
    """vLLM's LLMEngine with nothing around it. Prompts and parameters are made beforehand."""

    def __init__(self, llm_engine: Any, chains: list[list[Recorded]], parameters):
        self.engine, self.chains = llm_engine, chains
        self.prompts = [[{"prompt_token_ids": list(one.request.prompt_ids)} for one in chain] for chain in chains]
        self.parameters = [[parameters(one) for one in chain] for chain in chains]
        self.same = 0  # requests of the last run that got the recorded tokens

    def run(self) -> int:
        engine, place, tokens, self.same = self.engine, {}, 0, 0

        def ask(chain: int, turn: int) -> None:
            name = f"{chain}.{turn}"
            place[name] = chain, turn
            order = self.chains[chain][turn].request.order
            engine.add_request(name, self.prompts[chain][turn], self.parameters[chain][turn], priority=order)

        engine.reset_prefix_cache(reset_running_requests=True)
        for chain in range(len(self.chains)):
            ask(chain, 0)
        while engine.has_unfinished_requests():
            for output in engine.step():
                if not output.finished:
                    continue
                chain, turn = place.pop(output.request_id)
                made = output.outputs[0].token_ids
                tokens += len(made)
                self.same += tuple(made) == self.chains[chain][turn].made
                if turn + 1 < len(self.chains[chain]):
                    ask(chain, turn + 1)
        return tokens


def measure(quick: bool, say: Say) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="parley-rollout-") as folder:
        return {
            "models": {one.size or "demo": of_model(one, quick, Path(folder), say) for one in PLAYED[: quick or None]}
        }


def of_model(played: Played, quick: bool, folder: Path, say: Say) -> dict[str, Any]:
    at_once = f"rollout.engine.max_sequences={max(played.episodes)}"  # games begin together, as the raw requests do
    config, plain_config = (demo(f"rollout.engine.kind={kind}", at_once) for kind in ("vllm", "transformers"))
    say("the embedded policy (made in about a minute the first time)" if played.size is None else played.size)
    model = untrained(played.size, config, folder) if played.size else build_policy(config.game, config.model.embedded)
    say("starting vLLM")
    vllm, plain = start_engine(config, model), start_engine(plain_config, model)
    results = {}
    try:
        play, plain_play = new_play(config, model, vllm), new_play(plain_config, model, plain)
        for episodes in played.episodes[: quick or None]:
            say(f"{episodes} episodes")
            rounds = 3 if quick else played.rounds
            results[str(episodes)] = contest(config, episodes, model, vllm, play, plain_play, rounds)
    finally:
        plain.close()
        vllm.close()
    return {"parameters": parameters_of(model), "episodes": results}


def contest(config, episodes: int, model, vllm, play, plain_play, rounds: int) -> dict[str, Any]:
    wanted = tickets(config, episodes)
    recorder = Recorder(vllm)
    play_out(new_play(config, model, recorder), wanted)
    chains = recorder.chains()
    raw = RawVllm(vllm.engine, chains, same_parameters)
    bare = RawVllm(vllm.engine, chains, bare_parameters)
    contestants = {
        "parley": lambda: tokens_made(play_out(play, wanted)),
        "raw": raw.run,
        "bare": bare.run,
        "transformers": lambda: tokens_made(play_out(plain_play, wanted)),
    }
    for warm_up in contestants.values():
        warm_up()
    samples = take_turns(contestants, rounds)
    expected = sum(len(one.made) for chain in chains for one in chain)
    for name in ("parley", "raw", "bare"):
        if any(sample.tokens != expected for sample in samples[name]):
            raise RuntimeError(f"{name} made {samples[name][0].tokens} tokens, not the {expected} that were recorded")
    requests = sum(map(len, chains))
    return {
        "requests": requests,
        "generated_tokens": expected,
        "requests_with_the_recorded_tokens": raw.same / requests,
        "tokens_per_second": {name: asdict(speed(each)) for name, each in samples.items()},
        "parley_to": {name: asdict(ratio(samples["parley"], samples[name])) for name in OTHERS},
        "parley_to_cpu": {name: asdict(cpu_ratio(samples["parley"], samples[name])) for name in OTHERS},
        "samples": {name: [asdict(sample) for sample in each] for name, each in samples.items()},
    }


LABELS = {
    "parley": "Parley on vLLM",
    "raw": "raw vLLM, same requests",
    "bare": "raw vLLM, no seeds, no log-probs",
    "transformers": "Parley on transformers",
}


def tables(result: dict[str, Any]) -> list[Table]:
    made = []
    for found in result["models"].values():
        size = short(found["parameters"])
        table = Table(title=f"Rollout: Twenty Questions, embedded policy, {size} parameters", title_justify="left")
        table.add_column("episodes", justify="right")
        table.add_column("")
        for heading in ("tokens/s", "Parley / this, wall", "Parley / this, CPU"):
            table.add_column(heading, justify="right")
        for episodes, one in found["episodes"].items():
            for name, label in LABELS.items():
                against = [one[key].get(name) for key in ("parley_to", "parley_to_cpu")]
                table.add_row(
                    episodes if name == "parley" else "",
                    label,
                    spread_of(one["tokens_per_second"][name], ",.0f"),
                    *("" if times is None else spread_of(times, ".2f") for times in against),
                    end_section=name == "transformers",
                )
        made.append(table)
    return made


if __name__ == "__main__":
    run_alone("rollout", measure, tables)
