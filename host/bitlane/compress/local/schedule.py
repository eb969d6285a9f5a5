"""The steps at which fragments are averaged, as in Streaming DiLoCo (Douillard et al., 2025, arXiv 2501.18512).

Fragment f begins a round after the inner steps with step % every == f * every // fragments, so that the bytes are
spread over time. The average is applied `delay` steps later. A round ends before the next one begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.errors import DataError
from bitlane.support.scalars import as_integer, as_number


@dataclass(frozen=True)
class RoundSchedule:
    """When fragments are averaged, and how the average is mixed with the parameters of a rank.

    Parameters
    ----------
    every : int
        Inner steps between two rounds of a fragment (H).
    fragments : int
        Number of fragments (P).
    delay : int
        Inner steps between the begin of a round and the use of its average (tau); less than every // fragments.
    blend : float or None
        Weight of the rank's own parameters when the average is applied (alpha), 0 or more and less than 1. None for 0
        without a delay, and 0.5 with one.
    step_ahead : float
        Share of the residual by which the parameters of a rank are ahead of the global ones, 0 to 1. More than 0 needs
        neither a delay nor a blend.

    Raises
    ------
    DataError
        If a setting has another type or value.
    """

    every: int
    fragments: int
    delay: int
    blend: float
    step_ahead: float = 0.0

    @classmethod
    def checked(
        cls, every: int, fragments: int, delay: int, blend: float | None, step_ahead: float = 0.0
    ) -> RoundSchedule:
        """Return the schedule with these settings, after checks of their types and values."""
        every, fragments = as_integer("every", every, 1), as_integer("fragments", fragments, 1)
        delay = as_integer("delay", delay, 0)
        if fragments > every:
            raise DataError(f"fragments={fragments} with every={every}: at most one fragment can begin in a step")
        if delay >= every // fragments:
            raise DataError(
                f"delay={delay} with every={every} and fragments={fragments}: a round must end before the next one "
                f"begins, so delay must be less than {every // fragments}"
            )
        weight = (0.5 if delay else 0.0) if blend is None else as_number("blend", blend)
        if not 0 <= weight < 1:
            raise DataError(
                f"blend must be 0 or more and less than 1, the weight of a rank's own parameters; got {blend}"
            )
        share = as_number("step_ahead", step_ahead)
        if not 0 <= share <= 1:
            raise DataError(f"step_ahead must be 0 to 1, a share of what was not sent; got {step_ahead}")
        if share and (delay or weight):
            raise DataError(
                f"step_ahead={step_ahead} sets the parameters of a rank after each round, so it needs delay=0 and "
                f"blend=0; got delay={delay} and blend={weight}"
            )
        return cls(every, fragments, delay, weight, share)

    @property
    def text(self) -> str:
        """The settings as ranks compare them, and as saved states hold them."""
        return (
            f"Schedule(every={self.every}, fragments={self.fragments}, delay={self.delay}, blend={self.blend}, "
            f"step_ahead={self.step_ahead})"
        )

    def begins(self, step: int) -> int | None:
        """Return the fragment that begins a round after `step` inner steps, 1 or more; None if none does."""
        offsets = [fragment * self.every // self.fragments for fragment in range(self.fragments)]
        return offsets.index(step % self.every) if step % self.every in offsets else None
