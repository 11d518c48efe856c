"""A made trace of any size, in Kineto's layout: training steps with kernels, NCCL and copies.

The same arguments give the same bytes. Sizes of fields and shares of categories are those of real
CUDA traces, so that parsers meet what they meet there: about 320 bytes an event, a third of the
events flow arrows, shapes on operators, metadata on collectives.

    python -m benchmarks.synthetic_trace trace.json.gz --megabytes 54
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import click

STEPS = 6
BASE_NS = 1_711_964_646_000_000_000
START_US = 4_458_676_522_690.0
_KERNELS = tuple(
    f"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_{m}x{n}_16x6_{layout}_align4>"
    f"(cutlass_80_tensorop_s1688gemm_{m}x{n}_16x6_{layout}_align4::Params)"
    for m in (64, 128, 256)
    for n in (64, 128)
    for layout in ("nn", "nt", "tn")
)
_OPERATORS = ("aten::linear", "aten::addmm", "aten::layer_norm", "aten::gelu", "aten::add_")
_SHAPES = tuple([[8, 128 * k], [128 * k, 64 * k], [64 * k]] for k in range(1, 40))


def write_synthetic_trace(path: Path, *, megabytes: float, rank: int = 0) -> Path:
    """Write a trace of about this many megabytes of text; packed if the path ends in .gz."""
    with (
        gzip.open(path, "wb", compresslevel=4) if path.suffix == ".gz" else path.open("wb") as file
    ):
        for part in _document(int(megabytes * 1e6), rank):
            file.write(part)
    return path


def _document(size_bytes: int, rank: int) -> Iterator[bytes]:
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Synthetic GPU", "totalGlobalMem": 42 << 30}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 8},
    }
    yield json.dumps(head)[:-1].encode() + b',\n  "traceEvents": [\n'
    writer = _Writer(random.Random(rank))
    written = 0
    for step in range(STEPS):
        writer.begin_step()
        while written < size_bytes * (step + 1) / STEPS:
            part = writer.layer()
            written += len(part)
            yield part
        part = writer.end_step(step)
        written += len(part)
        yield part
    yield b'  {\n    "ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 0\n  }\n'
    tail = {"traceName": "synthetic.json", "baseTimeNanoseconds": BASE_NS}
    yield b"  ],\n" + json.dumps(tail)[1:].encode()


class _Writer:
    """Keeps the clocks of host and device and the counter of correlations."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._host_us = START_US
        self._device_us = START_US + 300
        self._comm_us = START_US + 300
        self._copy_us = START_US + 300
        self._step_us = START_US
        self._correlation = 1000

    def begin_step(self) -> None:
        """Note where the step begins."""
        self._step_us = self._host_us

    def end_step(self, number: int) -> bytes:
        """The annotation of the step."""
        return self._event(
            "user_annotation",
            f"ProfilerStep#{number + 10}",
            self._step_us,
            self._host_us - self._step_us,
        )

    def layer(self) -> bytes:
        """Some thirty operators with a kernel each, a collective and a copy."""
        parts = []
        for number in range(30):
            name = self._source.choice(_OPERATORS)
            length = self._between(8, 40)
            shapes = json.dumps(self._source.choice(_SHAPES))
            args = f'"Input Dims": {shapes}, "Input type": ["float", "float", "float"], "Ev Idx": 7'
            parts.append(self._event("cpu_op", name, self._host_us, length, args=args))
            if name == "aten::linear":
                parts.append(
                    self._event("cpu_op", "aten::t", self._host_us + 1, length / 4, args=args)
                )
            parts.append(self._launch(number))
            self._host_us = round(self._host_us + length + self._between(0, 6), 3)
        return b"".join(parts)

    def _launch(self, number: int) -> bytes:
        """A call, its arrow and what it starts."""
        self._correlation += 1
        call = self._event(
            "cuda_runtime",
            "cudaLaunchKernel",
            self._host_us + 3,
            4.5,
            args=f'"cbid": 211, "correlation": {self._correlation}',
        )
        arrow = (
            f'  {{\n    "ph": "s", "id": {self._correlation}, "pid": 4711, "tid": 4711,'
            f' "ts": {self._host_us + 3:.3f}, "cat": "ac2g", "name": "ac2g"\n  }},\n'
        ).encode()
        return call + arrow + self._on_device(number)

    def _on_device(self, number: int) -> bytes:
        issued = self._host_us + 9
        common = (
            f'"queued": 0, "device": 0, "context": 1, "correlation": {self._correlation}, '
            '"registers per thread": 90, "shared memory": 49152, "blocks per SM": 0.59, '
            '"warps per SM": 2.37, "grid": [64, 1, 1], "block": [128, 1, 1], '
            '"est. achieved occupancy %": 4'
        )
        length = self._between(4, 36)
        if number == 17:
            begin = max(self._comm_us, issued)
            self._comm_us = begin + 12 * length
            args = common + (
                ', "stream": 20, "Collective name": "allreduce", "dtype": "Float", '
                '"In msg nelems": 2049000, "Out msg nelems": 2049000, "Group size": 8, '
                '"Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"'
            )
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)"
            return self._event("kernel", name, begin, 12 * length, pid=0, tid=20, args=args)
        if number == 23:
            begin = max(self._copy_us, issued)
            self._copy_us = begin + 2 * length
            args = f'"stream": 21, "correlation": {self._correlation}, "bytes": 1048576'
            name = "Memcpy HtoD (Pinned -> Device)"
            return self._event("gpu_memcpy", name, begin, 2 * length, pid=0, tid=21, args=args)
        begin = max(self._device_us, issued)
        self._device_us = begin + length
        name = self._source.choice(_KERNELS)
        args = common + ', "stream": 7'
        return self._event("kernel", name, begin, length, pid=0, tid=7, args=args)

    def _between(self, least: float, most: float) -> float:
        return round(self._source.uniform(least, most), 3)

    def _event(
        self,
        cat: str,
        name: str,
        begin_us: float,
        length_us: float,
        *,
        pid: int = 4711,
        tid: int = 4711,
        args: str = '"Ev Idx": 3',
    ) -> bytes:
        return (
            f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
            f'    "ts": {begin_us:.3f}, "dur": {length_us:.3f},\n    "args": {{\n'
            f'      "External id": {self._correlation}, {args}\n    }}\n  }},\n'
        ).encode()


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--megabytes", type=float, default=54.0, show_default=True)
def main(path: Path, megabytes: float) -> None:
    """Write one trace."""
    write_synthetic_trace(path, megabytes=megabytes)


if __name__ == "__main__":
    main()
