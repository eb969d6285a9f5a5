"""Self test: checks of every block of an accelerator, on any device, against the numpy reference."""

from .blocks import BLOCKS, Block, blocks_of
from .examine import examine
from .report import CheckResult, SelfTestReport

__all__ = ["BLOCKS", "Block", "CheckResult", "SelfTestReport", "blocks_of", "examine"]
