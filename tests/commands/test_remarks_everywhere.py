"""Tags and notes that were written later hold wherever a run is told."""

import json
from collections.abc import Callable
from pathlib import Path

from probe.remark import write_remark
from probe.schema.documents import Remark


def test_list_and_show_tell_what_holds_now(probe, make_run: Callable[..., Path]) -> None:
    path = make_run("demo", tags=["first"], notes="as started")
    (listed,) = json.loads(probe("list", "--json").out)
    assert (listed["tags"], listed["notes"]) == (["first"], "as started")

    write_remark(path, Remark(tags=["best", "kept"], notes="the one to beat"))
    (listed,) = json.loads(probe("list", "--json").out)
    assert (listed["tags"], listed["notes"]) == (["best", "kept"], "the one to beat")
    shown = probe("show", "demo").out
    assert "best, kept" in shown and "the one to beat" in shown
    assert "as started" not in shown
    assert json.loads(probe("show", "demo", "--json").out)["manifest"]["tags"] == ["best", "kept"]
