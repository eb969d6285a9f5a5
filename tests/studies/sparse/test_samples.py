"""The study of public samples: every program learns the lines that it is given, and is measured on the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane_studies.sparse import samples

for library in ("numba", "pyarrow", "xxhash", "sklearn"):
    pytest.importorskip(library)


def write_samples(folder: Path, rng: np.random.Generator) -> None:
    """MovieLens' layout with ratings that follow a genre, and libffm's with labels that follow a key."""
    liked = rng.random(400) < 0.5
    head = "user_id,movie_id,rating,timestamp,title,genres,gender,age,occupation,zip"
    rows = [
        f'{i % 7},{i % 11},{5 if each else 2},{968035345 + i},"Film {i % 11}, The",Comedy|{"Drama" if each else "War"},'
        f"F,25,{i % 3},19119"
        for i, each in enumerate(liked)
    ]
    (folder / "movielens_sample.txt").write_text("\n".join([head, *rows]) + "\n")
    lines = [f"{int(each)} 0:{int(each)}:1 1:{10 + i % 5}:1" for i, each in enumerate(liked)]
    (folder / "small_train.txt").write_text("\n".join(lines[:200]) + "\n")
    (folder / "small_test.txt").write_text("\n".join(lines[200:]) + "\n")


def test_every_program_finds_what_the_label_follows(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write_samples(tmp_path, np.random.default_rng(seed))
    assert samples.main([str(tmp_path), "--splits", "1"]) == 0
    printed = capsys.readouterr()
    assert "Criteo is left out" in printed.err and "Avazu is left out" in printed.err
    lines = [line.split() for line in printed.out.splitlines() if "bitlane" in line or "Logistic" in line]
    assert [line[-3] for line in lines] == ["lr", "fm", "LogisticRegression", "lr", "ffm", "LogisticRegression"]
    assert all(float(line[-2]) > 0.98 for line in lines)


def test_the_parts_of_a_split_are_all_lines(tmp_path: Path, seed: int) -> None:
    write_samples(tmp_path, np.random.default_rng(seed))
    sample = samples.SAMPLES["MovieLens, rating 5"]
    learned, test = samples.divide(sample, tmp_path, tmp_path, seed)
    head, *lines = (tmp_path / "movielens_sample.txt").read_text().splitlines()
    parts = [part.path.read_text().splitlines() for part in (learned, test)]
    assert all(part[0] == head for part in parts)
    assert sorted(parts[0][1:] + parts[1][1:]) == sorted(lines) and len(test.labels) == 100
    assert [line.split(",")[2] == "5" for line in parts[0][1:]] == learned.labels.tolist()
