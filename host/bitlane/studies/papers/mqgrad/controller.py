"""What MQGrad's controller costs (MQGrad, section 4.2, table 3)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import Observation

from ..claim import Claim, Log, Verdict, markdown_table
from .pace import LINKS, RANKS, StepTimes, measure_step_times
from .sizes import MQGradSize

MOST = 1e-3  # of a step
STEPS, RUNS = 1000, 5


def controller_seconds() -> float:
    """Processor time of the controller for a step, its part of a period: the median of some runs."""
    found = []
    for run in range(RUNS):
        chooser = MQGrad(seed=run).start()
        losses = 2 + np.random.default_rng(run).normal(size=STEPS)
        began = time.process_time()
        for loss in losses.tolist():
            chooser.after(Observation(loss, 1.0, lambda: 1.0), lambda own: [own] * RANKS)
        found.append((time.process_time() - began) / STEPS)
    return float(np.median(found))


def measure(size: MQGradSize, say: Log) -> Claim:
    """Against the shortest step of each link."""
    say("controller: time of a step")
    return judge(controller_seconds(), measure_step_times(size.network))


def judge(seconds: float, found: Sequence[StepTimes]) -> Claim:
    """What the times say."""
    shortest = {pace.link: min(pace.seconds(bits) for bits in pace.codec) for pace in found}
    shares = {link: seconds / step for link, step in shortest.items()}
    held = [share <= MOST for share in shares.values()]
    verdict = Verdict.HELD if all(held) else Verdict.PARTLY if any(held) else Verdict.FAILED
    rows = [
        [pace.link, f"{shortest[pace.link] * 1e3:.1f}", f"{seconds * 1e6:.0f}", f"{shares[pace.link]:.3%}"]
        for pace in found
    ]
    said = ", ".join(f"{shares[link]:.3%} of a step at {link}" for link in LINKS)
    return Claim(
        name="controller",
        title="What the controller costs",
        paper="Section 4.2: the time that the decision process adds is negligible; with quantizing it is 4 to 8 % of "
        "training (table 3).",
        measured="Processor time of the controller, its losses smoothed, values computed and network moved once in "
        f"five steps, by the step, against the shortest step of each link with {RANKS} ranks:\n\n"
        + markdown_table(["link", "step, ms", "controller, microseconds", "share"], rows)
        + "\n\nOnce in five steps it also exchanges 48 bytes with every other rank: a round of the link's latency.",
        verdict=verdict,
        reason=f"The controller takes {said}.",
        differs=("The claim here is 0.1 % of a step for the controller alone, without quantizing.",),
        draw=lambda figure: _draw(figure, shares),
    )


def _draw(figure: Any, shares: dict[str, float]) -> None:
    axes = figure.subplots()
    axes.bar(list(shares), [100 * share for share in shares.values()])
    axes.axhline(100 * MOST, color="black", linewidth=0.8)
    axes.set_ylabel("controller, % of a step")
