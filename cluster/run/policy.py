"""The policy a run starts from, as a folder that learners and engines load alike."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.errors import ConfigError, RunError
from cluster.recipe.config import RunConfig
from cluster.record.checkpoints import MANIFEST
from cluster.record.run_folder import RunFolder
from cluster.record.terminal import Show
from envs.well_formed import told
from learners.settings import LoraSettings
from parley.light import without_sklearn

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PretrainedConfig, PreTrainedModel

INITIAL, MADE_OF, COMMIT = "initial_policy", "made_of.json", "hub_commit"


def policy_folder(config: RunConfig, folder: RunFolder, show: Show) -> Path | str:
    """The model to start from: the path given, or the embedded policy. That one is made once
    and cached on this machine; the run works on a copy in its own folder, which all nodes see.
    There an adapter is merged, too, into the model it was made for."""
    without_sklearn()
    if config.model.path == "embedded":
        from transformers.utils.logging import disable_progress_bar

        from learners.embedded.build import build_policy

        disable_progress_bar()  # this and DeepSpeed's guess at the accelerator would break up what the run shows
        logging.getLogger("DeepSpeed").addFilter(lambda record: record.levelno >= logging.ERROR)
        copy, made_of = folder.path / INITIAL, _told_of_embedded(config)
        if (copy / MADE_OF).is_file() and (copy / MADE_OF).read_text() != made_of:  # an offline run's settings changed
            shutil.rmtree(copy)
        if not copy.is_dir():
            show.stage("embedded policy (made in some minutes the first time, then cached)")
            try:
                made = build_policy(config.game, config.model.embedded, progress=show.progress)
            except (AttributeError, LookupError, TypeError, ValueError) as error:  # of whoever wrote the game
                raise RunError(
                    f"no policy can be cloned from scripted games of {config.game.name}: {told(error)}"
                ) from error
            shutil.copytree(made, copy.with_suffix(".part"), dirs_exist_ok=True)
            (copy.with_suffix(".part") / MADE_OF).write_text(made_of)
            copy.with_suffix(".part").rename(copy)
        return copy
    model = config.model.path
    if not Path(model).is_dir():
        model = _fetched(model, "model.path", config, folder, show, config.model.revision)
    if not is_adapter(model):
        return model
    return _merged(model, folder, config, show)


def whole_frozen(config: RunConfig, folder: RunFolder, show: Show) -> None:
    """Frozen players are fetched, too, and adapters among them merged."""
    for name, path in config.rollout.frozen.items():
        if not Path(path).is_dir():
            path = _fetched(path, f"rollout.frozen.{name}", config, folder, show)
        if is_adapter(path):
            path = str(_merged(path, folder, config, show))
        config.rollout.frozen = config.rollout.frozen | {name: path}


def _merged(adapter: str, folder: RunFolder, config: RunConfig, show: Show) -> Path:
    """Once in a run's folder, by the place of the adapter."""
    into = folder.path / "merged" / hashlib.sha256(adapter.encode()).hexdigest()[:12]
    if not into.is_dir():
        show.stage("merging an adapter into its base model")
        merge_adapter(adapter, into.with_suffix(".part"), config.model.trust_remote_code).rename(into)
    return into


def _told_of_embedded(config: RunConfig) -> str:
    made_of = {"game": config.game.name, "options": config.game.options, **config.model.embedded.model_dump()}
    return json.dumps(made_of, sort_keys=True, default=str)


def _fetched(
    model: str, key: str, config: RunConfig, folder: RunFolder, show: Show, revision: str | None = None
) -> str:
    """The folder of a model of the hub on every node. If it is to be the newest, its commit is kept, so that a run that
    goes on has the same weights."""
    from cluster.run.download import on_every_node

    show.stage(f"fetching {model} to every node")
    note = folder.path / (COMMIT if key == "model.path" else f"{COMMIT}.{key.rpartition('.')[2]}")
    name, _, commit = note.read_text().rpartition("@") if note.is_file() else ("", "", "")
    revision = revision or (commit if name == model else None)
    found = on_every_node(model, revision, config.model.download_seconds, key=key)
    if Path(found).parent.name == "snapshots":  # of a commit
        note.write_text(f"{model}@{Path(found).name}")
    return found


