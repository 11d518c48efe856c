"""A trace that is whole is read whole, whatever its age and layout."""

import gzip
import io
import json
from typing import Any

import numpy as np
import pytest
from made_traces import MadeTrace, cpu_trace, device_trace, pieces_of

from probe.errors import UsageError
from probe.read.trace import CATEGORIES, NONE, Trace
from probe.read.trace_bytes import PIECE_BYTES
from probe.read.trace_file import read_trace, read_trace_from
from probe.read.trace_scan import scan_elements
from probe.read.trace_stream import EventStream
from probe.schema.vocabulary import TraceCategory


def read_text(text: bytes, name: str = "made.json") -> Trace:
    return read_trace_from(io.BytesIO(text), name=name)


def plain(trace: Trace) -> list[tuple[Any, ...]]:
    """Events as comparable tuples."""
    e = trace.events
    return [
        (
            int(e.start_ns[i]),
            int(e.duration_ns[i]),
            CATEGORIES[e.category[i]].value,
            trace.names[e.name[i]],
            (trace.lanes[e.lane[i]].process, trace.lanes[e.lane[i]].thread),
            int(e.correlation[i]),
            int(e.size_bytes[i]),
            None if e.signature[i] == NONE else trace.signatures[e.signature[i]],
            None if e.collective[i] == NONE else trace.collectives[e.collective[i]],
        )
        for i in range(len(e))
    ]


def test_the_columns_hold_what_the_events_say() -> None:
    trace = read_text(device_trace().kineto_text())
    assert not trace.problems
    base = 1_700_000_000_000_000_000
    begin, duration, category, name, lane, correlation, size, signature, collective = plain(trace)[
        1
    ]
    assert (begin, duration) == (base + 505_000, 20_000)
    assert (category, name, lane) == ("operator", "aten::linear", ("1", "1"))
    assert (correlation, size, collective) == (NONE, NONE, None)
    assert signature is not None
    assert json.loads(signature.shapes) == [[8, 4], [4, 4]]
    assert json.loads(signature.dtypes) == ["float", "float"]
    (nccl, _) = [row for row in plain(trace) if row[3].startswith("nccl")]
    assert nccl[4] == ("0", "20")
    assert (nccl[8].name, nccl[8].group_size, nccl[8].in_elements) == ("allreduce", 2, 1000)
    (copy, _) = [row for row in plain(trace) if row[2] == "copy"]
    assert copy[6] == 4096


def test_facts_stand_before_or_behind_the_events() -> None:
    made = device_trace()
    ahead = read_text(made.kineto_text())
    made.head, made.tail = made.tail, made.head
    behind = read_text(made.kineto_text())
    assert ahead.facts == behind.facts
    assert plain(ahead) == plain(behind)
    assert (ahead.facts.rank, ahead.facts.world_size, ahead.facts.backend) == (1, 2, "nccl")
    assert ahead.facts.devices[0].name == "Made GPU"


@pytest.mark.parametrize("layout", [None, 0, 1, 2, (",", ":")])
def test_the_layout_of_the_json_does_not_matter(layout: Any) -> None:
    made = device_trace()
    expected = plain(read_text(made.kineto_text()))
    if isinstance(layout, tuple):
        text = json.dumps(made.document(), separators=layout).encode()
    else:
        text = json.dumps(made.document(), indent=layout).encode()
    trace = read_text(text)
    assert plain(trace) == expected
    assert not trace.problems


def test_an_array_without_a_document_is_read() -> None:
    made = cpu_trace()
    trace = read_text(json.dumps(made.events).encode())
    assert plain(trace) == plain(read_text(made.kineto_text()))
    assert not trace.problems


def test_packed_and_plain_and_in_several_members_are_the_same(tmp_path) -> None:
    text = device_trace().kineto_text()
    expected = plain(read_text(text))
    halves = gzip.compress(text[:700]) + gzip.compress(text[700:])
    for content in (gzip.compress(text), halves, halves + b"\0" * 512):
        trace = read_text(content)
        assert plain(trace) == expected
        assert not trace.problems


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_where_the_text_is_cut_into_pieces_does_not_matter(size: int) -> None:
    text = device_trace().kineto_text()
    whole = [event for batch in EventStream(pieces=iter([text])).batches() for event in batch]
    stream = EventStream(pieces=iter(pieces_of(text, size)))
    assert [event for batch in stream.batches() for event in batch] == whole
    assert stream.closed
    assert not stream.lost_events
    assert bytes(stream.outside.base) == b"1700000000000000000"


def test_a_trace_of_many_pieces_is_read_by_guess_and_whole() -> None:
    made = MadeTrace()
    for number in range(9000):
        made.op(f"op{number % 7}", number * 10.5, number * 10.5 + 3.25, Note='}, { ] \\" [')
    text = made.kineto_text()
    assert len(text) > 4 * PIECE_BYTES
    trace = read_text(text)
    assert not trace.problems
    assert len(trace.events) == 9000
    assert (np.diff(trace.events.start_ns) == 10_500).all()
    assert len(trace.names) == 7


