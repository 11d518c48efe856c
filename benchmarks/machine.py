"""On what a figure was measured: processor, memory, versions, date, and who else was there."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import psutil

PACKAGES = ("torch", "deepspeed", "numpy")


def describe_machine() -> dict[str, str]:
    """Return what belongs beside every published figure."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": date.today().isoformat(),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{pages / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    split = [line.partition(":") for line in lines]
    facts = {name.strip(): value.strip() for name, _, value in split}
    model, family = facts.get("model", "?"), facts.get("cpu family", "?")
    return f"{facts.get('model name', platform.machine())} (family {family}, model {model})"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


class BusyClock:
    """Measures how much of the machine other processes took since it was made.

    Ours are this process and its children, so the clock must be read while they still live.
    """

    def __init__(self) -> None:
        self._began_s = perf_counter()
        self._busy_s = _busy_s()
        self._ours_s = _ours_s()

    def others_share(self) -> float:
        """Return the share of all cores' time, from 0 to 1."""
        elapsed_s = perf_counter() - self._began_s
        ours_s = _ours_s() - self._ours_s
        others_s = _busy_s() - self._busy_s - ours_s
        return max(0.0, others_s / (elapsed_s * (os.cpu_count() or 1)))


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _ours_s() -> float:
    me = psutil.Process()
    used = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(times.user + times.system for times in used))
