"""A study of unbiased gradients for the hinge and logistic losses, against plain rounding (ZipML, section 6).

`python -m bitlane_studies.nonlinear` runs the study. It computes in float64, because the accelerator does not support
these methods.
"""

from .report import table, verdict
from .study import MethodResult, study
from .tasks import load_task, make_task, schedule_of

__all__ = ["MethodResult", "load_task", "make_task", "schedule_of", "study", "table", "verdict"]
