"""Damage costs itself: what is there is read, in bounded memory, and what is wrong is said."""

import gzip
import io
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import MadeTrace, cpu_trace, device_trace

from probe.read.trace import Trace
from probe.read.trace_file import read_trace_from
from probe.read.trace_stream import LONGEST_EVENT_BYTES
from probe.schema.vocabulary import Severity

ROOT = Path(__file__).parents[2]


def read_text(text: bytes, **options: int) -> Trace:
    return read_trace_from(io.BytesIO(text), name="made.json", **options)


def events_before(text: bytes, cut: int) -> int:
    """Whole events in the first bytes of a text in Kineto's layout."""
    return sum(1 for begin, end in SPANS if end <= cut)


TEXT = device_trace().kineto_text()
EVENTS = len(device_trace().events)
ARRAY = TEXT.index(b"[", TEXT.index(b"traceEvents"))


def _spans() -> list[tuple[int, int]]:
    decoder = json.JSONDecoder()
    text, place, spans = TEXT.decode(), ARRAY + 1, []
    while (begin := text.find("{", place)) >= 0 and len(spans) < EVENTS:
        _, place = decoder.raw_decode(text, begin)
        spans.append((begin, place))
    return spans


SPANS = _spans()


def test_a_trace_cut_at_any_byte_gives_every_whole_event() -> None:
    for cut in range(len(TEXT)):
        trace = read_text(TEXT[:cut])
        assert len(trace.events) == events_before(TEXT, cut), cut
        assert any(item.severity is Severity.ERROR for item in trace.problems), cut


def test_a_packed_trace_cut_at_any_byte_says_so() -> None:
    packed = gzip.compress(TEXT)
    for cut in range(0, len(packed) - 1, 3):
        trace = read_text(packed[:cut])
        assert len(trace.events) <= EVENTS
        assert trace.problems, cut
    assert not read_text(packed).problems


def test_one_damaged_event_takes_no_other_with_it() -> None:
    for number, (begin, end) in enumerate(SPANS[:-1]):
        for damage in (b'"', b"}", b"{", b"]", b"\\", b"\xff", b"\0"):
            middle = (begin + end) // 2
            trace = read_text(TEXT[:middle] + damage + TEXT[middle + 1 :])
            assert len(trace.events) >= EVENTS - 2, (number, damage)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_noise_never_raises_and_never_adds_events(data: st.DataObject) -> None:
    text = bytearray(TEXT)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    packed = data.draw(st.booleans())
    trace = read_text(gzip.compress(bytes(text)) if packed else bytes(text))
    assert len(trace.events) <= EVENTS + 8


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_anything_at_all_is_read_without_raising(content: bytes) -> None:
    for text in (content, b"\x1f\x8b\x08" + content, b'{"traceEvents":[' + content):
        assert read_text(text).problems


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["ph", "cat", "name", "ts", "dur", "pid", "tid", "args", "bytes", "X"]
                )
                | st.text(max_size=4),
                inner,
                max_size=6,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_among_the_events_leaves_the_others_alone(strange: object) -> None:
    good = cpu_trace().events
    text = json.dumps({"traceEvents": [good[0], strange, *good[1:]]}).encode()
    assert len(read_text(text).events) in (len(good), len(good) + 1)


def test_an_event_of_endless_length_is_stepped_over() -> None:
    made = (
        MadeTrace().op("before", 0, 1).op("x" * (3 * LONGEST_EVENT_BYTES), 1, 2).op("after", 2, 3)
    )
    trace = read_text(made.kineto_text())
    assert [trace.names[code] for code in trace.events.name] == ["before", "after"]
    assert any("damaged" in item.what for item in trace.problems)


def test_no_trace_is_said_to_be_none() -> None:
    for text in (b"", b"{}", b'{"traceEvents": 3}', b"hello", gzip.compress(b"")):
        (problem,) = read_text(text).problems
        assert "holds no traceEvents" in problem.what
    (problem,) = read_text(b'{"traceEvents": []}').problems
    assert "no event that takes time" in problem.what


def test_more_events_than_memory_allows_end_the_reading() -> None:
    made = MadeTrace()
    for number in range(20000):
        made.op("op", number, number + 1)
    trace = read_text(made.kineto_text(), limit_bytes=100_000)
    assert 0 < len(trace.events) < 20000
    assert any("would not fit" in item.what for item in trace.problems)


PROGRAM = """
import resource, sys
from probe.read.trace_file import read_trace
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
trace = read_trace(sys.argv[1], limit_bytes=200 << 20)
# Not ru_maxrss: that survives exec, and this would be the peak of whoever started us.
with open("/proc/self/status") as status:
    lines = dict(line.split(":", 1) for line in status)
peak = int(lines["VmHWM"].split()[0]) // 1024
print(len(trace.events), peak, *[item.what for item in trace.problems], sep="|")
"""


def write_bomb(path: Path, head: bytes, body: bytes, megabytes: int) -> None:
    packer = zlib.compressobj(9, wbits=31)
    block = body * ((1 << 20) // len(body) + 1)
    with path.open("wb") as file:
        file.write(packer.compress(head))
        for _ in range(megabytes):
            file.write(packer.compress(block))
        file.write(packer.flush())


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"", b" "),
        (b'{"traceEvents":[', b" "),
        (b'{"traceEvents":[{"name":"', b"x"),
        (b'{"traceEvents":[', b"{},"),
        (b'{"traceEvents":[', b"["),
        (b'{"traceEvents":[', b'{"ph":"X","name":"a","ts":1,"dur":1},'),
        (b'{"a":', b"["),
        (b'{"a":[', b"{},"),
        (b"{", b'"a":{"traceEvents":[],'),
    ],
    ids=[
        "blanks",
        "blank-array",
        "long-name",
        "empty-events",
        "deep",
        "small-events",
        "deep-head",
        "wide-head",
        "many-arrays",
    ],
)
def test_a_bomb_stays_small(tmp_path, head: bytes, body: bytes) -> None:
    path = tmp_path / "bomb.json.gz"
    write_bomb(path, head, body, megabytes=48)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    _, peak_megabytes, *problems = done.stdout.strip().split("|")
    assert any("inflates beyond" in what for what in problems)
    assert int(peak_megabytes) < 500


@pytest.mark.slow
@pytest.mark.timeout(1300)
def test_a_gigabyte_of_events_is_read_in_a_fraction_of_it(tmp_path) -> None:
    path = tmp_path / "large.json.gz"
    make = [sys.executable, "-m", "benchmarks.synthetic_trace", str(path), "--megabytes", "1000"]
    subprocess.run(make, check=True, cwd=ROOT, timeout=600)
    program = PROGRAM.replace("200 << 20", "1 << 30")
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        check=True,
    )
    events, peak_megabytes, *problems = done.stdout.strip().split("|")
    assert int(events) > 2_500_000
    assert not any(problems)
    assert int(peak_megabytes) < 600
