"""Three hosts, as network namespaces with a Ray cluster: links that are cut, a host that never returns, packets."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.host_serving import SHARDS
from tests.helpers.host_training import PORTS, SERVERS, WORKERS, spec_of
from tests.helpers.hosts import Hosts, certificates, missing
from tests.helpers.ray_trainings import Shares, serving, windows, write_rows
from tests.helpers.sparse_registry import ChangingModel, batch_of, saved
from tests.helpers.sparse_workers import train_alone

pytest.importorskip("ray")
pytest.importorskip("pyarrow.flight")

from bitlane.sparse.engines.access import write_token
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane_studies.sparse.distributed import same_bits

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

ROWS, EPOCHS = 4000, 6
SECONDS = 400.0  # for a training, on a machine with other work
CUTS = (4.0, 15.0, 40.0)
RANDOM_CUTS, MANY_EPOCHS = 20, 24
# A host counts as dead after 40 looks, each 3 seconds after the other, that it does not answer.
PATIENT = {"RAY_health_check_failure_threshold": "40"}


class Cluster:
    """Three hosts with Ray, certificates and rows."""

    def __init__(self, hosts: Hosts, seed: int, **environment: str):
        self.hosts, self._seed = hosts, seed
        self.address = hosts.ray(**environment)
        self.tls = certificates(hosts.folder / "tls", hosts.addresses)
        self.rows = write_rows(hosts.folder / "rows.ffm", seed, ROWS)

    def begin(self, name: str, epochs: int = EPOCHS) -> tuple[subprocess.Popen[str], Path]:
        """Begin a training on the first host."""
        run = self.hosts.folder / name
        arguments = [self.rows, run, self.address, epochs, self._seed, *self.tls.values()]
        return self.hosts.python(0, "-m", "tests.helpers.host_training", *arguments), run

    def expected(self, epochs: int = EPOCHS) -> SparseModel:
        """The model of one process."""
        shares = Shares(str(self.rows), WORKERS)
        return train_alone(spec_of(self._seed), shares.batches(), epochs, shares.batches()[0])[0]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with Hosts(3) as found:
        yield found


def wait_for(program: subprocess.Popen[str], what: Any, seconds: float = SECONDS) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert program.poll() is None and time.monotonic() < until, output(program)
        time.sleep(0.1)


def output(program: subprocess.Popen[str]) -> str:
    return str(program.output.read_text())  # type: ignore[attr-defined]


def end(program: subprocess.Popen[str], epochs: int = EPOCHS) -> None:
    """Wait for a training that ends well."""
    program.wait(SECONDS)
    assert program.returncode == 0 and f"{ROWS * epochs} rows, finished" in output(program), output(program)


def busy_host(run: Path, hosts: Hosts) -> int:
    """A host with a server that is not the driver's."""
    addresses = {each["address"].rpartition(":")[0] for each in serving(run)["servers"]}
    return max(hosts.addresses.index(address) for address in addresses)


def processes_of(run: Path) -> list[int]:
    """The processes of servers and workers."""
    return [each["pid"] for kind in ("servers", "workers") for each in serving(run)[kind]]


@pytest.mark.timeout(1500)
def test_cuts_change_no_bit_and_no_secret_crosses_the_network(hosts: Hosts, seed: int) -> None:
    """Cuts of 4, 15 and 40 seconds of a host with a server, in one training each."""
    cluster = Cluster(hosts, seed, **PATIENT)
    expected, secrets = cluster.expected(), cluster.tls["--tls-key"].read_text().splitlines()[1:-1]
    with hosts.heard() as packets:
        for seconds in CUTS:
            program, run = cluster.begin(f"cut-{seconds:g}")
            wait_for(program, lambda run=run: windows(run) >= 2 and serving(run) and None not in processes_of(run))
            ports = {int(each["address"].rpartition(":")[2]) for each in serving(run)["servers"]}
            assert ports <= set(range(PORTS[0], PORTS[1] + 1))
            secrets += [(run / "servers" / "token").read_text().strip()]
            before, processes = windows(run), processes_of(run)
            hosts.cut_for(busy_host(run, hosts), seconds)
            mended, after = time.monotonic(), windows(run)
            assert after <= before + 2, "the link was not cut"
            wait_for(program, lambda run=run, after=after: windows(run) > after)
            print(f"cut of {seconds:g} s: rows moved {time.monotonic() - mended:.1f} s after the link's return")
            assert processes_of(run) == processes, "Ray has started a process again"
            end(program)
            assert same_bits(SparseModel.load(run / "model"), expected)
    heard = packets()
    assert b"rows.ffm" in heard  # Ray's calls can be read
    for secret in secrets:
        for at in range(0, len(secret) - 15, 8):
            assert secret[at : at + 16].encode() not in heard


