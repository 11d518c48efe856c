"""A plain value, a document or a frozen result as JSON for programs, printed or downloaded."""

import json
from typing import Any

import msgspec

from probe.errors import ProbeError
from probe.schema.codec import with_words


def json_text(value: Any) -> str:
    """Indented; nan and the infinities are words, and everything beyond ASCII is escaped."""
    try:
        return json.dumps(with_words(msgspec.to_builtins(value)), indent=2, allow_nan=False)
    except RecursionError:
        raise ProbeError("The run's manifest is nested too deep to be printed as JSON.") from None