def test_old_whole_and_new_fractional_microseconds_are_exact() -> None:
    made = MadeTrace().op("old", 1661203462598738, 1661203462598757).op("new", 1.001, 3.003)
    trace = read_text(made.kineto_text())
    assert trace.events.start_ns.tolist() == [1661203462598738000, 1001]
    assert trace.events.duration_ns.tolist() == [19000, 2002]
    made = MadeTrace(head={"baseTimeNanoseconds": 1711964646000000000})
    made.op("late", 4458676522690.655, 4458676522847.432)
    (begin,) = read_text(made.kineto_text()).events.start_ns
    assert begin == 1711964646000000000 + 4458676522690655


def test_what_is_not_kept_is_counted() -> None:
    made = MadeTrace().add("python_function", "train.py(3): step", 0, 9)
    made.add("python_function", "nn.Module: Linear_3", 1, 5).add(
        "Trace", "PyTorch Profiler (0)", 0, 9
    )
    made.events.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}})
    trace = read_text(made.kineto_text())
    assert [row[2:4] for row in plain(trace)] == [("module", "nn.Module: Linear_3")]
    assert trace.facts.left_out == {"untimed": 1, "python_function": 1}


def test_only_the_document_s_own_array_counts() -> None:
    made = cpu_trace()
    made.head["note"] = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "no", "dur": 1}]}
    made.head["text"] = '"traceEvents": ['
    trace = read_text(made.kineto_text())
    assert not trace.problems
    assert plain(trace) == plain(read_text(cpu_trace().kineto_text()))


def test_facts_that_make_no_sense_are_not_taken() -> None:
    made = cpu_trace()
    made.head["distributedInfo"] = {"rank": -3, "world_size": "many", "backend": ["x"] * 9000}
    made.head["deviceProperties"] = [{"name": 5}, 7]
    made.tail["baseTimeNanoseconds"] = 2**80
    facts = read_text(made.kineto_text()).facts
    assert (facts.rank, facts.world_size, facts.backend) == (None, None, "")
    assert (facts.devices, facts.base_ns) == ([], 0)
    made.head["distributedInfo"] = {"rank": "7", "pg_config": [{"ranks": list(range(5000))}]}
    assert read_text(made.kineto_text()).facts.rank == 7


def test_the_rank_is_also_taken_from_the_name_of_the_file() -> None:
    text = cpu_trace().kineto_text()
    assert read_text(text, name="rank12_step5.json").facts.rank == 12
    assert read_text(text, name="worker.json").facts.rank is None


def test_numbers_beyond_64_bits_are_none() -> None:
    made = MadeTrace().op("a", 0, 1, External_id=2**70, bytes=12)
    trace = read_text(made.kineto_text())
    assert trace.events.external_id.tolist() == [NONE]
    assert trace.events.size_bytes.tolist() == [12]


def test_fields_of_unusual_types_cost_only_themselves() -> None:
    made = MadeTrace().op("a", 0, 1, External_id="seven", bytes=12).op("b", 1, 2)
    made.events[1]["ts"] = "1.0"
    trace = read_text(made.kineto_text())
    assert not trace.problems
    assert [row[3] for row in plain(trace)] == ["a", "b"]
    assert trace.events.external_id.tolist() == [NONE, NONE]
    assert trace.events.size_bytes.tolist() == [12, NONE]


def test_times_that_cannot_be_are_left_out_and_said() -> None:
    made = MadeTrace().op("good", 5, 6).op("long", 0, 1e14).op("far", 1e300, 1e300)
    made.op("backwards", 9, 3)
    trace = read_text(made.kineto_text())
    assert [row[3] for row in plain(trace)] == ["good"]
    (problem,) = trace.problems
    assert "3 events whose times cannot be" in problem.what


def test_categories_of_any_age_have_one_word() -> None:
    made = MadeTrace()
    for cat in (
        "Kernel",
        "gpu_memcpy",
        "Memset",
        "cuda_driver",
        "xpu_runtime",
        "gpu_user_annotation",
    ):
        made.add(cat, "x", 0, 1)
    found = [CATEGORIES[code] for code in read_text(made.kineto_text()).events.category]
    assert found == [
        TraceCategory.KERNEL,
        TraceCategory.COPY,
        TraceCategory.FILL,
        TraceCategory.LAUNCH,
        TraceCategory.LAUNCH,
        TraceCategory.DEVICE_ANNOTATION,
    ]


def test_scanning_knows_strings_brackets_and_halves() -> None:
    text = rb' {"a": "}]\""}, 7, [1, {"b": []}], {"c'
    scan = scan_elements(text, 0)
    assert [text[begin:end] for begin, end in scan.spans] == [rb'{"a": "}]\""}', b'[1, {"b": []}]']
    assert text[scan.rest :] == b'{"c'
    assert scan.closed is None
    assert scan_elements(b"{} ] , 1", 0).closed == 4


def test_only_a_missing_file_raises(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="is no file"):
        read_trace(tmp_path)
