"""Self test: checks of every block of an accelerator, on any device, against the numpy reference."""

from .blocks import BLOCKS, SystemBlock, blocks_of
from .examine import examine
from .report import CheckResult, SelfTestReport

__all__ = ["BLOCKS", "CheckResult", "SelfTestReport", "SystemBlock", "blocks_of", "examine"]
