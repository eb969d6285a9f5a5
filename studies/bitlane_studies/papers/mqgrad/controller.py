"""The cost of MQGrad's controller (MQGrad, section 4.2, table 3)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import Observation

from ..claim import Claim, ClaimVerdict, Log, markdown_table
from .pace import LINKS, RANKS, StepTimes, measure_step_times
from .sizes import MQGradSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SHARE = 1e-3  # of the duration of a step
STEPS, RUNS = 1000, 5


def controller_seconds() -> float:
    """Measure the CPU seconds of the controller per step, averaged over a period; the median of some runs."""
    seconds = []
    for run in range(RUNS):
        chooser = MQGrad(seed=run).start()
        losses = 2 + np.random.default_rng(run).normal(size=STEPS)
        start = time.process_time()
        for loss in losses.tolist():
            chooser.after(Observation(loss, 1.0, lambda: 1.0), lambda own: [own] * RANKS)
        seconds.append((time.process_time() - start) / STEPS)
    return float(np.median(seconds))


def measure(size: MQGradSize, log: Log) -> Claim:
    """Compare the controller with the shortest step of each link."""
    log("controller: time of a step")
    return judge(controller_seconds(), measure_step_times(size.network))


def judge(seconds: float, step_times: Sequence[StepTimes]) -> Claim:
    """Return the verdict on the times."""
    shortest = {pace.link: min(pace.seconds(bits) for bits in pace.codec) for pace in step_times}
    shares = {link: seconds / step for link, step in shortest.items()}
    held = [share <= MAX_SHARE for share in shares.values()]
    verdict = ClaimVerdict.HELD if all(held) else ClaimVerdict.PARTLY if any(held) else ClaimVerdict.FAILED
    rows = [
        [pace.link, f"{shortest[pace.link] * 1e3:.1f}", f"{seconds * 1e6:.0f}", f"{shares[pace.link]:.3%}"]
        for pace in step_times
    ]
    summary = ", ".join(f"{shares[link]:.3%} of a step at {link}" for link in LINKS)
    return Claim(
        name="controller",
        title="Cost of the controller",
        paper="Section 4.2: the decision process adds negligible time. Together with quantization it takes 4 to 8 % of "
        "the training time (table 3).",
        measured="CPU time of the controller per step, and the shortest step of each link with "
        f"{RANKS} ranks. The controller smooths losses, computes values and updates its network once in five steps:\n\n"
        + markdown_table(["link", "step, ms", "controller, microseconds", "share"], rows)
        + "\n\nOnce in five steps it also exchanges 48 bytes with every other rank. This takes one latency of the "
        "link.",
        verdict=verdict,
        reason=f"The controller takes {summary}.",
        differs=("Our limit is 0.1 % of a step for the controller alone, without quantization.",),
        plot=lambda figure: _plot(figure, shares),
    )


def _plot(figure: Figure, shares: dict[str, float]) -> None:
    axes = figure.subplots()
    axes.bar(list(shares), [100 * share for share in shares.values()])
    axes.axhline(100 * MAX_SHARE, color="black", linewidth=0.8)
    axes.set_ylabel("controller, % of a step")
