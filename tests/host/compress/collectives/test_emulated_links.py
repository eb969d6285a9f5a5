"""Emulated links: duration of transfers in both directions, and removal after success and after an error."""

import subprocess
import time

import pytest
import torch

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.emulated_links import ThrottledTransport, emulate_links, parse_link
from bitlane.compress.collectives.launch import launch
from bitlane.compress.collectives.transport import TorchTransport, run_ranks_in_threads
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


def seconds_of(transport, count, rounds=1):
    """Return the seconds of rounds that send `count` bytes to each rank and receive as many."""
    parts = [torch.full((count,), transport.rank, dtype=torch.uint8) for _ in range(transport.size)]
    transport.exchange([part[:1] for part in parts], [1] * transport.size)
    began = time.perf_counter()
    for _ in range(rounds):
        for rank, part in enumerate(transport.exchange(parts, [count] * transport.size)):
            assert bool((part == rank).all())
    return time.perf_counter() - began


def best(transport, count, rounds=1):
    """Return the shortest of ten measurements, because other work on the machine makes them longer."""
    return min(seconds_of(transport, count, rounds) for _ in range(10))


def in_process(_, links, count):
    return best(links.throttle(TorchTransport()), count)


def interfaces():
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout


def namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def namespaces_available():
    """Skip the test if the machine has no network namespaces."""
    with emulate_links(1, AlphaBetaModel()) as links:
        if not hasattr(links, "namespaces"):
            pytest.skip(links.description)


def test_transfer_in_namespaces_takes_bytes_over_bandwidth(namespaces_available):
    """The link is full duplex: a half-duplex link would take twice as long, 0.4 s. Headers are 1 %."""
    model = parse_link("100mbit")
    with emulate_links(2, model) as links:
        times = launch(in_process, 2, links, 2_500_000, enter=links.enter, timeout=120)
    assert all(0.19 < seconds < 0.3 for seconds in times), times


def test_namespaces_leave_the_machine_unchanged(namespaces_available):
    before = interfaces(), namespaces()
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), emulate_links(3, AlphaBetaModel()) as links:
            assert interfaces() == before[0]
            assert namespaces().count(links.namespaces.prefix) == 4
            raise error
        assert (interfaces(), namespaces()) == before


def test_namespace_names_are_unique(namespaces_available):
    with emulate_links(1, AlphaBetaModel()) as one, emulate_links(1, AlphaBetaModel()) as other:
        assert one.namespaces.prefix != other.namespaces.prefix
        assert one.namespaces.prefix in namespaces()


def test_token_bucket_is_the_fallback_without_namespaces(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with emulate_links(2, AlphaBetaModel()) as links:
        assert "token bucket" in links.description
        assert "iproute2" in links.description
        links.enter(0)
        slowed = run_ranks_in_threads(2, links.throttle)
    assert all(isinstance(each, ThrottledTransport) for each in slowed)


def test_transfer_through_the_token_bucket_takes_latency_and_bytes_over_bandwidth():
    model = AlphaBetaModel(0.01, 1e7)
    expected = 2 * (0.01 + 2 * 200_000 / 1e7)
    for _ in range(5):  # a busy machine may take longer, never all the time
        times = run_ranks_in_threads(3, lambda transport: best(ThrottledTransport(transport, model), 200_000, rounds=2))
        assert all(expected <= seconds for seconds in times), times
        if max(times) < 1.1 * expected:
            return
    pytest.fail(f"{times} instead of {expected}")


def test_a_single_rank_is_not_throttled():
    [seconds] = run_ranks_in_threads(
        1, lambda transport: seconds_of(ThrottledTransport(transport, AlphaBetaModel(1.0, 1.0)), 1000)
    )
    assert seconds < 0.5


@pytest.mark.parametrize(
    ("text", "latency", "bandwidth"),
    [
        ("100mbit", 100e-6, 12.5e6),
        ("1gbit", 100e-6, 125e6),
        ("2.5gbit,50us", 50e-6, 312.5e6),
        ("800kbit,0.5ms", 5e-4, 1e5),
        ("1gbit,1s", 1.0, 125e6),
    ],
)
def test_parse_link(text, latency, bandwidth):
    model = parse_link(text)
    assert (model.latency, model.bandwidth) == pytest.approx((latency, bandwidth), rel=1e-12)


@pytest.mark.parametrize("text", ["", "fast", "100", "0mbit", "-1gbit", "1gbit,", "1gbit,5", "1Gbit", "1gbit 5ms"])
def test_parse_link_rejects_other_text(text):
    with pytest.raises(DataError, match="use a bandwidth and optionally a latency"):
        parse_link(text)
