"""The directive `history` shows the figures of `make nightly`."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from nightly_figures import curves, read_history, table
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective


class History(SphinxDirective):
    """The directive."""

    def run(self) -> list[nodes.Node]:
        """Return curves and table, and the reasons of missing figures."""
        folder = Path(self.env.srcdir, "history")
        for path in sorted(folder.glob("*.json")):
            self.env.note_dependency(str(path))
        self.env.note_reread()
        try:
            days = read_history(folder)
        except ValueError as error:
            raise ExtensionError(f"docs/history/{error}") from None
        rows = table(days)
        lines = [" | ".join(["", *row, ""]).strip() for row in rows]
        lines.insert(1, "|" + " --- |" * len(rows[0]))
        missing = [f"- {day.date}, {name}: {day.reasons[name]}" for day in days for name in sorted(day.reasons)]
        text = "\n".join([*lines, "", *(["Not measured:", "", *missing] if missing else [])])
        return [*(nodes.raw("", svg, format="html") for svg in curves(days)), *self.parse_text_to_nodes(text)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("history", History)
    return {"parallel_read_safe": True}
