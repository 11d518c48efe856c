"""Documents: as much as can be read is read, and the rest costs a sentence each."""

import json
import math
from typing import Any

import msgspec
import pytest
from building import plain
from hypothesis import given
from hypothesis import strategies as st

from probe.schema.codec import decode_document, encode_document
from probe.schema.documents import (
    DeviceFacts,
    Header,
    Heartbeat,
    HostFacts,
    Manifest,
    ModelFacts,
    RunConfig,
)
from probe.schema.vocabulary import Precision, RunStatus, Tier

KINDS = (Manifest, Header, Heartbeat)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_a_manifest_comes_back_whole() -> None:
    manifest = Manifest(
        name="zwölf \u2028",
        tags=["a", "<b>"],
        status=RunStatus.KILLED,
        world_size=2**40,
        config=RunConfig(
            precision=Precision.BF16, offload_params=Tier.DISK, settings={"a.b": [1, None, "x"]}
        ),
        model=ModelFacts(flops_per_sample=1e18),
        hosts=[HostFacts(name="n1")],
        devices=[DeviceFacts(count=8)],
        exit_codes={"0": 0, "3": -9},
    )
    assert decode_document(encode_document(manifest), Manifest) == (manifest, [])


def test_a_document_holds_what_json_has_no_word_for() -> None:
    content = encode_document(Manifest(model=ModelFacts(flops_per_sample=math.inf)))
    assert b'"inf"' in content
    back, faults = decode_document(content, Manifest)
    assert (back.model.flops_per_sample, faults) == (math.inf, [])


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_default(kind: type[msgspec.Struct]) -> None:
    assert decode_document(b"{}", kind) == (kind(), [])


@pytest.mark.parametrize("kind", KINDS)
@given(content=st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode))
def test_any_bytes_are_a_document_or_faults(kind: type[msgspec.Struct], content: bytes) -> None:
    document, faults = decode_document(content, kind)
    assert isinstance(document, kind)
    assert all(faults)


@given(
    fields=st.dictionaries(
        st.sampled_from(Manifest.__struct_fields__) | st.text(max_size=5), JSON, max_size=6
    )
)
def test_a_bad_field_costs_only_itself(fields: dict[str, Any]) -> None:
    fields["run_id"] = "the one that is right"
    document, faults = decode_document(json.dumps(fields).encode(), Manifest)
    assert document.run_id == "the one that is right"
    named = {fault.split("'")[1] for fault in faults if fault.startswith("field ")}
    assert len(named) == len(faults)
    assert named <= fields.keys()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is not readable JSON"),
        (b"\0" * 512, "is not readable JSON"),
        (b"\xff\xfe{}", "is not readable JSON"),
        (b"[" * 100_000, "is not readable JSON"),
        (b'{"name":' * 50_000, "is not readable JSON"),
        (b"[1]", "holds a JSON list where an object belongs"),
        (b'"text"', "holds a JSON str where an object belongs"),
        (b"null", "holds a JSON NoneType where an object belongs"),
        (b'{"world_size": 1e400}', ""),
        (b'{"world_size": 99999999999999999999999999}', "field 'world_size'"),
        (b'{"world_size": ' + b"9" * 10_000 + b"}", ""),
        (b'{"exit_codes": {"0": "x"}}', "field 'exit_codes'"),
        (b'{"status": "dancing"}', "field 'status'"),
        (b'{"config": {"settings": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}}", ""),
        (b'{"name": "\\ud800"}', "is not readable JSON"),
    ],
)
def test_hostile_manifests(content: bytes, what: str) -> None:
    document, faults = decode_document(content, Manifest)
    (fault,) = faults
    assert what in fault
    assert document.name == ""


def test_the_last_of_two_equal_keys_counts() -> None:
    assert decode_document(b'{"name":"a","name":"b"}', Manifest)[0].name == "b"


def test_words_of_a_document_are_plain_text_on_disk() -> None:
    assert plain(Heartbeat())["state"] == "alive"  # type: ignore[arg-type]
