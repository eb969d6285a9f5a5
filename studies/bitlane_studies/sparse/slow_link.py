"""A slow network in front of a server: `python -m bitlane_studies.sparse.slow_link PORT --delay 0.03 --share 0.05`.

It carries TCP connections to a port of this machine. The bytes that the server sends after a request come later, for
the chosen share of requests. It prints its own port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
from collections.abc import Sequence

_CHUNK = 1 << 18
_LOOK_SECONDS = 0.5
HOST = "127.0.0.1"


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, answers: _Answers, back: bool) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK):
            wait = answers.wait() if back else answers.ask()
            if wait > 0:
                await asyncio.sleep(wait)
            target.write(chunk)
            await target.drain()
    target.close()


class _Answers:
    """When the bytes of a connection's answers may pass."""

    def __init__(self, delay: float, share: float):
        self._delay, self._share, self._until, self._answering = delay, share, 0.0, True

    def ask(self) -> float:
        """Note bytes of a request; they are not held up."""
        if self._answering:
            self._answering = False
            is_late = random.random() < self._share
            self._until = asyncio.get_running_loop().time() + self._delay if is_late else 0.0
        return 0.0

    def wait(self) -> float:
        """Return the seconds for which bytes of an answer wait."""
        self._answering = True
        return self._until - asyncio.get_running_loop().time()


async def _serve(port: int, delay: float, share: float) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, port)
        answers = _Answers(delay, share)
        await asyncio.gather(_carry(reader, back, answers, False), _carry(there, writer, answers, True))

    server = await asyncio.start_server(connect, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(_LOOK_SECONDS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry connections until the parent process ends."""
    parser = argparse.ArgumentParser(description="A slow network in front of a server of this machine.")
    parser.add_argument("port", type=int)
    parser.add_argument("--delay", type=float, default=0.03, metavar="S", help="of an answer (default: 0.03)")
    parser.add_argument("--share", type=float, default=1.0, metavar="X", help="of the answers (default: 1)")
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options.port, options.delay, options.share))


if __name__ == "__main__":
    main()
