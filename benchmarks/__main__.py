"""Races over precisions and stages: `python -m benchmarks --precision bf16 --stage 0,1,2,3`.

Prints one table per setting; with `--into` also writes one JSON per setting and a Markdown file
of all of them.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.interleave import Plan, race
from benchmarks.machine import describe_machine
from benchmarks.peers import MATCHING_PEER, MODULES
from benchmarks.setting import SHAPES, Setting
from benchmarks.table import render, to_json
from benchmarks.team import ContestantError
from probe.schema.vocabulary import Precision


def main(arguments: list[str] | None = None) -> int:
    """Race in every setting asked for; 1 if a contestant could not run."""
    options = _parser().parse_args(arguments)
    plan = Plan(
        rounds=-(-options.steps // options.turn_steps),
        turn_steps=options.turn_steps,
        warmup_steps=options.warmup_steps,
    )
    sections: list[str] = []
    failed = False
    for precision in options.precision:
        for stage in options.stage:
            setting = Setting(
                precision=precision,
                stage=stage,
                ranks=options.ranks,
                shape=options.shape,
                micro_batch=options.micro_batch,
            )
            names = options.contestants or ["zeroprobe", "deepspeed", MATCHING_PEER[stage], "bound"]
            try:
                finished = race(names, setting, plan, _progress(f"{precision} stage {stage}"))
            except ContestantError as error:
                print(f"\r\033[K{precision}, stage {stage}: {error}\n", flush=True)
                failed = True
                continue
            sections.append(render(finished))
            print(f"\r\033[K{sections[-1]}\n" if sys.stderr.isatty() else f"{sections[-1]}\n")
            sys.stdout.flush()
            if options.into is not None:
                options.into.mkdir(parents=True, exist_ok=True)
                name = f"{precision}_stage{stage}_{options.ranks}ranks.json"
                document = {"machine": describe_machine()} | to_json(finished)
                (options.into / name).write_text(json.dumps(document, indent=1) + "\n")
    if options.into is not None:
        _write_markdown(options.into / f"speed_{options.ranks}ranks.md", sections)
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--ranks", type=int, choices=(2, 4), default=2)
    parser.add_argument("--precision", type=_precisions, default="bf16,fp32,fp16")
    parser.add_argument("--stage", type=_stages, default="0,1,2,3")
    parser.add_argument("--steps", type=int, default=40, help="measured steps per contestant")
    parser.add_argument("--turn-steps", type=int, default=5, help="measured steps per turn")
    parser.add_argument("--warmup-steps", type=int, default=5)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="full")
    parser.add_argument(
        "--contestants",
        type=_contestants,
        help=f"of {', '.join(MODULES)}; by default us, DeepSpeed, the matching peer and the bound",
    )
    parser.add_argument("--into", type=Path, help="folder for JSON and Markdown")
    return parser


def _precisions(text: str) -> list[Precision]:
    return [Precision(word) for word in text.split(",")]


def _stages(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _contestants(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(MODULES))
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {unknown}; known are {list(MODULES)}")
    return names


class _Line:
    """One progress line, rewritten in place; silent when nobody watches."""

    def __init__(self, head: str) -> None:
        self.head = head

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{self.head}: {text}", end="", file=sys.stderr, flush=True)


def _progress(head: str) -> _Line:
    return _Line(head)


def _write_markdown(path: Path, sections: list[str]) -> None:
    facts = "\n".join(f"- {name}: {value}" for name, value in describe_machine().items())
    body = "\n\n".join(f"```\n{section}\n```" for section in sections)
    path.write_text(f"# Step times, by turns\n\n{facts}\n\n{body}\n")


if __name__ == "__main__":
    sys.exit(main())
