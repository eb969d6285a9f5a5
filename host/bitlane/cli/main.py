"""The command line, `bitlane`.

Results go to stdout; progress (on a terminal), notes, log records and errors to stderr. An expected error is one line
and exit status 2, and nothing is written. A failed self test is exit status 1, Ctrl-C 130.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence

from bitlane.errors import BitlaneError

from .parser import make_parser, named_parser
from .wording import as_typed, options_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process when None.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    options: dict[str, str] = {}  # of the command, once it is known
    try:
        with _notes(options):
            parser = make_parser(given)
            options |= options_of(named_parser(parser, given))
            arguments = parser.parse_args(given)
            if arguments.verbose:
                logging.getLogger("bitlane").setLevel(logging.INFO)
            arguments.command.run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse, or the self test, has printed its message
        return int(stop.code or 0)
    except BrokenPipeError:  # the reader of our output has stopped reading
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BitlaneError as error:
        return _fail(as_typed(str(error), options))
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        return _fail(f"{prefix}{error.strerror or error}")
    except MemoryError:
        return _fail("not enough memory: train on some of the rows")
    except KeyboardInterrupt:
        print("bitlane: interrupted", file=sys.stderr)
        return 130
    return 0


def _fail(message: str) -> int:
    print(f"bitlane: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


class _StderrHandler(logging.Handler):
    """Log records as lines ``bitlane: ...`` on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"bitlane: {record.getMessage()}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _notes(options: Mapping[str, str]) -> Iterator[None]:
    """Show warnings as lines ``bitlane: note: ...``, each once, and log records as lines ``bitlane: ...``.

    `options` are those of the command: see `as_typed`.

    Log records below WARNING are shown with ``--verbose`` only.
    """
    shown: set[str] = set()

    def note(message: Warning | str, *_: object) -> None:
        line = as_typed(" ".join(str(message).split()), options)
        if line not in shown:
            shown.add(line)
            print(f"bitlane: note: {line}", file=sys.stderr)

    logger, handler = logging.getLogger("bitlane"), _StderrHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = note  # type: ignore[assignment]
            yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
