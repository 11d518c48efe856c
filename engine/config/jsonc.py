"""JSON as people write it: with comments, trailing commas, and now and then a key twice."""

import json
import re
from typing import Any

TOKENS = re.compile(
    r"""
      (?P<string> "(?:\\.|[^"\\\n])*" )
    | (?P<comment> //[^\n]* | \#[^\n]* | /\*.*?\*/ )
    | (?P<open> /\* )
    """,
    re.VERBOSE | re.DOTALL,
)
TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')


class JsonError(ValueError):
    """The text is no JSON, even with comments allowed."""


def parse_json(text: str) -> tuple[Any, list[str]]:
    """The value, and the keys that stand twice in one block (the last one counts)."""
    repeated: list[str] = []

    def block(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        repeated.extend(sorted({name for name in names if names.count(name) > 1}))
        return dict(pairs)

    try:
        return json.loads(plain_json(text), object_pairs_hook=block), repeated
    except json.JSONDecodeError as error:
        raise JsonError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise JsonError(f"cannot be read as JSON: {error}") from error


def plain_json(text: str) -> str:
    """The text with comments and trailing commas blanked, so that every place keeps its line."""

    def blank(match: re.Match[str]) -> str:
        if match["string"] is not None:
            return match[0]
        if match["open"] is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise JsonError(f"line {line}: the comment opened by /* is never closed")
        return re.sub(r"[^\n]", " ", match[0])

    without_comments = TOKENS.sub(blank, text)
    return TRAILING_COMMA.sub(lambda match: match[1] or " ", without_comments)