@pytest.mark.timeout(1500)
def test_random_cuts_change_no_bit(hosts: Hosts, seed: int) -> None:
    cluster, draw = Cluster(hosts, seed, **PATIENT), np.random.default_rng(seed)
    program, run = cluster.begin("run", MANY_EPOCHS)
    wait_for(program, lambda: windows(run) >= 2 and serving(run) and None not in processes_of(run))
    for cut in range(RANDOM_CUTS):
        assert program.poll() is None, f"the training was over after {cut} cuts"
        hosts.cut_for(int(draw.integers(1, 3)), float(draw.exponential(3.0)))
        time.sleep(float(draw.uniform(0, 2)))
    end(program, MANY_EPOCHS)
    assert same_bits(SparseModel.load(run / "model"), cluster.expected(MANY_EPOCHS))


@pytest.mark.timeout(900)
def test_a_training_goes_on_without_a_host_that_never_returns(hosts: Hosts, seed: int) -> None:
    cluster = Cluster(hosts, seed)
    program, run = cluster.begin("run")
    wait_for(program, lambda: windows(run) >= 2 and len(serving(run).get("servers", ())) == SERVERS)
    gone = busy_host(run, hosts)
    hosts.cut(gone)
    begin, after = time.monotonic(), windows(run)
    time.sleep(5)
    wait_for(program, lambda: windows(run) > after + 2)
    print(f"rows moved {time.monotonic() - begin:.1f} s after the host was lost")
    addresses = [each["address"] for each in serving(run)["servers"]]
    end(program)
    assert not any(address.startswith(f"{hosts.addresses[gone]}:") for address in addresses)
    assert SparseModel.load(run / "model").rows_seen == ROWS * EPOCHS


@pytest.mark.timeout(900)
def test_a_cut_host_costs_no_answer_of_sharded_serving(hosts: Hosts, seed: int) -> None:
    cluster, uri = Cluster(hosts, seed), hosts.folder / "models"
    changing = ChangingModel(seed, spec=ModelSpec("lr"))
    changing.model.learn(batch_of(changing.rng, changing.keys, 100))
    publish_folder(ModelRegistry(uri), saved(hosts.folder / "m", changing.model), shards=SHARDS)
    write_token(hosts.folder / "token")
    stop = hosts.folder / "stop"
    arguments = [uri, cluster.address, hosts.folder / "token", stop, *cluster.tls.values()]
    program = hosts.python(0, "-m", "tests.helpers.host_serving", *arguments)
    wait_for(program, lambda: "[[" in output(program))
    replicas = json.loads(next(line for line in output(program).splitlines() if line.startswith("[[")))
    places: dict[int, set[int]] = {}
    for shard, address in replicas:
        places.setdefault(shard, set()).add(hosts.addresses.index(address.rpartition(":")[0]))
    spare = [host for host in (1, 2) if all(each != {host} for each in places.values())]
    used = [host for host in spare if any(host in each for each in places.values())]
    assert used, f"Ray has put all replicas of each shard on one host: {places}"
    time.sleep(3)
    hosts.cut_for(used[0], 12.0)
    time.sleep(8)
    stop.touch()
    assert program.wait(120) == 0, output(program)
    counts = json.loads(output(program).splitlines()[-1])
    print(f"serving through a cut of 12 s: {counts}")
    assert counts["answers"] > 100 and counts["wrong"] == 0
    assert counts["partial"] <= 0.01 * counts["answers"]
