"""What torch.distributed.run is asked for."""

from pathlib import Path

from torch.distributed.run import parse_args

from probe.launch.request import RunRequest, command_of


def asked(request: RunRequest) -> dict[str, object]:
    """As torch.distributed.run understands it."""
    command = command_of(request, Path("report"))
    assert command[1:4] == ["-m", "engine.agent", "report"]
    return vars(parse_args(command[4:]))


def test_one_machine_meets_on_a_port_of_its_own() -> None:
    """Before torch 2.13 two launches on a machine would meet on port 29500 otherwise."""
    request = RunRequest(script=Path("train.py"), arguments=("--lr", "1"), processes=2)
    told = asked(request)
    assert told["standalone"] is True
    assert (told["nproc_per_node"], told["nnodes"]) == ("2", "1")
    assert (told["training_script"], told["module"]) == ("engine.worker", True)
    assert told["training_script_args"] == ["train.py", "--lr", "1"]


def test_several_machines_meet_where_they_are_told() -> None:
    request = RunRequest(script=Path("train.py"), nodes="2", rendezvous="one:7000")
    told = asked(request)
    assert told["standalone"] is False
    assert (told["rdzv_backend"], told["rdzv_endpoint"]) == ("c10d", "one:7000")
