"""Why two draws: `python docs/_drawings/double_sampling.py`."""

from __future__ import annotations

from drawing import BLUE, GREEN, GREY, ORANGE, Drawing, main

NAME = "double-sampling.svg"
VALUE = 0.3  # between the levels 0 and 1


def draw() -> str:
    """Return the drawing for the first page."""
    up = VALUE  # the probability that makes the mean of a draw equal to the value
    means = {
        "nearest level, always": (float(round(VALUE)) ** 2, GREY),
        "one draw, used twice": (up, ORANGE),  # 1 * 1 with this probability, otherwise 0 * 0
        "two draws, u1 and u2": (up * up, BLUE),
    }
    drawing = Drawing(
        720,
        300,
        "Double sampling",
        f"A value of {VALUE} between the levels 0 and 1 is rounded up with probability {up:.0%}. The gradient needs "
        "its square. "
        + " ".join(f"{name.capitalize()}: the mean product is {mean:.2f}." for name, (mean, _) in means.items()),
    )
    drawing.text(20, 32, "1. Store a value as a draw", anchor="start", bold=True, size=15)
    low, high, line = 44, 284, 150
    at = low + (high - low) * VALUE
    drawing.line((low, line), (high, line))
    for x, level in ((low, "0"), (high, "1")):
        drawing.line((x, line - 8), (x, line + 8))
        drawing.text(x, line + 30, f"level {level}")
    drawing.dot(at, line, GREEN)
    drawing.text(at, line + 30, f"value {VALUE}", bold=True, color=GREEN)
    for x, share in ((low, 1 - up), (high, up)):
        drawing.curve((at, line - 8), ((at + x) / 2, line - 80), (x, line - 12))
        drawing.text((at + x) / 2, line - 54, f"{share:.0%}")
    drawing.text(20, 222, "A draw is 0 or 1: one bit.", anchor="start")
    drawing.text(20, 242, f"Its mean is the value: {1 - up:.1f} · 0 + {up} · 1 = {VALUE}", anchor="start")

    drawing.line((352, 20), (352, 280), GREY, 1)
    drawing.text(380, 32, "2. The gradient needs the value twice", anchor="start", bold=True, size=15)
    drawing.text(380, 56, "in the dot product and in the update: a (a·x - y)", anchor="start")
    zero, scale = 552, 380
    truth = zero + scale * VALUE**2
    for i, (name, (mean, color)) in enumerate(means.items()):
        y = 112 + 48 * i
        drawing.text(zero - 12, y + 5, name, anchor="end", bold=color == BLUE)
        drawing.bar(zero, y - 11, max(scale * mean, 2), 22, color)
        drawing.text(max(zero + scale * mean, truth) + 8, y + 5, f"{mean:.2f}", anchor="start", bold=color == BLUE)
    drawing.line((truth, 92), (truth, 236), GREEN, dashed=True)
    drawing.text(truth, 84, f"exact: {VALUE}² = {VALUE**2:.2f}", color=GREEN, bold=True)
    drawing.line((zero, 92), (zero, 236), GREY, 1)
    drawing.text(380, 262, "The mean product is exact only with two", anchor="start")
    drawing.text(380, 280, "independent draws: the gradient is unbiased.", anchor="start")
    return drawing.svg()


if __name__ == "__main__":
    main(NAME, draw)
