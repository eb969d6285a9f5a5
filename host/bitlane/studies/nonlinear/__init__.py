"""A study: losses that are not squared, trained without bias, against plain rounding (ZipML, section 6).

`python -m bitlane.studies.nonlinear` prints it. The arithmetic is float64: the accelerator has no such modes.
"""

from .report import table, verdict
from .study import MethodResult, study
from .tasks import load_task, make_task, schedule_of

__all__ = ["MethodResult", "load_task", "make_task", "schedule_of", "study", "table", "verdict"]
