"""The study of weights in few bits."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from bitlane_studies.sparse import quantized_serving

for library in ("numba", "pyarrow", "xxhash"):
    pytest.importorskip(library)


def test_all_models_are_served_in_all_ways(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer bits take less memory; 8 bits lose next to nothing."""
    assert quantized_serving.main(["generated", "--rows", "4000"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out[out.index("generated, 1 epochs") :].splitlines()[2:] if line]
    kinds = ["LR", "FM", "FFM", *(["DNN"] if find_spec("torch") else [])]
    assert [line[0] for line in lines] == [kind for kind in kinds for _ in range(16)]
    for kind in kinds:
        mine = [line for line in lines if line[0] == kind]
        assert mine[0][1:3] == ["float32", "32"] and float(mine[0][-1]) == 0
        lost = {(" ".join(line[1:-6]), int(line[-6])): float(line[-1]) for line in mine}
        for levels in ("uniform", "optimal", "optimal, weighted", "nearest", "nearest, weighted"):
            assert lost[levels, 8] < max(lost[levels, 2], 1e-4)
        shares = [float(line[-4]) for line in mine]
        assert shares == sorted(shares, reverse=True) and shares[0] <= 1


def test_a_missing_data_set_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    assert quantized_serving.main(["goodbooks"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("quantized_serving: no file matches 'goodbooks'")
