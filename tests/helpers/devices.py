"""The device of compression's tests: a GPU if there is one, so that they run there, too, with the same promises.

Without a GPU, Triton's kernels run in its interpreter.
"""

from __future__ import annotations

import os

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # which triton reads when it is imported
