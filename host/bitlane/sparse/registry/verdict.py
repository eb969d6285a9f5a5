"""The result of the validation of a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bitlane.sparse.registry.checks import Bounds, ValidationCheck, checks_text


@dataclass(frozen=True)
class Validation:
    """The result of the validation of a version.

    Attributes
    ----------
    version : int
    label : str
        For which it was validated.
    current : int or None
        The version that the label named then, with which it was compared.
    time : str
        UTC, ISO 8601.
    held_out : str
        The name of the data.
    metrics : dict of float
        On the held-out rows.
    bounds : Bounds
    checks : tuple of ValidationCheck
    """

    version: int
    label: str
    current: int | None
    time: str
    held_out: str
    metrics: Mapping[str, float | None]
    bounds: Bounds
    checks: tuple[ValidationCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the version passed all checks; if not, it is rejected."""
        return all(check.passed for check in self.checks)

    @property
    def problems(self) -> list[str]:
        """A line for each check that failed."""
        return checks_text(self.checks)