def model_to_measure(config: RunConfig, model: str, folder: RunFolder, show: Show) -> Path | str:
    """A folder that an engine loads as it is: an adapter is merged into the model it was made for."""
    play_whole(config)
    if not Path(model).is_dir():
        return policy_folder(config, folder, show)
    return _merged(model, folder, config, show) if is_adapter(model) else model


def play_whole(config: RunConfig) -> None:
    """Settings of engines that play a whole model, and get no adapter."""
    config.learner.lora = LoraSettings()
    if config.learner.sync.transport == "adapter":
        config.learner.sync.transport = "auto"


@contextmanager
def lasting(model: str, folder: RunFolder) -> Iterator[str]:
    """The model; a checkpoint's by links to its files, for a run that still trains removes old checkpoints."""
    links, linked = folder.path / "policy", False
    if (Path(model).parent / MANIFEST).is_file():
        try:
            shutil.copytree(model, links, copy_function=os.link)
            linked = True
        except (shutil.Error, OSError):  # no links from this disk to that one
            shutil.rmtree(links, ignore_errors=True)
    try:
        yield str(links) if linked else model
    finally:
        shutil.rmtree(links, ignore_errors=True)


def is_adapter(model: str | Path) -> bool:
    return (Path(model) / "adapter_config.json").is_file()


def merge_adapter(adapter: str | Path, merged: Path, trust_remote_code: bool = False) -> Path:
    """The folder of a whole model, with its tokenizer: the adapter's base, moved by it."""
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    from learners.model.folder import make_readable

    disable_progress_bar()
    base = json.loads((Path(adapter) / "adapter_config.json").read_text())["base_model_name_or_path"]
    trust = {"trust_remote_code": trust_remote_code}
    has_tokenizer = (Path(adapter) / "tokenizer_config.json").is_file()
    try:
        model = AutoPeftModelForCausalLM.from_pretrained(adapter, **trust)
        tokenizer = AutoTokenizer.from_pretrained(adapter if has_tokenizer else base, **trust)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"adapter {adapter} was made for {base!r}, which cannot be loaded: {first_line(error)}"
        ) from error
    _untie(model)
    model = model.merge_and_unload()
    try:
        model.save_pretrained(merged)
        tokenizer.save_pretrained(merged)
        make_readable(merged)
    except OSError as error:
        raise RunError(f"the policy, merged with its adapter, cannot be written to {merged}: {error}") from error
    return merged


def _untie(model: PeftModel) -> None:
    """Of a head that is the embedding too, an adapter of one of them changes the other when it is merged."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    whole = model.get_base_model()
    ends = whole.get_input_embeddings(), whole.get_output_embeddings()
    if ends[0].weight is ends[1].weight and any(isinstance(end, BaseTunerLayer) for end in ends):
        head = ends[1].get_base_layer() if isinstance(ends[1], BaseTunerLayer) else ends[1]
        head.weight = type(head.weight)(head.weight.detach().clone(), requires_grad=False)
        whole.config.tie_word_embeddings = False


def check_model(model: Path | str, config: RunConfig, trained: bool = False) -> int:
    """Refuse early what would fail late, before anything is started; returns the vocabulary's size."""
    without_sklearn()
    from transformers import AutoConfig

    try:
        loaded = AutoConfig.from_pretrained(model, trust_remote_code=config.model.trust_remote_code)
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path={config.model.path}: {first_line(error)}") from error
    text = loaded.get_text_config()
    limit = getattr(text, "max_position_embeddings", None)
    if limit is not None and config.rollout.engine.max_context > limit:
        raise ConfigError(
            f"rollout.engine.max_context={config.rollout.engine.max_context} is more than the {limit} positions "
            f"of model {config.model.path}"
        )
    if config.model.path != "embedded":
        try:
            _check_kind(loaded, config, trained)
        except (ValueError, ImportError) as error:
            raise ConfigError(f"model.path={config.model.path}: {first_line(error)}") from error
    return text.vocab_size


