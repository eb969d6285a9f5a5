"""A process that validates version 2, promotes it, and kills itself at a place: `... FOLDER SEED PLACE`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.helpers.sparse_validation import Validated

from bitlane.sparse.registry.validation import promote


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, seed: int, place: str) -> None:
    subject = Validated(Path(folder), seed)
    replace = os.replace

    def replace_or_die(part: str, path: str, **folders: int) -> None:
        if Path(path).name == place:
            die()
        replace(part, path, **folders)

    os.replace = replace_or_die  # type: ignore[assignment]
    found = subject.validate(2, hooks={"fatal": die} if place == "hook" else {})
    print("passed" if found.passed else found.problems, flush=True)
    if place == "label":
        os.link = die  # type: ignore[assignment]
    promote(subject.registry, "production", 2)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
