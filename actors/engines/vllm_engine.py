"""The vLLM engine of a rollout worker, in the worker's own process.

vLLM's engine core runs in-process and without asynchronous scheduling, so the thread that
calls `step` is the only one that ever touches it: between two steps nothing is in motion,
and that is when weights change.

Finishing an update preempts every running request and empties the prefix cache, so the
next token of each request is made from keys and values of the new weights alone. The
log-prob stored with a token is therefore the log-prob under the weights of that token's
own version, over its whole prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.engines import vllm_platform
from actors.engines.contract import Completion, Part, Request, Scored, counted
from actors.engines.resting import refuse_while_resting, refuse_without_weights
from actors.engines.vllm_processes import EngineProcesses
from actors.settings import EngineSettings
from actors.transport.adapter import AdapterReceiver, scale_of
from actors.transport.receipt import Fault, Receipt
from actors.transport.tally import Tally

BACKENDS = {"nccl": "broadcast", "gloo": "broadcast", "ipc": "same_memory"}  # vLLM has engines of its own of such names
ADAPTER = ("policy", 1)  # name and id of the one adapter slot
TAGS: dict[Part, str] = {"weights": "weights", "cache": "kv_cache"}  # vLLM's names of what sleeps
SCORE_FIRST = -1  # vLLM's priority of scoring requests; those of play have their order, from 0 on


def prompt_logprobs(output, first: int = 1) -> np.ndarray:
    """Log-prob of each prompt token from place `first` on. What the cache held may have no rows, so they are counted
    from the end."""
    found, ids = output.prompt_logprobs, list(output.prompt_token_ids[first:])
    starts = found.start_indices[-len(ids) :]
    if [found.token_ids[start] for start in starts] != ids:
        raise RuntimeError(f"request {output.request_id}: vLLM scored other tokens than the prompt's")
    return np.asarray([found.logprobs[start] for start in starts], np.float32)


@dataclass(slots=True)
class Listing:
    """A request whose listed utterances are being scored, each in a vLLM request of its own."""

    request: Request
    logprobs: list[np.ndarray | None]
    versions: list[int]


class VllmEngine:
    def __init__(
        self,
        settings: EngineSettings,
        model_path: str,
        *,
        transport: str | None = "shared_memory",
        lora_rank: int = 0,
        seed: int = 0,
        version: int = 0,
        ray_metrics: bool = False,
        trust_remote_code: bool = False,
        on_gpu: bool = False,
        record_experts: bool = False,
        name: str | None = None,  # of the model, in the engine's own metrics
    ):
        self.processes = EngineProcesses() if settings.tensor_parallel > 1 else None  # of its own, which compute
        eager = vllm_platform.import_vllm(settings, on_gpu, self.processes and self.processes.folder.path)
        from vllm import EngineArgs
        from vllm.config import WeightTransferConfig
        from vllm.lora.request import LoRARequest
        from vllm.v1.engine.llm_engine import LLMEngine

        vllm_platform.check_platform(on_gpu)
        if settings.tensor_parallel > 1 and transport == "object_store":
            raise ValueError(
                f"rollout.engine.tensor_parallel={settings.tensor_parallel} cannot sync over the object store: "
                "set learner.sync.transport to nccl or gloo, or to shared_memory on one node"
            )
        self.adapter = AdapterReceiver(lora_rank, model_path, trust_remote_code) if lora_rank else None
        self.lora = LoRARequest(*ADAPTER, str(self.adapter.folder)) if self.adapter else None
        arguments: dict[str, Any] = {"served_model_name": name}
        if self.adapter:
            capacity = vllm_platform.lora_capacity(lora_rank)
            arguments |= {"enable_lora": True, "max_loras": 1, "max_cpu_loras": 1, "max_lora_rank": capacity}
            # vLLM would wrap the output head too, and its wrapper there cannot compute prompt log-probs.
            arguments["lora_target_modules"] = self.adapter.projections
        elif transport is not None:
            arguments["weight_transfer_config"] = WeightTransferConfig(backend=BACKENDS.get(transport, transport))
        if settings.sleep and not on_gpu:
            raise ValueError("rollout.engine.sleep=true needs a GPU, or rollout.engine.kind=transformers")
        if on_gpu:
            arguments |= vllm_platform.card_memory(settings) | {"enable_sleep_mode": bool(settings.sleep)}
        else:
            arguments |= vllm_platform.node_memory(settings)
        # On CPU a seeded request cannot be sampled after a part of its prompt (vLLM would rewind
        # the generator, which a CPU one cannot): there a prompt is computed whole or waits.
        least = settings.max_sequences if on_gpu else settings.max_context
        step_tokens = max(settings.max_batched_tokens, least)
        dtype = "float32" if settings.dtype == "auto" else settings.dtype
        stat_loggers = vllm_platform.ray_stat_loggers() if ray_metrics else None
        engine_args = EngineArgs(
            model=model_path,
            dtype=dtype,
            seed=seed,
            max_model_len=settings.max_context,
            max_num_seqs=settings.max_sequences,
            max_num_batched_tokens=step_tokens,
            enable_chunked_prefill=on_gpu,
            enable_prefix_caching=settings.prefix_caching,
            enforce_eager=eager,
            tensor_parallel_size=settings.tensor_parallel,
            distributed_executor_backend="uni" if settings.tensor_parallel == 1 else "mp",
            skip_tokenizer_init=True,
            generation_config="vllm",  # never the model's own sampling defaults
            logprobs_mode="processed_logprobs",
            scheduling_policy="priority",
            async_scheduling=False,
            disable_log_stats=not ray_metrics,
            use_tqdm_on_load=False,
            trust_remote_code=trust_remote_code,
            enable_return_routed_experts=record_experts,
            worker_extension_cls="actors.transport.vllm_receiver.KnowsTransports",
            **arguments,
        )
        with self.processes.starting() if self.processes else nullcontext():
            self.engine = LLMEngine.from_engine_args(engine_args, stat_loggers=stat_loggers)
        self.version = version
        self.engine.set_weight_version(str(version))
        if self.lora:
            self.load_adapter()
        self.receipt = Receipt()
        self.updating = False
        self.unusable = ""
        self.asleep: set[Part] = set()
        self.live: set[str] = set()
        self.scheduler, self.left_waiting = self.engine.engine_core.engine_core.scheduler, 0  # by the last step
        self.held: list[Completion] = []  # finished while scoring
        self.scored: dict[str, np.ndarray] = {}
        self.listings: dict[str, Listing] = {}
        self.parts: dict[str, tuple[Listing, int, bool]] = {}  # vLLM's request -> which utterance it scores, and how
        self.scores_made = 0
        self.counters = {"prompt_tokens": 0, "cached_tokens": 0, "generated_tokens": 0, "requests": 0, "steps": 0}

    def load_adapter(self) -> None:
        """Put the received adapter in the one slot that every request, in flight or new, refers to."""
        from vllm.lora.request import LoRARequest

        self.engine.add_lora(LoRARequest(*ADAPTER, str(self.adapter.folder), load_inplace=True))

    def submit(self, request: Request) -> None:
        if request.listed:
            count = len(request.listed)
            self.listings[request.id] = Listing(request, [None] * count, [-1] * count)
            for index in range(count):
                self._score_listed(self.listings[request.id], index, read_cache=True)
            return
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        self.engine.add_request(
            request.id,
            tokens_input(list(request.prompt_ids)),
            SamplingParams(
                temperature=request.temperature,
                seed=request.seed,
                max_tokens=request.max_tokens,
                stop_token_ids=list(request.stop_ids),
                ignore_eos=True,  # the stop ids say it all
                logprobs=0,
                flat_logprobs=True,
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
                routed_experts_prompt_start=request.experts_from,
                skip_clone=True,  # nobody else has it
            ),
            lora_request=self.lora,
            priority=request.order,
        )
        self.live.add(request.id)

    def step(self) -> list[Completion]:
        refuse_while_resting(self)
        done, self.held = self.held, []
        if self.engine.has_unfinished_requests():
            done += self.advance()
        return done

    def advance(self) -> list[Completion]:
        self.counters["steps"] += 1
        done = []
        outputs = self.engine.step()
        self.left_waiting = self.scheduler.get_request_counts()[1]
        for output in outputs:
            if not output.finished:
                continue
            if output.request_id in self.live:
                self.live.discard(output.request_id)
                done.append(self.completion(output))
            elif output.request_id in self.parts:
                done += self._listed_scored(output)
            else:
                self.scored[output.request_id] = prompt_logprobs(output)
        return done

    def completion(self, output) -> Completion:
        (made,) = output.outputs
        ids = np.asarray(made.token_ids, np.int32)
        logprobs = np.asarray(made.logprobs.logprobs, np.float32)
        if list(made.logprobs.token_ids) != list(made.token_ids) or made.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"request {output.request_id}: vLLM returned {made}")
        versions = np.full(len(ids), -1, np.int32)
        for span in made.weight_versions:
            versions[span.start : span.end] = int(span.version)
        if (versions < 0).any():
            raise RuntimeError(f"request {output.request_id}: tokens without a weight version: {made.weight_versions}")
        self.counters["requests"] += 1
        self.counters["prompt_tokens"] += len(output.prompt_token_ids)
        self.counters["cached_tokens"] += output.num_cached_tokens or 0
        self.counters["generated_tokens"] += len(ids)
        return Completion(output.request_id, ids, logprobs, versions, made.finish_reason, made.routed_experts)

    def _score_listed(self, listing: Listing, index: int, read_cache: bool) -> None:
        ids = [*listing.request.prompt_ids, *listing.request.listed[index]]
        self.parts[self._add_score(ids, listing.request.order, read_cache)] = listing, index, read_cache

    def _listed_scored(self, output) -> list[Scored]:
        """One utterance's log-probs have come; answers the request when all have, of one version.
        Where the cache held a part of the utterance itself, what predicts it was not computed."""
        listing, index, read_cache = self.parts.pop(output.request_id)
        request, (made,), rows = listing.request, output.outputs, len(output.prompt_logprobs.start_indices)
        cached = (output.num_cached_tokens or 0) >= len(request.prompt_ids) or rows <= len(request.listed[index])
        if read_cache and cached:
            self._score_listed(listing, index, read_cache=False)
            return []
        listing.logprobs[index] = prompt_logprobs(output, len(request.prompt_ids))
        listing.versions[index] = int(made.weight_versions[0].version)
        if any(logprobs is None for logprobs in listing.logprobs):
            return []
        newest = max(listing.versions)
        older = [place for place, version in enumerate(listing.versions) if version < newest]
        for place in older:  # a sync came in between
            listing.logprobs[place] = None
            self._score_listed(listing, place, read_cache=True)
        if older:
            return []
        del self.listings[request.id]
        self.counters["requests"] += 1
        return [Scored(request.id, listing.logprobs, newest)]

    def abort(self, ids: list[str]) -> None:
        known = [request for request in ids if request in self.live]
        scoring = [name for name, (listing, *_) in self.parts.items() if listing.request.id in ids]
        self.engine.abort_request(known + scoring)
        self.live.difference_update(known)
        for name in scoring:
            self.listings.pop(self.parts.pop(name)[0].request.id, None)
        self.held = [completion for completion in self.held if completion.id not in ids]

    def busy(self) -> bool:
        return bool(self.held) or self.engine.has_unfinished_requests()

    def room(self) -> int:
        running, waiting = self.scheduler.get_request_counts()
        left = min(self.left_waiting, waiting)  # for want of cache
        return 0 if left else max(0, self.scheduler.max_num_running_reqs - running - waiting)

    def score(self, sequences: list[list[int]]) -> list[np.ndarray]:
        """Prompt log-probs are never read from the prefix cache. Requests in flight share the
        steps this takes; what finishes meanwhile is returned by the next `step`."""
        refuse_while_resting(self)
        names = [self._add_score(ids, SCORE_FIRST, read_cache=False) for ids in sequences]
        while not all(name in self.scored for name in names):
            self.held += self.advance()
        return [self.scored.pop(name) for name in names]

    def _add_score(self, ids: list[int], priority: int, read_cache: bool) -> str:
        """Ask vLLM for these tokens' log-probs; those of tokens it has cached are not computed."""
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        self.scores_made += 1
        name = f"score-{self.scores_made}"
        params = SamplingParams(
            temperature=1.0,
            max_tokens=1,
            prompt_logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            ignore_eos=True,
            skip_reading_prefix_cache=not read_cache,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )
        self.engine.add_request(name, tokens_input(list(ids)), params, lora_request=self.lora, priority=priority)
        return name

    def metrics(self) -> dict[str, float]:
        return counted(self.counters)

    def forget(self) -> None:
        """Empty the prefix cache, so that what follows does not depend on what went before."""
        self.engine.reset_prefix_cache(reset_running_requests=True)

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        if self.adapter is None:
            self.engine.collective_rpc("init_weight_transfer_engine", args=(init_info,))

    def sleep(self) -> None:
        """vLLM's level 1: the weights wait in the host's memory, whatever a weight update would
        not bring (LoRA's base, buffers, scales) with them; keys and values are dropped. `keep`
        leaves requests with the scheduler, which preempts them."""
        if self.asleep != {"weights", "cache"}:  # the weights may have woken for an update that broke off
            self.engine.sleep(level=1, mode="keep")
            self.asleep = {"weights", "cache"}

    def wake(self, part: Part) -> None:
        if part in self.asleep:
            self.engine.wake_up([TAGS[part]])
            self.asleep.discard(part)

    def start_weight_update(self) -> None:
        refuse_without_weights(self)
        if self.adapter is None:
            if self.updating or self.unusable:
                self.engine.collective_rpc("drop_weight_update")
            for step in ("watch_weights", "start_weight_update", "note_weights"):
                self.engine.collective_rpc(step)
        else:
            self.adapter.start()
        self.updating = True

    def update_weights(self, update_info: dict[str, Any]) -> None:
        with self.one_update_step():
            if self.adapter is None:
                self.engine.collective_rpc("update_weights", args=(update_info,))
            else:
                self.adapter.receive(update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        with self.one_update_step():
            if self.adapter is None:
                self.engine.collective_rpc("finish_weight_update")
            else:
                self.adapter.finish()
                self.load_adapter()
            arrived, faults = self.held_adapter() if self.adapter else self.held_weights()
        self.forget()
        self.version = self.version + 1 if weight_version is None else int(weight_version)
        self.receipt = Receipt(self.version, arrived, faults)
        self.engine.set_weight_version(str(self.version))
        self.updating, self.unusable = False, ""

    def held_weights(self) -> tuple[dict[str, int], list[Fault]]:
        from actors.transport.vllm_held import together

        return together(self.engine.collective_rpc("held_weights"))

    def held_adapter(self) -> tuple[dict[str, int], list[Fault]]:
        arrived = Tally()
        for name, tensor in self.adapter.tensors.items():
            arrived.arrives(name, tensor)
        arguments = ADAPTER[1], self.adapter.tensors, scale_of(self.adapter.config)
        ranks = self.engine.collective_rpc("held_adapter", args=arguments)
        return arrived.arrived_numbers(), [fault for faults in ranks for fault in faults]

    @contextmanager
    def one_update_step(self) -> Iterator[None]:
        """A step of an update that fails leaves a mixture of weights: no token is made of it
        until a whole update has gone through."""
        if not self.updating:
            raise RuntimeError("start_weight_update has to come first")
        try:
            yield
        except BaseException as error:
            self.updating, self.unusable = False, f"a weight update broke off: {type(error).__name__}: {error}"
            raise

    def broken(self) -> str:
        executor = self.engine.engine_core.engine_core.model_executor
        return "a process of the engine died" if self.processes and executor.is_failed else ""

    def close(self) -> None:
        if self.adapter:
            self.adapter.close()
        self.engine.engine_core.shutdown()
        if self.processes:
            self.processes.close()
