"""The estimate as a table of 80 columns: one unit for all of it, so that rows compare easily."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from probe.analyse.theory.estimate import Estimate, Row
from probe.analyse.theory.model_states import Partition
from probe.schema.vocabulary import Tier
from probe.units import MISSING, format_count

_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_FITS = {True: ("yes", "green"), False: ("no", "red"), None: (MISSING, "")}


def estimate_table(result: Estimate) -> RenderableType:
    """What one rank holds and sends, by stage and offload."""
    plan = result.plan
    largest = max(row.device_bytes for row in result.rows)
    unit, size = next((item for item in _UNITS if largest >= item[1]), _UNITS[-1])
    title = (
        f"{format_count(plan.param_elements)} parameters, {plan.precision}, "
        f"{plan.world:,} rank{'s' if plan.world > 1 else ''}; {unit} of one rank"
    )
    parts: list[RenderableType] = [Text(title, style="bold"), Text(), _table(result, size)]
    parts += [Text(), *(Text(line) for line in _remarks(result, unit, size))]
    return Group(*parts)


def _table(result: Estimate, size: float) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("stage", justify="right", no_wrap=True)
    table.add_column("offload", no_wrap=True)
    away = result.plan.offload_to.value
    for heading in ("states", "activ.", "working", "total", f"on {away}", "sent/step"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fits", no_wrap=True)
    for row in result.rows:
        sent_bytes = row.wire_elements * row.partition.weight_bytes
        fits, style = _FITS[row.fits]
        table.add_row(
            str(row.partition.stage),
            _offload(row.partition),
            *(
                _in(amount, size)
                for amount in (
                    row.states_bytes,
                    row.activation_bytes,
                    row.working_bytes,
                    row.device_bytes,
                    row.offloaded_bytes,
                    sent_bytes,
                )
            ),
            Text(fits, style=style),
        )
    return table


def _remarks(result: Estimate, unit: str, size: float) -> list[str]:
    plan, first = result.plan, result.rows[0]
    remarks = ["States are exact for Adam; working memory (buckets, gathered blocks) is a bound."]
    if first.activation_bytes is None:
        remarks.append("Activations are left out: give --layers --hidden --heads --sequence.")
    else:
        activations = first.activation_bytes
        remarks.append(
            f"Activations: {activations / size:,.2f} {unit} ({activations / 2**30:,.2f} GiB)."
        )
    if plan.device_memory_bytes is not None:
        memory = f"{plan.device_memory_bytes / size:,.2f} {unit}"
        if result.fitting:
            best = result.fitting[0]
            remarks.append(f"In {memory}, {_name(best)} fits with the least to send and to move.")
        else:
            remarks.append(f"Nothing fits in {memory}; more ranks or checkpointing would help.")
    return remarks


def _name(row: Row) -> str:
    offload = _offload(row.partition)
    return f"stage {row.partition.stage}" + ("" if offload == MISSING else f" with {offload}")


def _offload(partition: Partition) -> str:
    if partition.offload_params is not Tier.DEVICE:
        return "all"
    return MISSING if partition.offload_optimizer is Tier.DEVICE else "optimizer"


def _in(amount: float | None, size: float) -> str:
    if amount is None:
        return MISSING
    return f"{amount / size:,.2f}" if amount else "0"
