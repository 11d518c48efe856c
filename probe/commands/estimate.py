"""`probe estimate`: what every stage and offload would need, before anything is run."""

from typing import Any

import click

from probe.analyse.theory.activations import Attention, Shape
from probe.analyse.theory.estimate import Estimate, Plan, Row, estimate
from probe.commands.machine import json_option, print_json
from probe.commands.quantities import parse_count, parse_memory
from probe.errors import UsageError
from probe.schema.vocabulary import Precision, Tier

AT_LEAST_ONE = click.IntRange(min=1)


@click.command("estimate")
@click.option(
    "--params", type=parse_count, required=True, metavar="P", help="Parameters: 7e9, 7B, 350M."
)
@click.option("--world", type=AT_LEAST_ONE, required=True, metavar="N", help="Number of ranks.")
@click.option(
    "--precision",
    type=click.Choice([item.value for item in Precision]),
    default=Precision.BF16.value,
    show_default=True,
    help="How the model computes.",
)
@click.option("--layers", type=AT_LEAST_ONE, metavar="L", help="Transformer layers.")
@click.option("--hidden", type=AT_LEAST_ONE, metavar="H", help="Hidden size.")
@click.option("--heads", type=AT_LEAST_ONE, metavar="A", help="Attention heads.")
@click.option("--sequence", type=AT_LEAST_ONE, metavar="S", help="Sequence length.")
@click.option(
    "--vocabulary", type=AT_LEAST_ONE, metavar="V", help="Words; adds the logits in fp32."
)
@click.option(
    "--micro-batch", type=AT_LEAST_ONE, default=1, show_default=True, help="Samples a forward."
)
@click.option(
    "--accumulation", type=AT_LEAST_ONE, default=1, show_default=True, help="Micro-batches a step."
)
@click.option(
    "--checkpoint-every",
    type=click.IntRange(min=0),
    default=0,
    metavar="K",
    help="Checkpoint the activations of every K-th layer; 0 of none.",
)
@click.option(
    "--attention",
    type=click.Choice([item.value for item in Attention]),
    default=Attention.SCORES.value,
    show_default=True,
    help="Whether attention stores a score for each pair of positions.",
)
@click.option(
    "--offload-to",
    type=click.Choice([Tier.HOST.value, Tier.DISK.value]),
    default=Tier.HOST.value,
    show_default=True,
    help="Where offloaded states rest.",
)
@click.option(
    "--device-memory",
    type=parse_memory,
    metavar="SIZE",
    help="Memory of a device, 80GB or 80GiB; tells what fits.",
)
@json_option
def command(
    params: int,
    world: int,
    precision: str,
    layers: int | None,
    hidden: int | None,
    heads: int | None,
    sequence: int | None,
    vocabulary: int | None,
    micro_batch: int,
    accumulation: int,
    checkpoint_every: int,
    attention: str,
    offload_to: str,
    device_memory: int | None,
    as_json: bool,
) -> None:
    """Estimate memory and traffic for every ZeRO stage and offload.

    Model states are exact for Adam. Activations are those of a transformer and need its shape: give
    --layers, --hidden, --heads and --sequence. Working memory (reduction buckets, gathered blocks)
    is a bound. GB are 10^9 bytes.

    \b
    Example: probe estimate --params 7e9 --world 8 --device-memory 80GB
    """
    facts = {"layers": layers, "hidden": hidden, "heads": heads, "sequence": sequence}
    missing = [name for name, value in facts.items() if value is None]
    if missing and (len(missing) < len(facts) or vocabulary or checkpoint_every):
        raise UsageError(
            f"Activations need the whole shape: --{', --'.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing."
        )
    shape = None
    if layers and hidden and heads and sequence:
        shape = Shape(
            layers=layers,
            hidden=hidden,
            heads=heads,
            sequence=sequence,
            micro_batch=micro_batch,
            vocabulary=vocabulary or 0,
            checkpoint_every=checkpoint_every,
            attention=Attention(attention),
        )
    result = estimate(
        Plan(
            param_elements=params,
            world=world,
            precision=Precision(precision),
            shape=shape,
            micro_batches=accumulation,
            offload_to=Tier(offload_to),
            device_memory_bytes=device_memory,
        )
    )
    if as_json:
        print_json(estimate_json(result))
        return
    from probe.text.estimate_table import estimate_table
    from probe.text.terminal import make_console, print_plainly

    print_plainly(make_console(), estimate_table(result))


def estimate_json(result: Estimate) -> dict[str, Any]:
    """The table with exact numbers."""
    plan = result.plan
    return {
        "param_elements": plan.param_elements,
        "world": plan.world,
        "precision": plan.precision,
        "device_memory_bytes": plan.device_memory_bytes,
        "rows": [_row_json(row) for row in result.rows],
        "fitting": [
            {
                "stage": row.partition.stage,
                "offload_optimizer": row.partition.offload_optimizer,
                "offload_params": row.partition.offload_params,
            }
            for row in result.fitting
        ],
    }


def _row_json(row: Row) -> dict[str, Any]:
    states: dict[str, dict[str, int]] = {}
    for (tier, category), size in row.states.held_bytes.items():
        states.setdefault(tier.value, {})[category.value] = size
    return {
        "stage": row.partition.stage,
        "offload_optimizer": row.partition.offload_optimizer,
        "offload_params": row.partition.offload_params,
        "states": states,
        "states_bytes": row.states_bytes,
        "activation_bytes": row.activation_bytes,
        "working_bytes": row.working_bytes,
        "device_bytes": row.device_bytes,
        "offloaded_bytes": row.offloaded_bytes,
        "wire_elements": row.wire_elements,
        "wire_bytes": row.wire_elements * row.partition.weight_bytes,
        "fits": row.fits,
    }
