"""Settings are checked where a compressor or a hook is made, and numbers of numpy are taken."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.compress import (
    DGC,
    LQSGD,
    QSGD,
    DDPCompression,
    EFSign,
    FixedBits,
    MiCRO,
    MQGrad,
    PowerSGD,
    TernGrad,
    TopK,
)
from bitlane.compress.registry import parse_compressor
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QSGD(bits=4.0), "bits=4.0: use an integer from 2 to 8, or a bit policy"),
        (lambda: QSGD(bits=1), "bits=1: use an integer from 2 to 8"),
        (lambda: QSGD(bits=True), "bits=True: use an integer"),
        (lambda: QSGD(bits="4"), "bits='4': use an integer"),
        (lambda: QSGD(bits=MQGrad), "use an integer from 2 to 8, or a bit policy"),
        (lambda: QSGD(bits=FixedBits(9)), r"bits=FixedBits\(bits=9\): use an integer"),
        (lambda: QSGD(error_feedback=1), "error_feedback=1: it must be True or False"),
        (lambda: QSGD(seed=-1), "seed=-1: it must be an integer of at least 0"),
        (lambda: LQSGD(bits=4.5), "bits=4.5: use an integer from 2 to 8"),
        (lambda: LQSGD(alpha="a"), "alpha='a': it must be a finite number"),
        (lambda: PowerSGD(rank=1.5), "rank=1.5: it must be an integer of at least 1"),
        (lambda: PowerSGD(rank=0), "rank=0: it must be an integer of at least 1"),
        (lambda: PowerSGD(min_compression=0.5), "min_compression must be 1 or more.*; got 0.5"),
        (lambda: PowerSGD(warm_start="yes"), "warm_start='yes': it must be True or False"),
        (lambda: TopK(density="a"), "density='a': it must be a finite number"),
        (lambda: TopK(density=0), "density must be above 0 and at most 1; got 0"),
        (lambda: MiCRO(density=2), "density must be above 0 and at most 1; got 2"),
        (lambda: DGC(density=np.nan), "density=nan: it must be a finite number"),
        (lambda: DGC(momentum="a"), "momentum='a': it must be a finite number"),
        (lambda: DGC(warmup=1.5), "warmup=1.5: it must be an integer of at least 0"),
        (
            lambda: TopK(residual_dtype="float16"),
            "residual_dtype must be .*; got 'float16', because float16 over",
        ),
        (lambda: EFSign(residual_dtype=["float32"]), r"residual_dtype must be one of float32, bfloat16; got \['float"),
        (lambda: MiCRO(residual_dtype="half"), "residual_dtype must be one of float32, bfloat16; got 'half'"),
        (lambda: QSGD(residual_dtype="bfloat16"), "residual_dtype='bfloat16' needs error_feedback=True"),
        (lambda: TopK(0.1, False, "bfloat16"), "residual_dtype='bfloat16' needs error_feedback=True"),
        (lambda: TopK(value_bits=3), "value_bits must be 2, 4 or 8, or 32 for float32; got 3"),
        (lambda: MiCRO(value_bits=True), "value_bits must be 2, 4 or 8, or 32 for float32; got True"),
        (lambda: DGC(value_bits="2"), "value_bits must be 2, 4 or 8, or 32 for float32; got '2'"),
        (lambda: DGC(chunked=1), "chunked=1: it must be True or False"),
        (lambda: TopK(chunked="yes"), "chunked='yes': it must be True or False"),
        (lambda: TopK(seed=0.5), "seed=0.5: it must be an integer of at least 0"),
        (lambda: TopK(decay=0), "decay must be above 0 and at most 1; got 0"),
        (lambda: MiCRO(decay=1.1), "decay must be above 0 and at most 1; got 1.1"),
        (lambda: TopK(decay="a"), "decay='a': it must be a finite number"),
        (lambda: TopK(error_feedback=False, decay=0.9), "decay=0.9 needs error_feedback=True; without it there are"),
        (lambda: DGC(clip=-1), "clip must be a norm above 0, or None for no clipping; got -1"),
        (lambda: TernGrad(clip="a"), "clip='a': it must be a finite number"),
        (lambda: parse_compressor("qsgd:bits=4.0"), "bits=4.0: use an integer"),
        (lambda: parse_compressor("topk:density='a'"), "density='a': it must be a finite number"),
        (lambda: parse_compressor("powersgd:rank=1.5"), "rank=1.5: it must be an integer"),
        (lambda: DDPCompression(QSGD), r"a compressor is needed, such as QSGD\(bits=4\); got QSGD"),
        (lambda: DDPCompression("qsgd"), "a compressor is needed, .*; got 'qsgd'. To parse text use"),
        (lambda: DDPCompression(EFSign(), link_model="100mbit"), "link_model='100mbit': use an AlphaBetaModel"),
        (lambda: DDPCompression(EFSign(), timeout=0), "timeout must be above 0 seconds; got 0"),
        (lambda: DDPCompression(EFSign(), start=0.5), "start=0.5: it must be an integer of at least 0"),
        (lambda: DDPCompression(EFSign(), grad_scaler=2.0), "grad_scaler must be a torch.amp.GradScaler; got float"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_a_scaler_has_to_see_infinities():
    from torch.amp import GradScaler

    for nonfinite in ("raise", "skip"):
        with pytest.raises(DataError, match=f"nonfinite='{nonfinite}' hides infinities from the GradScaler"):
            DDPCompression(EFSign(), grad_scaler=GradScaler("cpu"), nonfinite=nonfinite)


def test_numbers_of_numpy_are_equal_settings():
    """Ranks compare the text of their settings."""
    assert repr(QSGD(bits=np.int64(4))) == repr(QSGD(bits=4))
    assert repr(PowerSGD(rank=np.int32(2))) == repr(PowerSGD(rank=2))
    assert repr(TopK(density=np.float64(0.5))) == repr(TopK(density=0.5))
