"""Whether two runs may be compared, and what differs between them: by name, with both values.

Each difference is of one kind. *Intended*: what people compare for (precision, stage, offload,
batch, settings, code). *Nuisance*: what should not matter and may (machine, versions, seeds,
threads). *Breaking*: another model or another kind of device; figures of such runs do not belong
side by side. What only one run tells is a nuisance: nobody knows whether it differs.

The first rule whose pattern fits a name decides. A breaking difference that is meant can be
declared so, by a pattern of its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from probe.analyse.compare.setup import Plain, Setup


class Kind(StrEnum):
    """What a difference means for a comparison."""

    BREAKING = "breaking"
    INTENDED = "intended"
    NUISANCE = "nuisance"


class Effect(StrEnum):
    """What a difference touches beside its own subject."""

    TIME = "time"
    """Another machine or surrounding: times differ for its sake."""
    WORK = "work"
    """A step does other work: compare throughput, not step time."""
    LOSS = "loss"
    """Losses part for its sake, however right both runs are."""


class Judgement(StrEnum):
    """Whether two runs may be compared."""

    COMPARABLE = "comparable"
    INTENDED_CHANGE = "intended_change"
    NOT_COMPARABLE = "not_comparable"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a difference in the settings of this pattern is."""

    pattern: str
    kind: Kind
    why: str
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One setting that is not the same in both runs."""

    name: str
    first: Plain | None
    """None where the run does not tell."""
    second: Plain | None
    kind: Kind
    why: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, kw_only=True)
class Comparability:
    """The judgement, what it rests on, and every difference: breaking ones first."""

    judgement: Judgement
    reasons: tuple[str, ...]
    """Sentences; none for runs that are comparable."""
    differences: tuple[Difference, ...]

    def touches(self, effect: Effect) -> bool:
        """Whether any difference has this effect."""
        return any(effect in item.effects for item in self.differences)


_B, _I, _N = Kind.BREAKING, Kind.INTENDED, Kind.NUISANCE
_TIME, _WORK, _LOSS = Effect.TIME, Effect.WORK, Effect.LOSS

RULES = tuple(
    Rule(pattern=pattern, kind=kind, why=why, effects=effects)
    for pattern, kind, why, effects in (
        ("config.precision", _I, "precision", (_LOSS,)),
        ("config.stage", _I, "ZeRO stage", ()),
        ("config.offload_*", _I, "offload", ()),
        ("config.*", _I, "batch", (_WORK, _LOSS)),
        ("settings.seed", _N, "seed", (_LOSS,)),
        ("settings.*", _I, "setting", (_LOSS,)),
        ("model.sequence", _I, "sequence length", (_WORK, _LOSS)),
        ("model.name", _N, "name of the model", ()),
        ("model.flops_per_sample", _N, "follows from the model", ()),
        ("model.*", _B, "another model", (_WORK, _LOSS)),
        ("world_size", _I, "number of ranks", (_WORK, _LOSS)),
        ("backend", _I, "collective backend", (_TIME,)),
        ("engine", _I, "engine", ()),
        ("recorder", _I, "recorder", ()),
        ("expected_steps", _N, "planned length; a learning rate may follow it", ()),
        ("script.*", _I, "code", (_LOSS,)),
        ("git.commit", _I, "code", (_LOSS,)),
        ("git.dirty", _N, "uncommitted changes", ()),
        ("git.*", _N, "branch", ()),
        ("command", _N, "call", ()),
        ("devices.kind", _B, "another kind of device", (_TIME,)),
        ("devices.*", _I, "device", (_TIME,)),
        ("hosts.name", _N, "machine", (_TIME,)),
        ("hosts.*", _N, "machine", (_TIME,)),
        ("versions.*", _N, "version", (_TIME, _LOSS)),
        ("seeds.*", _N, "seed", (_LOSS,)),
        ("environment.SLURM_JOB_ID", _N, "job", ()),
        ("environment.*", _N, "surroundings", (_TIME,)),
    )
)
_ORDER = list(Kind)


def compare_setups(
    first: Setup,
    second: Setup,
    *,
    labels: tuple[str, str] = ("A", "B"),
    meant: Sequence[str] = (),
    obstacles: Sequence[str] = (),
) -> Comparability:
    """Every difference and the judgement.

    `meant` are patterns of names whose differences are intended whatever the rules say; `obstacles`
    are sentences that stand against a comparison for other reasons.
    """
    names = sorted({*first, *second})
    differences = [
        _difference(name, first.get(name), second.get(name), labels, meant)
        for name in names
        if first.get(name) != second.get(name)
    ]
    differences.sort(key=lambda item: _ORDER.index(item.kind))
    breaking = [item for item in differences if item.kind is Kind.BREAKING]
    intended = [item for item in differences if item.kind is Kind.INTENDED]
    if breaking or obstacles:
        judgement = Judgement.NOT_COMPARABLE
        reasons = [*obstacles, *(f"{item.why} ({item.name})" for item in breaking)]
    elif intended:
        judgement = Judgement.INTENDED_CHANGE
        reasons = list(dict.fromkeys(item.why for item in intended))
    else:
        judgement, reasons = Judgement.COMPARABLE, []
    return Comparability(
        judgement=judgement, reasons=tuple(reasons), differences=tuple(differences)
    )


def _difference(
    name: str,
    first: Plain | None,
    second: Plain | None,
    labels: tuple[str, str],
    meant: Sequence[str],
) -> Difference:
    rule = next(rule for rule in RULES if fnmatchcase(name, rule.pattern))
    kind, why = rule.kind, rule.why
    if first is None or second is None:
        kind, why = Kind.NUISANCE, f"{rule.why}; only {labels[first is None]} tells"
    if any(fnmatchcase(name, pattern) for pattern in meant):
        kind, why = Kind.INTENDED, f"{rule.why}, as declared"
    return Difference(
        name=name, first=first, second=second, kind=kind, why=why, effects=rule.effects
    )
