"""Let members of an elastic training die and join at random, beside a training of the same seed without events.

    python -m bitlane_studies.compression.elastic
    python -m bitlane_studies.compression.elastic --events 10 --rounds 30 --seeds 0

Each member and the coordinator has a network namespace with a limited bandwidth; without namespaces all use the
loopback interface, which the output says. Half of the deaths come within the exchanges of a round. Both trainings of a
seed run at the same time, so that other work on the machine slows both. Then a training in this process has as many
members in each round as the disturbed one had, and no events: it shows what fewer members cost.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import mean

from bitlane.compress.collectives.emulated_links import parse_link
from bitlane.compress.collectives.namespaces import NetworkNamespaces
from bitlane.errors import BitlaneError

from ...command import run
from .control import control_loss, members_of
from .crew import Crew, CrewResult
from .events import ElasticEvent, draw_events
from .member import ElasticJob
from .report import ElasticPair, table, verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.compression.elastic", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="seeds of weights, data and events (default: 0 1 2)")
    add("--members", type=int, default=4, help="members at the begin, and the most (default: %(default)s)")
    add("--events", type=int, default=100, help="deaths and joins (default: %(default)s)")
    add("--rounds", type=int, default=ElasticJob.rounds, help="rounds of a training (default: %(default)s)")
    add("--every", type=int, default=ElasticJob.every, help="inner steps of a round (default: %(default)s)")
    add(
        "--step-seconds",
        type=float,
        default=ElasticJob.step_seconds,
        help="least time of a step (default: %(default)s)",
    )
    add("--link", default="100mbit", help="bandwidth of each member (default: %(default)s)")
    given = parser.parse_args(argv)
    if given.members < 3 or given.rounds < 5:
        raise BitlaneError(f"--members must be 3 or more and --rounds 5 or more; got {given.members}, {given.rounds}")
    pairs = []
    for seed in given.seeds:
        job = ElasticJob(given.rounds, given.every, given.step_seconds, seed)
        events = draw_events(given.events, given.members, given.rounds, random.Random(seed))
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(_run, job, given.members, given.link, each) for each in (events, [])]
            disturbed, quiet = (each.result() for each in futures)
        members = members_of(disturbed)
        pairs.append(ElasticPair(seed, disturbed, quiet, mean(members), control_loss(job, members)))
        print(table(pairs[-1:]), file=sys.stderr, flush=True)
    print(table(pairs), verdict(pairs), sep="\n")
    return 0


def _run(job: ElasticJob, members: int, link: str, events: Sequence[ElasticEvent]) -> CrewResult:
    with _namespaces(members + 1, parse_link(link).bandwidth) as namespaces:
        return Crew(job, members, namespaces, events).run()


@contextmanager
def _namespaces(count: int, bandwidth: float) -> Iterator[NetworkNamespaces | None]:
    """Create namespaces for the duration of the context; return None where the system forbids it."""
    namespaces = NetworkNamespaces.with_unique_names(count, bandwidth)
    try:
        try:
            namespaces.create()
        except BitlaneError as error:
            print(f"no network namespaces, so all members use the loopback interface: {error}", file=sys.stderr)
            yield None
        else:
            yield namespaces
    finally:
        namespaces.remove()


if __name__ == "__main__":
    run(main)
