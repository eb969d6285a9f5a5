"""Self test: every block of an accelerator, on whatever device it is, held against the numpy reference."""

from .examine import examine
from .report import CheckResult, SelfTestReport

__all__ = ["CheckResult", "SelfTestReport", "examine"]
