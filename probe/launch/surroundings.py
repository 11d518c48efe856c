"""Facts about where a run takes place, gathered without loading any of what they speak of.

Secrets stay out: of the environment only variables of an allow-list are kept, and arguments that
look like credentials are masked.
"""

import hashlib
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from probe.record.host import host_name
from probe.schema.documents import GitFacts, HostFacts

PACKAGES = ("zeroprobe", "torch", "numpy", "deepspeed", "accelerate", "transformers", "lightning")
ALLOWED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_PROTO",
    "NCCL_SOCKET_IFNAME",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "TORCH_DISTRIBUTED_DEBUG",
)
_SECRET = re.compile(r"(?i)(key|token|secret|password|passwd|credential|auth)")
_MASK = "***"


def host_facts() -> HostFacts:
    """This machine."""
    return HostFacts(
        name=host_name(),
        cpu=_cpu_name(),
        cores=os.cpu_count(),
        memory_bytes=_memory_bytes(),
        system=f"{platform.system()} {platform.release()}",
    )


def package_versions() -> dict[str, str]:
    """Versions of what decides over results, as installed."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def git_facts(folder: Path) -> GitFacts:
    """The state of the code that the script lies in; empty outside a repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return GitFacts()
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD") or ""
    return GitFacts(commit=commit, branch=branch, dirty=None if changes is None else bool(changes))


def allowed_environment(environment: dict[str, str]) -> dict[str, str]:
    """The variables that may be written down."""
    return {name: environment[name] for name in ALLOWED_VARIABLES if name in environment}


def masked_arguments(arguments: list[str]) -> list[str]:
    """Arguments with the values of those masked that are named like a credential."""
    masked: list[str] = []
    hide_next = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if hide_next and not argument.startswith("-"):
            masked.append(_MASK)
            hide_next = False
            continue
        secret = bool(_SECRET.search(name)) and name.startswith("-")
        masked.append(f"{name}={_MASK}" if secret and equals else argument)
        hide_next = secret and not equals
    return masked


def script_hash(script: Path) -> str:
    """SHA-256 of the script's bytes."""
    return hashlib.sha256(script.read_bytes()).hexdigest()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
