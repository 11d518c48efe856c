"""What is asked for on the command line reaches the ranks; what cannot be meant is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from probe.commands.run import command
from probe.launch.request import RunRequest, environment_of
from probe.schema.documents import ProfileWindow
from probe.schema.handover import HANDOVER_VARIABLE, Handover
from probe.schema.vocabulary import ProfileDetail

SCRIPT = str(Path(__file__).parents[2] / "train.py")


def test_a_dry_run_tells_the_window_and_the_numerics() -> None:
    asked = ["--dry-run", "--profile-steps", "5:8", "--profile-ranks", "0,3"]
    asked += ["--profile-with", "shapes,memory", "--numerics-every", "7", SCRIPT]
    told = CliRunner().invoke(command, asked)
    assert told.exit_code == 0, told.output
    assert "profiled    steps 5 to 7 on rank 0, 3, with shapes, memory\n" in told.output
    assert "numerics    every 7 steps\n" in told.output


@pytest.mark.parametrize(
    "asked",
    [
        ["--profile-steps", "8:5"],
        ["--profile-steps", "five"],
        ["--profile-ranks", "0,one"],
        ["--profile-with", "everything"],
        ["--hang-timeout", "0"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_refused(asked: list[str]) -> None:
    told = CliRunner().invoke(command, ["--dry-run", *asked, SCRIPT])
    assert told.exit_code == 2
    assert asked[0] in told.output


def test_the_ranks_are_handed_what_was_asked_for(tmp_path: Path) -> None:
    window = ProfileWindow(first_step=2, end_step=4, ranks=[1], details=[ProfileDetail.STACKS])
    request = RunRequest(script=tmp_path / "x.py", profile=window, numerics_every=0)
    handed = Handover.from_text(environment_of(request, tmp_path)[HANDOVER_VARIABLE])
    assert handed.profile == window
    assert handed.numerics_every == 0
