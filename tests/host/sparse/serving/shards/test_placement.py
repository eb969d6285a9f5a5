"""Weight servers in processes and as actors of Ray: the bits of one process; killed, they come back."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("numba")
from tests.helpers.places import ROOT
from tests.helpers.sparse_registry import ChangingModel, batch_of, saved
from tests.helpers.sparse_shards import wait_until

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.engines.access import new_access, write_token
from bitlane.sparse.engines.cluster import cluster
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.scoring.scorer import Scorer
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front
from bitlane.sparse.serving.shards.local import LocalServers
from bitlane.sparse.serving.shards.placement import Placement
from bitlane.sparse.serving.shards.ray_actors import RayServers
from bitlane.sparse.serving.shards.source import ShardedRegistry

OPTIONS = FrontOptions(deadline=10)
PROGRAM = [sys.executable, "-m", "bitlane.sparse.serving.shards.process"]


@pytest.fixture
def published(tmp_path: Path, seed: int) -> tuple[ModelRegistry, ChangingModel]:
    """A model with three versions, of two shards."""
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "ctr")
    for version in range(3):
        changing.change()
        parent = {} if version == 0 else {"parent": version}
        publish_folder(registry, saved(tmp_path / "m", changing.model), shards=2, **parent)
    return registry, changing


@contextlib.contextmanager
def fronted(registry: ModelRegistry, servers, replicas: int, **reach):
    """The registry, whose versions two shards on these servers load."""
    with servers, contextlib.closing(Front(servers.find, 2, replicas, OPTIONS, **reach)) as front:
        yield ShardedRegistry(registry.uri, front)


def local(registry: ModelRegistry) -> LocalServers:
    return LocalServers(registry.uri, 2, 1, "a token")


def expect_the_bits(source, registry: ModelRegistry, batch, versions=(3,)) -> None:
    for version in versions:
        scored = Scorer(source.load(version)).score(batch)
        assert (scored.version, scored.missing) == (version, ())
        assert scored.predictions.tobytes() == registry.load(version).predict(batch).tobytes()


def test_a_killed_process_comes_back(published) -> None:
    """While its shard has no server, answers are partial; afterwards they have the bits again."""
    registry, changing = published
    batch = batch_of(changing.rng, changing.keys, 40)
    servers = local(registry)
    with fronted(registry, servers, 1, token="a token") as source:
        expect_the_bits(source, registry, batch, (1, 3, 2, 3))
        model = source.load(3)
        pid = servers.pids()[1][0]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: model.predict_partial(batch)[2] == (1,))
        wait_until(lambda: servers.pids()[1][0] not in (None, pid) and model.predict_partial(batch)[2] == ())
        expect_the_bits(source, registry, batch, (2, 3))
        pids = [pid for shard in servers.pids() for pid in shard]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_damaged_version_is_refused_and_the_last_good_one_serves_on(published, tmp_path: Path) -> None:
    registry, changing = published
    batch = batch_of(changing.rng, changing.keys, 40)
    path = tmp_path / "ctr/versions/0000003/rows-00001.frozen"
    with fronted(registry, local(registry), 1, token="a token") as source:
        expect_the_bits(source, registry, batch, (2,))
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
        with pytest.raises(BitlaneError, match=r"shard 1 cannot load version 3: .*rows-00001.frozen is damaged"):
            source.load(3)
        expect_the_bits(source, registry, batch, (2,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "2", "--shards", "2"], "shard must be 0 to 1; got 2"),
        (["--shard", "0", "--shards", "0"], "servers must be 1 to 256, the number of virtual shards; got 0"),
        (["--shard", "0", "--shards", "1", "--host", "0.0.0.0"], "it needs a token and TLS"),
    ],
)
def test_a_process_that_cannot_serve_says_why(tmp_path: Path, options: list[str], message: str) -> None:
    command = [*PROGRAM, "--registry", str(tmp_path), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("error: ") and message in result.stderr and result.stderr.count("\n") == 1


def test_processes_end_with_their_parent(published) -> None:
    registry, _ = published
    program = (
        "import sys, time\n"
        "from bitlane.sparse.serving.shards.local import LocalServers\n"
        f"servers = LocalServers({registry.uri!r}, 1, 1, 'token').__enter__()\n"
        "while servers.pids() == [[None]]: time.sleep(0.01)\n"
        "print(servers.pids()[0][0], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        wait_until(lambda: not Path(f"/proc/{child}").exists() or zombie(child))


def zombie(pid: int) -> bool:
    return f"{pid} " in Path(f"/proc/{pid}/stat").read_text() and " Z " in Path(f"/proc/{pid}/stat").read_text()


def test_bad_numbers_are_refused_before_anything_starts() -> None:
    for shards, replicas, message in ((1, 0, "replicas must be at least 1; got 0"), (0, 1, "servers must be 1 to 256")):
        with pytest.raises(DataError, match=message):
            Placement("nowhere", shards, replicas)


def test_folders_are_absolute_for_processes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Placement("models/ctr", 1).uri == str(tmp_path / "models/ctr")
    assert Placement("s3://models/ctr", 1).uri == "s3://models/ctr"


@pytest.mark.slow
def test_fifty_kills_during_swaps(published, seed: int) -> None:
    """Each answer is of one version, to the bit where its shards were there; afterwards all of them are."""
    registry, changing = published
    draw = random.Random(seed)
    batch = batch_of(changing.rng, changing.keys, 40)
    servers = LocalServers(registry.uri, 2, 2, "a token")
    whole = {version: registry.load(version).predict(batch).tobytes() for version in (1, 2, 3)}
    with fronted(registry, servers, 2, token="a token") as source:
        model, kills, complete = source.load(1), 0, 0
        while kills < 50:
            running = [pid for shard in servers.pids() for pid in shard if pid is not None]
            if running:
                os.kill(draw.choice(running), signal.SIGKILL)
                kills += 1
            if kills % 10 == 0:
                model = source.load(draw.choice([1, 2, 3]))
            for _ in range(draw.randrange(60)):
                predictions, _, missing = model.predict_partial(batch)
                if not missing:
                    assert predictions.tobytes() == whole[model.version]
                    complete += 1
                time.sleep(0.01)
        wait_until(lambda: model.predict_partial(batch)[2] == ())
        wait_until(lambda: all(None not in shard for shard in servers.pids()))
        expect_the_bits(source, registry, batch, (1, 2, 3))
    assert complete > 100


@pytest.mark.slow
def test_actors_of_ray_are_killed_and_come_back(published, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    registry, changing = published
    batch = batch_of(changing.rng, changing.keys, 40)
    write_token(tmp_path / "token")
    access = new_access({}, True, tmp_path / "token")
    with cluster(None) as running:
        servers = RayServers(running, registry.uri, 2, 2, access)
        with fronted(registry, servers, 2, **access.client) as source:
            expect_the_bits(source, registry, batch, (1, 2, 3))
            model = source.load(3)
            before = [servers.find(1, replica) for replica in range(2)]
            for replica in range(2):
                ray.kill(servers.actors[1][replica], no_restart=False)
            wait_until(lambda: model.predict_partial(batch)[2] == (1,))
            wait_until(lambda: model.predict_partial(batch)[2] == (), 60)
            assert [servers.find(1, replica) for replica in range(2)] != before
            expect_the_bits(source, registry, batch, (2, 3))
