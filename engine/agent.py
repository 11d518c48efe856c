"""Runs torch.distributed.run and reports how each rank ended.

    python -m engine.agent REPORT [torch.distributed.run's arguments]

The launcher starts this process and reads REPORT afterwards: exit codes by rank, and what ended the
group. Everything about rendezvous, nodes and restarts is torch.distributed.run's.
"""

import json
import logging
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run


def main() -> int:
    """Start the ranks, wait, report."""
    report = Path(sys.argv[1])
    # Its own log repeats in many lines what the launcher says in one.
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    exit_codes: dict[str, int] = {}
    first: int | None = None
    signal = 0
    try:
        run(parse_args(sys.argv[2:]))  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        exit_codes = {str(rank): failure.exitcode for rank, failure in error.failures.items()}
        first, _ = error.get_first_failure()
    except SignalException as error:
        signal = int(error.sigval)
    report.write_text(json.dumps({"exit_codes": exit_codes, "first": first, "signal": signal}))
    return 1 if exit_codes or signal else 0


if __name__ == "__main__":
    sys.exit(main())
