"""The version switch of the header: the build writes `switcher.json` from the tags of git.

The site of a release goes into a folder that is named by its tag, the site of the newest commit into `dev`, side by
side. The links of `switcher.json` are relative to it, so the newest one serves all folders.
"""

from __future__ import annotations

import json
from pathlib import Path

from repository import release_tags, version_entries
from sphinx.application import Sphinx


def write_versions(app: Sphinx, exception: Exception | None) -> None:
    """Write `switcher.json` next to the first page."""
    if exception is None and app.builder.format == "html":
        entries = version_entries(app.config.release, release_tags(Path(app.srcdir)))
        Path(app.outdir, "switcher.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the file when the site is built."""
    app.connect("build-finished", write_versions)
    return {"parallel_read_safe": True}
