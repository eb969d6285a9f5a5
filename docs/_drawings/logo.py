"""The logo, four lanes with fewer and fewer bits: `python docs/_drawings/logo.py`."""

from __future__ import annotations

from drawing import BLUE, ORANGE, main

NAME = "_static/logo.svg"
LANES = (4, 3, 2, 1)  # bits in each lane
SIZE, PITCH, BIT = 64, 16, 13  # pixels: the picture, from bit to bit, a bit


def draw() -> str:
    """Return the logo, which is the icon of the site too."""
    bits = [
        f'<rect x="{1.5 + PITCH * i}" y="{1.5 + PITCH * lane}" width="{BIT}" height="{BIT}" rx="3"/>'
        for lane, count in enumerate(LANES)
        for i in range(count)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" role="img">',
            "<title>bitlane</title>",
            f'<g fill="{BLUE}">{"".join(bits[: -LANES[-1]])}</g>',
            f'<g fill="{ORANGE}">{bits[-1]}</g>',
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    main(NAME, draw)
