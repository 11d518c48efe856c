"""The optimizer that a configuration asks for: which names there are, and what they take.

DeepSpeed's "Adam" is AdamW unless `adam_w_mode` is false, and its AdamW decays by 0 where torch's
would by 0.01; both are spelled out in the policy, so that nobody downstream has to know.
"""

from collections.abc import Mapping
from typing import Any

from engine.config.key import Key, Kind
from engine.config.nearest import unknown
from engine.config.policies import OptimizerPolicy
from engine.config.reading import Reading
from engine.config.values import WrongValueError, parsed, shown

BLOCK = "optimizer.params"
TORCH_ADAMW_DECAY = 0.01


def _param(name: str, kind: Kind, **bounds: Any) -> Key:
    return Key(path=f"{BLOCK}.{name}", kind=kind, lands=f"(optimizer.params.{name})", **bounds)


LR = _param("lr", Kind.NUMBER, least=0)
BETAS = _param("betas", Kind.PAIR, least=0, below=1)
EPS = _param("eps", Kind.NUMBER, least=0)
DECAY = _param("weight_decay", Kind.NUMBER, least=0)
MAXIMIZE = _param("maximize", Kind.BOOL)
ADAM = (LR, BETAS, EPS, DECAY, _param("amsgrad", Kind.BOOL), MAXIMIZE)

OPTIMIZERS: Mapping[str, tuple[Key, ...]] = {
    "Adam": ADAM,
    "AdamW": ADAM,
    "SGD": (
        LR,
        DECAY,
        _param("momentum", Kind.NUMBER, least=0),
        _param("dampening", Kind.NUMBER),
        _param("nesterov", Kind.BOOL),
        MAXIMIZE,
    ),
    "Adagrad": (
        LR,
        DECAY,
        EPS,
        _param("lr_decay", Kind.NUMBER, least=0),
        _param("initial_accumulator_value", Kind.NUMBER, least=0),
        MAXIMIZE,
    ),
    "Lion": (LR, BETAS, DECAY),
}

WHOLE_TENSORS = (
    "is not element-wise: it looks at whole tensors, of which a rank holds only a part;"
    " use Adam, AdamW, SGD, Adagrad or Lion"
)
COMPRESSED = "compresses its collectives, which carry full values here; use Adam"
BRING_IT = "is not built by name; pass it to initialize(optimizer=...)"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("Lamb", "Muon", "Shampoo", "Adafactor", "LARS", "LBFGS"), WHOLE_TENSORS),
    **dict.fromkeys(("OneBitAdam", "ZeroOneAdam", "OneBitLamb"), COMPRESSED),
    **dict.fromkeys(("MuAdam", "MuAdamW", "MuSGD", "Adadelta", "Adamax", "ASGD"), BRING_IT),
    **dict.fromkeys(("NAdam", "RAdam", "RMSprop", "Rprop"), BRING_IT),
}

IMPLEMENTATION = frozenset(
    {
        "torch_adam",
        "adam_w_mode",
        "foreach",
        "fused",
        "capturable",
        "differentiable",
        "set_grad_none",
        "fp32_optimizer_states",
    }
)
"""Parameters that choose between implementations of the same update: there is one here."""


def optimizer_policy(reading: Reading) -> OptimizerPolicy | None:
    """The policy, if the configuration asks for an optimizer."""
    wanted = reading.values.get("optimizer.type")
    params = reading.values.get(BLOCK, {})
    if wanted is None:
        if params:
            reading.faults.append(f"{BLOCK} is given without optimizer.type")
        return None
    by_lower = {name.lower(): name for name in (*OPTIMIZERS, *REFUSED)}
    name = by_lower.get(wanted.lower())
    if name is None:
        reading.faults.append(unknown("optimizer.type", wanted, OPTIMIZERS))
        return None
    if name in REFUSED:
        reading.faults.append(f'optimizer.type "{wanted}" {REFUSED[name]}')
        return None
    checked = _checked(reading, name, params)
    if name == "Adam" and str(params.get("adam_w_mode", True)).lower() != "false":
        name = "AdamW"
        reading.notes.append(
            'optimizer.type "Adam" is AdamW, as in DeepSpeed; set adam_w_mode to false for'
            " decay by gradient"
        )
    if name == "AdamW" and "weight_decay" not in checked:
        torchs = str(params.get("torch_adam", False)).lower() == "true"
        checked["weight_decay"] = TORCH_ADAMW_DECAY if torchs else 0.0
        owner = "torch" if torchs else "DeepSpeed"
        reading.notes.append(
            f"{BLOCK}.weight_decay is not given: {checked['weight_decay']:g}, as in {owner}"
        )
    return OptimizerPolicy(type=name, params=checked)


def _checked(reading: Reading, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    keys = {key.path.rpartition(".")[2]: key for key in OPTIMIZERS[name]}
    checked = {}
    for param, raw in params.items():
        if param in keys:
            try:
                checked[param] = parsed(keys[param], raw)
            except WrongValueError as error:
                reading.faults.append(str(error))
        elif param == "max_grad_norm":
            reading.faults.append(
                f"{BLOCK}.max_grad_norm {shown(raw)} is not a matter of the optimizer:"
                " set gradient_clipping"
            )
        elif param == "bias_correction":
            if raw is not True:
                reading.faults.append(f"{BLOCK}.bias_correction {shown(raw)} is not here: leave it")
        elif param not in IMPLEMENTATION:
            reading.faults.append(unknown(f"{name} parameter", param, keys))
    return checked
