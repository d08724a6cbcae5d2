"""From a checkpoint to a folder, or to a repository on the Hugging Face hub."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.api import evaluated
from cluster.errors import ConfigError, RunError
from cluster.export.card import RECIPE, card
from cluster.recipe.reading import to_yaml
from cluster.record.checkpoints import CheckpointStore
from cluster.report.reading import Run, read_run
from cluster.run.policy import is_adapter, merge_adapter

HUB = "hub:"


def export(
    target: str,
    to: str,
    checkpoint: str = "latest",
    adapter: bool = False,
    private: bool = False,
    say: Callable[[str], None] = print,
) -> str:
    """Where the policy is then. `to`: a folder that is not there yet, or hub:OWNER/NAME. `say` is told what goes on."""
    run = read_run(target)
    policy = Path(evaluated(target, [], None, checkpoint)[1])
    if adapter and not is_adapter(policy):
        raise ConfigError(f"--adapter: {run.name} trained the whole model; it has no adapter to keep apart")
    if to.startswith(HUB):
        name = to.removeprefix(HUB)
        if name.count("/") != 1 or not all(name.split("/")):
            raise ConfigError(f"--to {to} should be {HUB}OWNER/NAME")
        with tempfile.TemporaryDirectory(prefix="parley-export-") as folder:
            made = Path(folder) / "model"
            _write(run, policy, made, name.partition("/")[2], adapter, say)
            say(f"uploading to {name}")
            return _upload(made, name, private)
    folder = Path(to).expanduser()
    with _whole(folder) as beside:
        _write(run, policy, beside, folder.name, adapter, say)
    return str(folder)


def _write(run: Run, policy: Path, into: Path, name: str, adapter: bool, say: Callable[[str], None]) -> None:
    from actors.serving import base_of

    if is_adapter(policy) and not adapter:
        say("merging the adapter into its base model")
        merge_adapter(policy, into, run.config.model.trust_remote_code)
    else:
        say(f"copying {policy}")
        shutil.copytree(policy, into)
    update = CheckpointStore.update_of(policy.parent)
    (into / "README.md").write_text(card(run, update, name, base_of(policy) if adapter else None), encoding="utf-8")
    (into / RECIPE).write_text(to_yaml(run.config), encoding="utf-8")


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder under another name, which gets its own when all is in it."""
    if folder.exists():
        raise ConfigError(f"--to: {str(folder)!r} is there already")
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        beside.rename(folder)
    except OSError as error:
        raise RunError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _upload(folder: Path, name: str, private: bool) -> str:
    from httpx import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    hub = HfApi()
    try:
        made = hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=folder, commit_message="Policy, card and recipe")
    except LocalTokenNotFoundError as error:
        raise ConfigError(f"cannot upload to {name}: log in first, by `hf auth login` or HF_TOKEN") from error
    except (HfHubHTTPError, HTTPError, OfflineModeIsEnabled, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        raise RunError(f"cannot upload to {name}: {reason}; or export to a folder, and upload that") from error
    return str(made)
