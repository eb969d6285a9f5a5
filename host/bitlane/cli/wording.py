"""Messages in the words of somebody who typed a command: options instead of parameters of Python.

Estimators and settings name their parameters, as in ``batch_size=16``. A command shows such a message with the option
that was or could be typed, ``--batch-size 16``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

# Parameters whose option has another name.
RENAMED = {"random_state": "seed", "sightings": "admit_after", "max_fields": "fields", "n_jobs": "threads"}
OF_OTHERS = ("levels", "sampling", "bits", "device")  # parameters that a command may have no option for
# What to do in Python, and what to type instead.
PHRASES = {
    "use a regressor for them": "use --task regression for them",
    "must be None or": "must be",
    "X has": "the table has",
    "column of X": "column",
    "y holds": "the target holds",
    "y has": "the target has",
    "X holds": "the table holds",
    "this SGDRegressor": "this model",
    "this SGDClassifier": "this model",
    "set loss='log_loss'": "train with --loss log_loss",
}
_VALUE = r"""'[^']*'|"[^"]*"|\([^()]*\)|\[[^\[\]]*\]|[^\s,;:()\[\]'"]+"""
_ASSIGNMENT = re.compile(rf"\b(?P<name>[a-z][a-z_0-9]*)=(?P<value>{_VALUE})")
_NAME = re.compile(r"(?<![\w./'-])[a-z]+(?:_[a-z]+)+(?![\w./'(-])")
_PLACES = re.compile(r"\b(?:" + "|".join(map(re.escape, PHRASES)) + ")")


def options_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the long option of each argument of a parser that the help shows."""
    return {
        action.dest: max(action.option_strings, key=len)
        for action in parser._actions
        if action.option_strings and action.help != argparse.SUPPRESS
    }


def as_typed(message: str, options: Mapping[str, str]) -> str:
    """Return a message with options for the parameters that it names.

    Parameters
    ----------
    message : str
    options : dict
        Of the command: `options_of`. Without any the message stays as it is.
    """
    if not options:
        return message

    def option(found: re.Match[str]) -> str:
        name = RENAMED.get(found["name"], found["name"])
        if name in options:
            return f"{options[name]} {_text(found['value'])}"
        return f"{name} {_text(found['value'])}" if name in OF_OTHERS else found[0]

    message = _ASSIGNMENT.sub(option, message)
    message = _NAME.sub(lambda found: options.get(RENAMED.get(found[0], found[0]), found[0]), message)
    return _PLACES.sub(lambda found: PHRASES[found[0]], message)


def _text(value: str) -> str:
    """Return the text of a value of Python as one types it: none, and 1,0 for (1.0, 0.0)."""
    items = [item.strip().strip("'\"") for item in value.strip("()[]").split(",")]
    return ",".join("none" if item == "None" else item for item in items if item)