def _check_kind(loaded: PretrainedConfig, config: RunConfig, trained: bool) -> None:
    from actors.wire.routers import router_modules
    from learners.model.architecture import check_architecture, class_of, tried

    if trained and config.rollout.choose_listed:
        _check_window(loaded.get_text_config(), config.rollout.engine.max_context)
    if trained:
        _check_rotation(loaded.get_text_config(), config.rollout.engine.max_context, "rollout.engine.max_context")
        model, engine = check_architecture(loaded, config.learner, config.model.trust_remote_code), config.rollout
        adapts, on_cpu = config.learner.lora.rank > 0, not engine.gpus_per_worker
        if adapts:
            _check_ends(model, config.learner.lora.targets)
        if adapts and on_cpu and engine.engine.kind != "transformers" and router_modules(model):
            raise ValueError(
                f"learner.lora.rank={config.learner.lora.rank}: vLLM has no kernel on CPU for experts where adapters "
                "are served; set rollout.engine.kind=transformers, or learner.lora.rank=0"
            )
        if config.learner.router_replay and on_cpu and engine.engine.kind != "transformers":
            raise ValueError(
                "learner.router_replay=true: vLLM tells which experts it chose on a GPU alone; set "
                "rollout.engine.kind=transformers, or learner.router_replay=false"
            )
    if config.rollout.engine.kind == "transformers":
        return
    from actors.engines.architectures import check_head, check_vllm_plays

    check_head(loaded.architectures or [], loaded.get_text_config().tie_word_embeddings)
    if not tried(loaded):
        made_by = class_of(loaded)
        check_vllm_plays(loaded.architectures or [], made_by is not None and made_by.is_backend_compatible())


def _check_ends(model: PreTrainedModel, targets: list[str]) -> None:
    ends = model.get_input_embeddings(), model.get_output_embeddings()
    found = {name.rpartition(".")[2] for name, module in model.named_modules() if module in ends} & set(targets)
    if found:
        raise ValueError(
            f"learner.lora.targets: {sorted(found)[0]} is an end of the model, and engines take adapters of its blocks "
            "alone"
        )


def _check_window(text: PretrainedConfig, max_context: int) -> None:
    from actors.engines.architectures import sliding_window

    window = sliding_window(text)
    if window is not None and window < max_context:
        raise ValueError(
            f"choices among listed actions do not fit a sliding window of {window} tokens: set rollout.choose_listed="
            f"false, or rollout.engine.max_context to at most {window}"
        )


def check_offline(model: str, config: RunConfig) -> None:
    """Refuse a model whose recorded games would mix, or be computed wrong, where they are packed together."""
    from transformers import AutoConfig

    from learners.model.architecture import check_architecture

    if config.model.path == "embedded":
        return
    try:
        loaded = AutoConfig.from_pretrained(model, trust_remote_code=config.model.trust_remote_code)
        limit = getattr(loaded.get_text_config(), "max_position_embeddings", None)
        if limit is not None and config.offline.context > limit:
            raise ValueError(f"offline.context={config.offline.context} is more than its {limit} positions")
        _check_rotation(loaded.get_text_config(), config.offline.context, "offline.context")
        check_architecture(loaded, config.learner, config.model.trust_remote_code)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(f"model.path={config.model.path}: {first_line(error)}") from error


def _check_rotation(text: PretrainedConfig, longest: int, setting: str) -> None:
    """The longest sequence of a pack decides how longrope turns all of its tokens."""
    from learners.model.load import longrope_limit

    limit = longrope_limit(text)
    if limit is not None and longest > limit:
        raise ValueError(
            f"longrope has other angles beyond {limit} tokens, so that a game's log-probs would depend on the games it "
            f"is packed with: set {setting} to at most {limit}"
        )


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
