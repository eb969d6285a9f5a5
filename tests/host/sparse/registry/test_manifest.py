"""What decides the keys and fields of a row, as a manifest has it."""

from __future__ import annotations

import pytest

from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.manifest import Description


@pytest.mark.parametrize(("kind", "matters"), [("lr", False), ("fm", False), ("ffm", True)])
def test_namespaces_matter_to_models_with_fields(kind: str, matters: bool) -> None:
    spec = ModelSpec(kind, fields=3 if kind == "ffm" else 0)
    one, other = (Description(spec, {"namespaces": [*names]}).hashing for names in ("ab", "ac"))
    assert (one != other) == matters


def test_transforms_matter_but_not_label_and_time() -> None:
    def hashing(**settings: object) -> object:
        return Description(ModelSpec("lr"), {"schema": Schema(**settings).as_json()}).hashing  # type: ignore[arg-type]

    usual = hashing(numeric=("n",))
    assert usual == hashing(numeric=("n",), label="y", time="t")
    assert usual != hashing(numeric=("n",), transforms=(("n", "log1p", ()),))
