"""What a node lacks is told before a training, in one line with its name."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.hosts import certificates
from tests.helpers.ray_trainings import Shares, write_rows

pytest.importorskip("pyarrow.flight")

from bitlane.errors import BitlaneError
from bitlane.sparse.engines import preflight
from bitlane.sparse.engines.access import Access, write_token
from bitlane.sparse.engines.preflight import check_nodes, read_rows
from bitlane.sparse.servers.lanes import LaneService

NODES = {"10.0.0.1": "one", "10.0.0.2": "two", "10.0.0.3": "three"}
RUNS = {"Alive": True, "Resources": {"CPU": 1}}
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is missing")


class _Errors:
    class RayError(Exception):
        def __init__(self, cause: BaseException):
            super().__init__(str(cause))
            self.cause = cause

    class GetTimeoutError(RayError):
        pass


class Node:
    """The handle of an actor, whose methods run in this process; `change` is called before each."""

    def __init__(self, actor: Any, change: Callable[[str], contextlib.AbstractContextManager]):
        self._actor, self._change = actor, change

    def __getattr__(self, name: str) -> Any:
        def remote(*arguments: Any) -> Any:
            try:
                with self._change(name):
                    return getattr(self._actor, name)(*arguments)
            except Exception as error:
                return _Errors.RayError(error)

        return type("Method", (), {"remote": staticmethod(remote)})


class Nodes:
    """A cluster of three nodes in this process, of which one is changed."""

    local = False
    exceptions = _Errors

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], Any] | None = None):
        self.ray, self._change, self._count = self, change, itertools.count()
        self.killed = 0
        monkeypatch.setattr(preflight, "_actor", self._made)

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeManagerAddress": at,
                "NodeManagerHostname": name,
                "NodeID": at,
                "Alive": True,
                "Resources": {"CPU": 1},
            }
            for at, name in NODES.items()
        ]

    def get(self, answer: Any, timeout: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self, actor: Any) -> None:
        self.killed += 1
        with contextlib.suppress(AttributeError):
            actor._actor.leave()

    def _made(self, cluster: object, node: str, access: Access) -> Node:
        change = self._change if node == "10.0.0.2" else None
        return Node(preflight.NodeCheck(access), change or contextlib.nullcontext)


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    write_token(tmp_path / "token")
    files = [str(path) for path in certificates(tmp_path / "tls", ["127.0.0.1"]).values()]
    yield Access("127.0.0.1", str(tmp_path / "token"), *files)


def checked(
    tmp_path: Path, seed: int, access: Access, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], Any] | None
) -> str:
    """The error of a check, or nothing; no mark and no actor is left."""
    shares, nodes = Shares(str(write_rows(tmp_path / "rows.ffm", seed, 50)), 2), Nodes(monkeypatch, change)
    run = tmp_path / "run"
    run.mkdir()
    try:
        check_nodes(nodes, access, run, partial(read_rows, shares))  # type: ignore[arg-type]
        return ""
    except BitlaneError as error:
        return str(error)
    finally:
        assert os.listdir(run) == [] and nodes.killed == 3


@contextlib.contextmanager
def without(path: Path, calls: tuple[str, ...], name: str) -> Iterator[None]:
    """Take a file or folder away while a method runs."""
    if name not in calls:
        yield
        return
    path.rename(path.with_name("away"))
    try:
        yield
    finally:
        path.with_name("away").rename(path)


@needs_openssl
def test_nodes_that_lack_nothing_pass(
    tmp_path: Path, seed: int, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(tmp_path, seed, access, monkeypatch, None) == ""


@needs_openssl
@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        ("run", "{path} is missing: the run folder must be on a file system that all nodes share"),
        ("rows.ffm", "no file matches '{path}'"),
        ("token", "{path} cannot be read: No such file or directory; each node reads this file at the same path"),
        ("tls/key.pem", "{path} cannot be read: No such file or directory; each node reads this file at the same path"),
    ],
)
def test_a_node_that_lacks_a_file_is_named(
    tmp_path: Path, seed: int, access: Access, monkeypatch: pytest.MonkeyPatch, lacking: str, reason: str
) -> None:
    path = tmp_path / lacking
    said = checked(tmp_path, seed, access, monkeypatch, partial(without, path, ("look",)))
    assert said.startswith("node 10.0.0.2 (two): ") and "\n" not in said
    assert reason.format(path=path) in said
    assert "one" not in said and "three" not in said


@needs_openssl
def test_another_folder_of_the_same_name_and_another_version_are_told(
    tmp_path: Path, seed: int, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def other(name: str) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(preflight, "__version__", "0.0.7" if name == "look" else preflight.__version__)
            yield

    said = checked(tmp_path, seed, access, monkeypatch, other)
    assert said.startswith("node 10.0.0.2 (two): it has bitlane 0.0.7, the driver ")
    (tmp_path / "other").mkdir()
    with pytest.raises(BitlaneError, match="is another folder than the driver's"):
        preflight._check_folder(tmp_path / "other", "mark")


@needs_openssl
def test_a_certificate_without_the_address_is_told_at_once(
    tmp_path: Path, seed: int, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificates(tmp_path / "others", ["10.9.9.9"])
    wrong = Access("127.0.0.1", access.token_file, *(str(path) for path in files.values()))
    said = checked(tmp_path, seed, wrong, monkeypatch, None)
    assert "its certificate is refused: it is not for 127.0.0.1; its names must have the node's address" in said
    assert said.startswith("node 10.0.0.1 (one): server 127.0.0.1:")


@needs_openssl
def test_a_full_range_of_ports_is_told(
    tmp_path: Path, seed: int, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = LaneService("127.0.0.1", 0, (), ())
    full = Access(
        "127.0.0.1",
        access.token_file,
        access.certificate_file,
        access.key_file,
        access.authorities_file,
        (taken.port, taken.port),
    )
    said = checked(tmp_path, seed, full, monkeypatch, None)
    assert f"node 10.0.0.1 (one): node 127.0.0.1: no port from {taken.port} to {taken.port} is free" in said
    taken.shutdown()
