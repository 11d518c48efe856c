"""Small traces whose truth is known, built event by event."""

import gzip
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probe.read.trace import Trace
from probe.read.trace_file import read_trace_from

US = 1000
"""ns in the profiler's unit of time."""


@dataclass
class MadeTrace:
    """Collects events in microseconds and writes them as a profiler would."""

    events: list[dict[str, Any]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)
    tail: dict[str, Any] = field(default_factory=dict)
    next_id: int = 100

    def add(
        self,
        cat: str,
        name: str,
        begin: float,
        end: float,
        *,
        pid: Any = 1,
        tid: Any = 1,
        **args: Any,
    ) -> "MadeTrace":
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": begin,
                "dur": round(end - begin, 3),
                "args": {key.replace("_", " "): value for key, value in args.items()},
            }
        )
        return self

    def op(self, name: str, begin: float, end: float, *, tid: int = 1, **args: Any) -> "MadeTrace":
        return self.add("cpu_op", name, begin, end, tid=tid, **args)

    def note(
        self, name: str, begin: float, end: float, *, tid: int = 1, **args: Any
    ) -> "MadeTrace":
        return self.add("user_annotation", name, begin, end, tid=tid, **args)

    def step(self, number: int, begin: float, end: float) -> "MadeTrace":
        return self.note(f"ProfilerStep#{number}", begin, end)

    def launch(
        self,
        launched_at: float,
        name: str,
        begin: float,
        end: float,
        *,
        stream: int = 7,
        cat: str = "kernel",
        tid: int = 1,
        call: str = "cudaLaunchKernel",
        **args: Any,
    ) -> "MadeTrace":
        """A device event and the call that launched it, which takes 2 us."""
        self.next_id += 1
        number = self.next_id
        self.add("cuda_runtime", call, launched_at, launched_at + 2, tid=tid, correlation=number)
        return self.add(
            cat, name, begin, end, pid=0, tid=stream, correlation=number, stream=stream, **args
        )

    def document(self) -> dict[str, Any]:
        return {"schemaVersion": 1, **self.head, "traceEvents": self.events, **self.tail}

    def kineto_text(self) -> bytes:
        """As Kineto lays it out: an event begins on a line of its own."""
        head = json.dumps({"schemaVersion": 1, **self.head})[:-1].encode()
        tail = b"".join(
            b",\n  " + json.dumps({key: value})[1:-1].encode() for key, value in self.tail.items()
        )
        body = b",\n  ".join(kineto_event(event) for event in self.events)
        return b"\n" + head + b',\n  "traceEvents": [\n  ' + body + b"\n  ]" + tail + b"}"

    def write(self, path: Path) -> Path:
        text = self.kineto_text()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def kineto_event(event: dict[str, Any]) -> bytes:
    plain = dict(event)
    args = plain.pop("args", None)
    text = json.dumps(plain)[:-1]
    if args:
        text += ',\n    "args": {\n      ' + json.dumps(args)[1:-1] + "\n    }"
    return (text.replace("{", "{\n    ", 1) + "\n  }").encode()


def device_trace() -> MadeTrace:
    """Two device steps of 100 us.

    In each, counted from its begin at 1000 and 1100 us: computation 0-40 and 60-70, communication
    30-60, a copy 55-65, nothing 70-100 (in the second step until its end at 1170). The host is 500
    us ahead. The kernels of the second step are launched in its host span.
    """
    trace = MadeTrace(
        head={
            "deviceProperties": [{"id": 0, "name": "Made GPU", "totalGlobalMem": 8 << 30}],
            "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
        },
        tail={"traceName": "made.json", "baseTimeNanoseconds": 1_700_000_000_000_000_000},
    )
    for number, (host, device) in enumerate([(500, 1000), (600, 1100)], 5):
        trace.step(number, host, host + 100)
        trace.op(
            "aten::linear",
            host + 5,
            host + 25,
            Input_Dims=[[8, 4], [4, 4]],
            Input_type=["float", "float"],
        )
        trace.op(
            "aten::addmm",
            host + 8,
            host + 20,
            Input_Dims=[[4], [8, 4]],
            Input_type=["float", "float"],
        )
        trace.launch(host + 10, "gemm", device, device + 40)
        trace.op("record_param_comms", host + 30, host + 40)
        trace.launch(
            host + 32,
            "ncclDevKernel_AllReduce_Sum_f32(ncclDevComm*)",
            device + 30,
            device + 60,
            stream=20,
            Collective_name="allreduce",
            In_msg_nelems=1000,
            Out_msg_nelems=1000,
            Group_size=2,
            dtype="Float",
            Process_Group_Name="0",
        )
        trace.launch(
            host + 45,
            "Memcpy DtoH",
            device + 55,
            device + 65,
            cat="gpu_memcpy",
            stream=21,
            bytes=4096,
        )
        trace.op("Optimizer.step#AdamW.step", host + 60, host + 70)
        trace.launch(host + 62, "adam", device + 60, device + 70)
    return trace


def cpu_trace() -> MadeTrace:
    """Two steps of 100 us without a device.

    In each: operators 0-30 (one of 10-20 inside) and 50-80, of which c10d::allreduce_ 60-65;
    gloo:all_reduce on another thread 20-55. So computation 0-30, 50-60, 65-80 = 55 us,
    communication 35 us of which 20 exposed, idle 25.
    """
    trace = MadeTrace(head={"deviceProperties": []})
    for number, begin in enumerate([1000, 1100], 3):
        trace.step(number, begin, begin + 100)
        trace.op("aten::linear", begin, begin + 30)
        trace.op("aten::addmm", begin + 10, begin + 20)
        trace.op("autograd::engine::evaluate_function: MmBackward0", begin + 50, begin + 80)
        trace.op("c10d::allreduce_", begin + 60, begin + 65)
        trace.note(
            "gloo:all_reduce",
            begin + 20,
            begin + 55,
            tid=2,
            Input_Dims=[[250]],
            Input_type=["float"],
        )
    return trace


def pieces_of(text: bytes, size: int) -> Iterable[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def trace_of(made: MadeTrace) -> Trace:
    """What the reader makes of it."""
    return read_trace_from(io.BytesIO(made.kineto_text()), name="made.json")
