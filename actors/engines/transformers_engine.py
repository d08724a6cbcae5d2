"""A plain batched sampler on a Hugging Face model, behind the same contract as vLLM.

For debugging, and for tiny models, where vLLM's work per request outweighs the model's.
Every sequence has a row: its tokens so far, and how many of them have keys and values in
the cache. One step feeds each row what it has not computed yet and samples one token from
its end, so a fresh prompt, a growing one and plain decoding are one case. A weight update
sets every row's computed count to zero: the next token is made wholly by the new weights.

Finished rows stay warm: a prompt that continues one is computed from where it stopped. Each request's random numbers
are drawn from its own seed when it is submitted, so what it samples does not depend on who else is in the batch. All
work per token is vectorised; Python runs per request only. Memory: max_sequences rows of max_context positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from actors.engines.architectures import check_plain_plays
from actors.engines.branches import Feed, feed, passes
from actors.engines.contract import Completion, Part, Request, Scored, counted
from actors.engines.direct import direct
from actors.engines.resting import refuse_while_resting, refuse_without_weights
from actors.engines.routing import RoutingRecord
from actors.engines.rows import Rows, Waiting
from actors.engines.slot_cache import SlotCache
from actors.settings import EngineSettings
from actors.transport.adapter import AdapterReceiver, scale_of
from actors.transport.broadcast import BROADCASTS, BroadcastReceiver
from actors.transport.bucket import BadBucket, tensors_of
from actors.transport.object_store import read_object_store
from actors.transport.parts import CheckpointWeights
from actors.transport.receipt import Receipt
from actors.transport.same_memory import SameMemoryReceiver
from actors.transport.shared_memory import read_shared_memory
from actors.transport.tally import Tally

READERS = {"shared_memory": read_shared_memory, "object_store": read_object_store}
STOP_IDS = 8  # most stop ids of one request


class TransformersEngine:
    def __init__(
        self,
        settings: EngineSettings,
        model_path: str,
        *,
        transport: str | None = "shared_memory",
        lora_rank: int = 0,
        version: int = 0,
        trust_remote_code: bool = False,
        on_gpu: bool = False,
        record_experts: bool = False,
    ):
        if settings.tensor_parallel > 1:
            raise ValueError(
                f"rollout.engine.kind=transformers runs on one device, not tensor_parallel={settings.tensor_parallel}"
            )
        config = AutoConfig.from_pretrained(model_path, trust_remote_code=trust_remote_code)
        check_plain_plays(config, model_path, settings.max_context)
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        dtype = "float32" if settings.dtype == "auto" else settings.dtype
        self.capped = getattr(config, "attn_logit_softcapping", None) is not None  # which sdpa would leave out
        self.model = AutoModelForCausalLM.from_pretrained(
            model_path,
            dtype=getattr(torch, dtype),
            attn_implementation="eager" if self.capped else "sdpa",
            trust_remote_code=trust_remote_code,
        )
        self.model = self.model.to(self.device).eval().requires_grad_(False)
        self.tally = Tally()
        self.weights = CheckpointWeights(self.model, self.tally)
        self.settings = settings
        self.version = version
        self.receiver = BroadcastReceiver() if transport in BROADCASTS else SameMemoryReceiver(self.device)
        self.read = READERS.get(transport, self.receiver.read)
        self.adapter = AdapterReceiver(lora_rank, model_path, trust_remote_code) if lora_rank else None
        self.base_weights: dict[str, torch.Tensor] = {}  # of modules that carry an adapter; in the machine's memory
        self.receipt = Receipt()
        self.updating, self.unusable = False, ""
        self.asleep: set[Part] = set()

        rows, width = settings.max_sequences, settings.max_context
        self.cache = SlotCache(config.num_hidden_layers, rows, width)
        self.requests: list[Request | None] = [None] * rows  # who is being played in each row
        self.row_of: dict[str, int] = {}
        self.direct = direct(self.model, self.cache)
        self.routing = RoutingRecord(self.model, rows, width) if record_experts else None
        self.tokens = np.zeros((rows, width), np.int64)
        self.logprobs = np.zeros((rows, width), np.float32)
        self.versions = np.zeros((rows, width), np.int32)
        self.known = np.zeros(rows, np.int64)  # tokens in the row
        self.computed = np.zeros(rows, np.int64)  # of them, with keys and values in the cache
        self.prompt = np.zeros(rows, np.int64)
        self.end = np.zeros(rows, np.int64)  # tokens at which the row is full
        self.playing = np.zeros(rows, bool)
        self.temperature = np.ones(rows, np.float32)
        self.draws = np.zeros((rows, width))  # uniform numbers, by position
        self.stops = np.full((rows, STOP_IDS), -1, np.int64)
        self.rows = Rows(rows)
        self.waiting = Waiting()
        self.counters = {"prompt_tokens": 0, "cached_tokens": 0, "generated_tokens": 0, "requests": 0, "steps": 0}

    def submit(self, request: Request) -> None:
        longest = max([request.max_tokens, *(len(ids) for ids in request.listed)])
        if not request.prompt_ids or request.max_tokens < 1 or len(request.stop_ids) > STOP_IDS:
            raise ValueError(f"request {request.id}: needs a prompt, room for a token, at most {STOP_IDS} stop ids")
        if len(request.prompt_ids) + longest > self.settings.max_context:
            raise ValueError(
                f"request {request.id}: {len(request.prompt_ids)} prompt tokens and {longest} more exceed "
                f"rollout.engine.max_context={self.settings.max_context}"
            )
        self.waiting.add(request)

    def busy(self) -> bool:
        return bool(self.waiting or self.row_of)

    def room(self) -> int:
        return max(0, self.rows.free() - len(self.waiting.heap))

    def abort(self, ids: list[str]) -> None:
        gone = set(ids)
        self.waiting.drop(gone)
        for name in gone & self.row_of.keys():
            self._release(self.row_of[name], keep=False)

    def step(self) -> list[Completion | Scored]:
        refuse_while_resting(self)
        admitted = []
        while self.waiting and self.rows.free():
            admitted.append(self._admit(self.waiting.next()))
        scored = self._score_listed([row for row in admitted if self.requests[row].listed])
        rows = np.flatnonzero(self.playing)
        self.counters["steps"] += len(rows) > 0 or len(scored) > 0
        fresh = self.known[rows] - self.computed[rows]
        decoding = rows[fresh == 1]
        if len(decoding):
            self._advance(decoding)
        filling = rows[fresh > 1]
        filling = filling[np.argsort(fresh[fresh > 1], kind="stable")]
        for batch in self._batches(filling, self.known[filling] - self.computed[filling]):
            self._advance(np.sort(batch))
        return scored + [self._completion(row) for row in rows[~self.playing[rows]]]

    def _batches(self, rows: np.ndarray, fresh: np.ndarray) -> list[np.ndarray]:
        """Rows in order of their new tokens, cut so that a padded batch stays within the step's tokens."""
        batches, start = [], 0
        for index, longest in enumerate(fresh):
            if index > start and (index + 1 - start) * longest > self.settings.max_batched_tokens:
                batches.append(rows[start:index])
                start = index
        return [*batches, rows[start:]] if len(rows) else []

    def _admit(self, request: Request) -> int:
        prompt = np.asarray(request.prompt_ids, np.int64)
        row, computed = self.rows.take(prompt)
        name = len(prompt)
        self.requests[row], self.row_of[request.id] = request, row
        self.tokens[row, :name] = prompt
        self.known[row] = self.prompt[row] = name
        self.computed[row] = computed
        self.end[row] = name + request.max_tokens
        self.temperature[row] = request.temperature
        generator = torch.Generator().manual_seed(request.seed)
        self.draws[row, name : self.end[row]] = torch.rand(request.max_tokens, generator=generator, dtype=torch.float64)
        self.stops[row] = -1
        self.stops[row, : len(request.stop_ids)] = request.stop_ids
        self.playing[row] = not request.listed
        self.counters["prompt_tokens"] += name
        self.counters["cached_tokens"] += computed
        return row

    def _release(self, row: int, keep: bool) -> None:
        self.row_of.pop(self.requests[row].id)
        self.requests[row], self.playing[row] = None, False
        keep = keep and self.settings.prefix_caching
        self.rows.give_back(row, self.tokens[row, : self.computed[row] if keep else 0])

    @torch.inference_mode()
    def _advance(self, rows: np.ndarray) -> None:
        """Compute what these rows, in their order, lack and sample one token for each."""
        served, fresh = rows, self.known[rows] - self.computed[rows]
        queries, positions = int(fresh.max()), self.cache.positions
        first, after = int(rows[0]), int(rows[-1]) + 1
        gaps = after - first - len(rows)
        in_place = gaps == 0 or queries == 1 and gaps < len(rows)
        if gaps and in_place:  # idle rows between are padding: cheaper than gathering the others' keys
            served = np.arange(first, after)
            fresh = np.isin(served, rows).astype(np.int64)
        # Shorter rows are padded on the left, so that the last query is every row's newest token.
        place = self.computed[served, None] + np.arange(queries) - (queries - fresh)[:, None]
        padding = place < self.computed[served, None]
        place[padding] = 0
        ids = self.tokens[served[:, None], place]
        target = np.where(padding, self.cache.rows, served[:, None]) * positions + place
        position, length = self._tensor(place), int(self.known[rows].max())
        self.cache.aim.at(self._tensor(target.ravel()), slice(first, after) if in_place else self._tensor(rows), length)
        visible = torch.arange(length, device=self.device) <= position[:, None, :, None]
        logits = self._logits(ids, position, visible, 1)[:, -1]
        if self.routing:
            unfed = np.where(self.known > self.prompt, self.known - 1, 0)[served, None]
            self.routing.keep(served, place, ~padding & (place >= unfed))
        self.computed[rows] = self.known[rows]
        self._sample(rows, logits[self._tensor(rows - first)] if in_place and gaps else logits)

    def _logits(self, ids: np.ndarray, position: torch.Tensor, visible: torch.Tensor, last: int) -> torch.Tensor:
        """float32 [rows, last, vocabulary]: of the last queries, which the cache's aim says how to place."""
        if self.direct:
            return self.direct(self._tensor(ids), position, visible, last)
        if self.capped:  # eager adds the mask to the scores
            visible = torch.zeros(visible.shape, device=self.device).masked_fill(~visible, -torch.inf)
        return self.model(
            input_ids=self._tensor(ids),
            attention_mask=visible,
            position_ids=position,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=last,
        ).logits.float()

    def _score_listed(self, rows: list[int]) -> list[Scored]:
        """All at once, so that every log-prob of a request is by the same weights."""
        listed = {row: self.requests[row].listed for row in rows}
        found = {row: [np.empty(len(ids), np.float32) for ids in listed[row]] for row in rows}
        prompts = {row: self.tokens[row, : self.known[row]] for row in rows}
        todo = {row: passes(prompts[row], self.computed[row], listed[row], self.cache.positions) for row in rows}
        while now := sorted(((row, todo[row].pop(0)) for row in rows if todo[row]), key=lambda each: len(each[1])):
            for part in self._batches(np.arange(len(now)), np.array([len(fed) for _, fed in now])):
                fed = feed([now[index] for index in part], listed, self.cache.rows)
                fed.hand_out(self._branch(fed), found)
        scored = [Scored(self.requests[row].id, found[row], self.version) for row in rows]
        self.counters["requests"] += len(rows)
        for row in rows:
            self._release(row, keep=True)
        return scored

    @torch.inference_mode()
    def _branch(self, fed: Feed) -> np.ndarray:
        """float32: the log-probs that are read off one forward pass."""
        places, length = self._tensor(fed.places), int(fed.places.max()) + 1
        written = self._tensor((fed.owners * self.cache.positions + fed.places).reshape(-1))
        self.cache.aim.at(written, self._tensor(fed.rows), length)
        seen = torch.arange(length, device=self.device)
        prompt = seen < self._tensor(self.known[fed.rows])[:, None, None, None]
        own = seen >= self._tensor(fed.begins)[:, None, :, None]
        visible = (seen <= places[:, None, :, None]) & (prompt | own)
        last = int(fed.back.max()) + 1
        logp = self._logits(fed.ids, self._tensor(fed.positions), visible, last).log_softmax(-1)
        self.computed[fed.rows] = self.known[fed.rows]
        line, column, target = (self._tensor(array) for array in (fed.line, last - 1 - fed.back, fed.target))
        return logp[line, column, target].cpu().numpy()

    def _sample(self, rows: np.ndarray, logits: torch.Tensor) -> None:
        """By inverting the cumulative distribution; temperature 0 takes the likeliest token."""
        at = self.known[rows]
        temperature = self._tensor(self.temperature[rows])[:, None]
        logp = torch.log_softmax(logits / torch.where(temperature > 0, temperature, 1.0), -1)
        mass = logp.double().exp().cumsum(-1)
        drawn = self._tensor(self.draws[rows, at])[:, None] * mass[:, -1:]
        sampled = torch.searchsorted(mass, drawn, right=True).clamp_(max=logits.shape[-1] - 1)
        sampled = torch.where(temperature > 0, sampled, logp.argmax(-1, keepdim=True))
        self.logprobs[rows, at] = logp.gather(1, sampled)[:, 0].cpu().numpy()
        sampled = sampled[:, 0].cpu().numpy()
        self.tokens[rows, at] = sampled
        self.versions[rows, at] = self.version
        self.known[rows] += 1
        stopped = (sampled[:, None] == self.stops[rows]).any(1)
        self.playing[rows] = ~(stopped | (self.known[rows] == self.end[rows]))

    def _completion(self, row: int) -> Completion:
        request, said = self.requests[row], slice(self.prompt[row], self.known[row])
        ids = self.tokens[row, said].astype(np.int32)
        finish = "stop" if ids[-1] in request.stop_ids else "length"
        experts = self.routing.of(row, request.experts_from, self.computed[row]) if self.routing else None
        made = self.logprobs[row, said].copy(), self.versions[row, said].copy()
        self.counters["requests"] += 1
        self.counters["generated_tokens"] += len(ids)
        self._release(row, keep=True)
        return Completion(request.id, ids, *made, finish, experts)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    @torch.inference_mode()
    def score(self, sequences: list[list[int]]) -> list[np.ndarray]:
        refuse_while_resting(self)
        scores = []
        for sequence in sequences:
            ids = torch.tensor([sequence], device=self.device)
            logp = torch.log_softmax(self.model(input_ids=ids, use_cache=False).logits[0, :-1].float(), -1)
            scores.append(logp.gather(1, ids[0, 1:, None])[:, 0].cpu().numpy())
        return scores

    def metrics(self) -> dict[str, float]:
        return counted(self.counters)

    def forget(self) -> None:
        """Drop every key and value; rows in play are computed again before their next token."""
        self.computed[:] = 0
        self.rows.forget()

    def sleep(self) -> None:
        self.forget()
        self.cache.free()
        self.model.to("cpu")  # on a CPU they stay where they are
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.asleep = {"weights", "cache"}

    def wake(self, part: Part) -> None:
        if part == "weights":
            self.model.to(self.device)
        self.asleep.discard(part)

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.receiver.meet(init_info)

    def start_weight_update(self) -> None:
        refuse_without_weights(self)
        if self.adapter:
            self.adapter.start()
        self.tally.begin()
        self.updating = True

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._only_updating()
        try:
            if self.adapter:
                self.adapter.receive(update_info)
            else:
                self.weights.load(tensors_of(update_info, self.read(update_info)))
        except BaseException as error:
            self._broke_off(error)
            raise

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._only_updating()
        try:
            if self.adapter:
                self.adapter.finish()
                self._merge_adapter()
            self.receiver.finish()
            faults = self.tally.faults() if self.adapter else self.weights.faults()
        except BaseException as error:
            self._broke_off(error)
            raise
        self.forget()
        self.version = self.version + 1 if weight_version is None else int(weight_version)
        self.receipt = Receipt(self.version, self.tally.arrived_numbers(), faults)
        self.updating, self.unusable = False, ""

    def _only_updating(self) -> None:
        if not self.updating:
            raise RuntimeError("start_weight_update has to come first")

    def _broke_off(self, error: BaseException) -> None:
        """A mixture of weights makes no token until a whole update has gone through."""
        self.updating, self.unusable = False, f"a weight update broke off: {type(error).__name__}: {error}"

    def _merge_adapter(self) -> None:
        """W = base + scale * B A, from the untouched base weights each time."""
        config, tensors = self.adapter.config, self.adapter.tensors
        scale = scale_of(config)
        for key, tensor in tensors.items():
            self.tally.arrives(key, tensor)
        own = self.model.state_dict()
        for name, weight in self.base_weights.items():
            own[name].copy_(weight)
        for key in (key for key in tensors if key.endswith(".lora_A.weight")):
            name = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight") + ".weight"
            if name not in own:
                raise BadBucket(f"the adapter changes {name!r}, which the model does not have")
            if name not in self.base_weights:
                self.base_weights[name] = own[name].to("cpu", copy=True)
            down, up = tensors[key].float(), tensors[key.replace("lora_A", "lora_B")].float()
            merged = own[name].float() + scale * (up @ down).to(own[name].device)
            self.tally.expect(key, name, merged, tensors[key], own[name].dtype)
            own[name].copy_(merged)
            self.tally.find(key, name, own[name])

    def broken(self) -> str:
        return ""  # it is this process alone

    def close(self) -> None:
        self.receiver.leave()
        if self.adapter:
            self.adapter.close()
