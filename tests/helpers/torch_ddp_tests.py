"""PyTorch's own tests of DDP on CPUs, with a compressor on each model: `python torch_ddp_tests.py Tests.test_NAME`.

They are in the wheel of torch, and need the package expecttest and the environment of `test_torch_ddp.py`.
"""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

from bitlane.compress import attach
from bitlane.compress.compressors.uncompressed import Uncompressed

plain_init = DistributedDataParallel.__init__


def attached_init(ddp, *arguments, **options):
    plain_init(ddp, *arguments, **options)
    attach(ddp, Uncompressed(), timeout=60)


DistributedDataParallel.__init__ = attached_init


class Tests(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


if __name__ == "__main__":
    run_tests()
