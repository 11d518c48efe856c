"""The profiled window: torch.profiler over a few steps, on the ranks that were asked for.

It disturbs what it looks at, and not only on its own rank: the others wait for the slower one. So
every rank marks the steps of the window, the one before it in which the profiler warms up and the
one after it in which the others wait for the trace to be written. The trace is kept as the profiler
writes it, whole or not at all; the time that writing takes belongs to no step.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.nn import Module
from torch.profiler import ProfilerAction, ProfilerActivity, profile
from torch.utils.hooks import RemovableHandle

from engine.units import plan_units
from probe.schema.documents import ProfileWindow
from probe.schema.layout import trace_name
from probe.schema.rows import EventRow
from probe.schema.vocabulary import EventKind, ProfileDetail


class Profiler:
    """Starts, steps and ends torch's profiler at the right steps of one rank."""

    def __init__(self, window: ProfileWindow, *, rank: int, folder: Path, module: Module) -> None:
        self._window = window
        self._folder = folder
        self._module = module
        self._takes_part = rank in window.ranks
        self._running: profile | None = None
        self._handles: list[RemovableHandle] = []

    def disturbs(self, step: int) -> bool:
        """Whether the window or its edges touch this step, on any rank."""
        return self._window.first_step - 1 <= step <= self._window.end_step

    def step_began(self, step: int) -> None:
        """Start to warm up in the step before the window."""
        if self._takes_part and step == max(0, self._window.first_step - 1):
            self._start(step)

    def step_ended(self, step: int) -> EventRow | None:
        """Go on to the next step; after the last one of the window, what became of it."""
        if self._running is None:
            return None
        if step + 1 < self._window.end_step:
            with _quietly():
                self._running.step()
            return None
        return self.end()

    def end(self) -> EventRow | None:
        """Stop, keep the trace, and say so; also when the script ended within the window."""
        running, self._running = self._running, None
        if running is None:
            return None
        self._takes_part = False
        began_ns = time.monotonic_ns()
        first = self._window.first_step
        path = self._folder / trace_name(first)
        unfinished = path.with_name(f".{path.name}")
        try:
            with _quietly():
                running.stop()
                running.export_chrome_trace(str(unfinished))
            unfinished.replace(path)
            size_bytes, message = path.stat().st_size, "The profiled window is written."
        except Exception as error:
            size_bytes, message = None, f"No trace was kept: {type(error).__name__}: {error}"[:500]
            unfinished.unlink(missing_ok=True)
        finally:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
        return EventRow(
            time_ns=began_ns,
            kind=EventKind.PROFILE_WINDOW if size_bytes else EventKind.WARNING,
            step=first,
            name=path.name,
            message=message,
            duration_ns=time.monotonic_ns() - began_ns,
            size_bytes=size_bytes,
        )

    def _start(self, step: int) -> None:
        details, first, end = self._window.details, self._window.first_step, self._window.end_step

        def action(number: int) -> ProfilerAction:
            # The profiler asks for step 0 when it is made, whichever step that is.
            if max(number, step) < first:
                return ProfilerAction.WARMUP
            return ProfilerAction.RECORD if number < end else ProfilerAction.NONE

        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        with _quietly():
            self._running = profile(
                activities=activities,
                schedule=action,
                record_shapes=ProfileDetail.SHAPES in details,
                profile_memory=ProfileDetail.MEMORY in details,
                with_stack=ProfileDetail.STACKS in details,
            )
            # A step is called in the trace what it is called in the rows.
            self._running.step_num = step
            self._running.start()
        for plan in plan_units(self._module):
            self._name_block(plan.name, plan.users[0])

    def _name_block(self, name: str, module: Module) -> None:
        open_labels: list[record_function] = []

        def begins(*_: Any) -> None:
            open_labels.append(record_function(name))
            open_labels[-1].__enter__()  # type: ignore[no-untyped-call]

        def ends(*_: Any) -> None:
            if open_labels:
                open_labels.pop().__exit__(None, None, None)

        self._handles.append(module.register_forward_pre_hook(begins, prepend=True))
        self._handles.append(module.register_forward_hook(ends, always_call=True))


class _quietly(warnings.catch_warnings):  # noqa: N801
    """The profiler's remarks on its own schedule are nothing that a user could act on."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
