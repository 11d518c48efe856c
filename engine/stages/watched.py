"""A module's parameters that tell when one is read: what another module borrows is gathered too."""

from collections.abc import Callable, Mapping
from typing import Any


class WatchedParameters(dict[str, Any]):
    """A module's parameters that tells when one is read."""

    def __init__(self, parameters: Mapping[str, Any], touched: Callable[[Any], None]) -> None:
        super().__init__(parameters)
        self._touched = touched

    def __getitem__(self, name: str) -> Any:
        parameter = super().__getitem__(name)
        self._touched(parameter)
        return parameter

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        # A copied or pickled module is an ordinary one.
        return dict, (dict(self),)
