"""`parley export`: a trained policy to take away."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from functools import partial

from cluster.commands.command import Command

EXAMPLES = """\
examples:
  parley export runs/demo-20260101-120000 --to policy          then: vllm serve policy
  parley export runs/demo-20260101-120000 --to policy --checkpoint best
  parley export runs/lora-20260101-120000 --to hub:me/my-negotiator --private
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument(
        "--to", required=True, metavar="WHERE", help="a folder that is made, or hub:OWNER/NAME on Hugging Face"
    )
    parser.add_argument("--checkpoint", default="latest", metavar="WHICH", help="latest (default), best, or an update")
    parser.add_argument(
        "--adapter", action="store_true", help="keep a LoRA adapter apart; default: merged into its model"
    )
    parser.add_argument("--private", action="store_true", help="a repository that is made on the hub is private")


def run(asked: argparse.Namespace) -> None:
    from cluster.export.exporting import HUB, export
    from cluster.record.manner import busy

    # an upload has bars of its own
    with nullcontext(partial(print, flush=True)) if asked.to.startswith(HUB) else busy("reading the run") as say:
        where = export(asked.run, asked.to, asked.checkpoint, asked.adapter, asked.private, say)
    print(f"policy, card and recipe are in {where}")


COMMAND = Command(
    "export", "write a run's policy, with a card and its recipe, for others to use", run, arguments, EXAMPLES
)
