"""Imports and compiled loops that the processes of `elastic_members.py` share: each is a fork of one that has them."""

import torch
from tests.helpers import elastic_members  # noqa: F401

from bitlane.compress.compressors.topk import TopK
from bitlane.compress.ddp.warm_up import warm_up
from bitlane.compress.elastic import diloco

torch.set_num_threads(1)
for each in (diloco.FOUR_BITS, TopK()):
    warm_up(each, 3)
diloco.nesterov([torch.zeros(1)])  # the first optimizer of a process imports torch's compiler: seconds
