"""A process that publishes versions and moves labels until it is killed: `... FOLDER SEED`.

It prints a line before each version, and the version after it.
"""

from __future__ import annotations

import sys

from tests.helpers.sparse_registry import ChangingModel

from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import collect, compact


def main(folder: str, seed: int) -> None:
    registry, changing = ModelRegistry(folder), ChangingModel(seed, 2000)
    publisher = Publisher(registry, changing.model, longest_chain=3)
    while True:
        changing.change(rows=500)
        print("publishing", flush=True)
        version = publisher.publish().version
        registry.move_label("candidate", version)
        if version % 3 == 0 and registry.manifest(version).kind == "delta":
            registry.move_label("production", compact(registry, version).version)
            collect(registry, 2)
        print(version, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
