"""What the scripts of this folder share: boxes, arrows and text of a drawing, as SVG.

Each script draws one picture from the numbers of the code, and writes it into `docs`. A drawing has its own light
background, so it is readable in a dark theme too, and is made for a width of 700 pixels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
FONT = "system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
INK, GREY, PAPER = "#1b2733", "#5b6b7a", "#ffffff"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#00795a"  # distinct for colour-blind readers
TINTS = {BLUE: "#e3f0f8", ORANGE: "#fbe9df", GREEN: "#e0f2ec", GREY: "#eef1f4"}
LINE_HEIGHT = 1.3  # of a font size
Point = tuple[float, float]


class Drawing:
    """A picture that consists of boxes, arrows and text.

    Parameters
    ----------
    width, height : int
        Size in pixels.
    title, description : str
        What a screen reader says.
    """

    def __init__(self, width: int, height: int, title: str, description: str):
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="{FONT}" font-size="13" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        ]

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: Sequence[str] = (),
        color: str = BLUE,
        size: int = 13,
    ) -> None:
        """Draw a box with centred lines of text; the first is bold."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{TINTS[color]}" '
            f'stroke="{color}" stroke-width="1.5"/>'
        )
        step = size * LINE_HEIGHT
        first = y + height / 2 - step * (len(lines) - 1) / 2 + size * 0.36
        for i, line in enumerate(lines):
            self.text(x + width / 2, first + i * step, line, bold=not i, size=size)

    def frame(self, x: float, y: float, width: float, height: float, name: str, inset: float = 12) -> None:
        """Draw a dashed frame around boxes, with its name at the top, `inset` pixels from the left."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="none" stroke="{GREY}" '
            'stroke-dasharray="5 4"/>'
        )
        self.text(x + inset, y + 19, name, anchor="start", bold=True, color=GREY)

    def arrow(self, *points: Point, color: str = INK, both: bool = False) -> None:
        """Draw a line through points with a head at its end, or at both ends."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        self._head(points[-2], points[-1], color)
        if both:
            self._head(points[1], points[0], color)

    def curve(self, start: Point, bend: Point, end: Point) -> None:
        """Draw a curve from `start` in the direction of `bend`, with a head at `end`."""
        path = f"M{start[0]:g},{start[1]:g} Q{bend[0]:g},{bend[1]:g} {end[0]:g},{end[1]:g}"
        self._parts.append(f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.6"/>')
        self._head(bend, end, INK)

    def _head(self, start: Point, end: Point, color: str) -> None:
        """Draw the head of an arrow that is horizontal, vertical or slanted."""
        across, down = end[0] - start[0], end[1] - start[1]
        length = (across**2 + down**2) ** 0.5
        across, down = across / length, down / length
        back = end[0] - 8 * across, end[1] - 8 * down
        left, right = (back[0] - 4 * down, back[1] + 4 * across), (back[0] + 4 * down, back[1] - 4 * across)
        path = " ".join(f"{x:.4g},{y:.4g}" for x, y in (end, left, right))
        self._parts.append(f'<polygon points="{path}" fill="{color}"/>')

    def line(self, start: Point, end: Point, color: str = INK, width: float = 1.6, dashed: bool = False) -> None:
        """Draw a line without a head."""
        dashes = ' stroke-dasharray="4 4"' * dashed
        self._parts.append(
            f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" stroke="{color}" '
            f'stroke-width="{width:g}"{dashes}/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, color: str) -> None:
        """Draw a filled bar."""
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" fill="{color}"/>')

    def dot(self, x: float, y: float, color: str) -> None:
        """Draw a filled circle."""
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{color}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "middle",
        bold: bool = False,
        color: str = INK,
        size: int = 13,
    ) -> None:
        """Write a line of text; `anchor` is start, middle or end."""
        options = ' font-weight="600"' * bold + f' fill="{color}"' * (color != INK)
        options += f' font-size="{size}"' * (size != 13) + f' text-anchor="{anchor}"' * (anchor != "start")
        self._parts.append(f'<text x="{x:g}" y="{y:g}"{options}>{escape(text)}</text>')

    def svg(self) -> str:
        """Return the picture."""
        return "\n".join([*self._parts, "</svg>", ""])


def main(name: str, draw: Callable[[], str]) -> None:
    """Write a picture into `docs`, or into the file of the command line."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / name
    path.write_text(draw(), encoding="utf-8")
