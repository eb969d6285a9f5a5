"""Random samples of the reducer of `Auto`, and the choice that follows from them by plain arithmetic."""

from __future__ import annotations

from statistics import median

import numpy as np

from bitlane.policies.protocol import ExchangeSample, GroupSample

BITS = (2, 3, 4, 5, 6, 7, 8, 16, 32)
LINEAR = 7  # of them are bits of the linear codec


def shared_facts(rng):
    """Return what all ranks know alike of a random layout: values of its segments, rounds, bytes, averages rounded."""
    segments = rng.integers(1_000, 3_000_000, rng.integers(1, 6)).astype(float)
    twice = rng.random((len(segments), len(BITS))) < rng.choice([0, 0.5, 1])
    bodies = segments[:, None] * (np.array(BITS) + (np.array(BITS) <= 8) / 16) / 8
    rounded = np.average(twice, axis=0, weights=segments)
    return segments, (1 + twice).sum(axis=0).astype(float), (bodies * rng.uniform(1, 3)).sum(axis=0), rounded


def rank_sample(rng, facts, noise, seconds_of_byte, current):
    """Return a random sample of a rank; `noise` is about the share of its gradient that other batches change."""
    segments, rounds, sent, rounded = facts
    energy = 10.0 ** rng.uniform(-8, 8)
    lengths = np.full(20, 512)
    peaks = energy / 10_240 * rng.uniform(5, 20, 20)
    part = rng.uniform(0.5, 1)
    errors = (part * lengths @ peaks) * rng.uniform(0.1, 0.3) / 4.0 ** np.arange(LINEAR)
    product = 0.1 * energy * max(0.0, 1 - noise * rng.uniform(0.9, 1.1))
    gradient = GroupSample(lengths, peaks, energy, 0.1 * energy, product, part * float(lengths @ peaks), errors, 0.0)
    coding = segments.sum() * 10.0 ** rng.uniform(-10, -8) * rng.uniform(0.8, 1.2, len(BITS))
    exchange = (sent[current] * seconds_of_byte + 1e-4) * rng.uniform(1, 1.1)
    return ExchangeSample(gradient, coding, rounds, sent, rounded, exchange, segments, 1e-3 * rng.random())


def step_seconds(rows, facts, current, overlapped):
    """Return the time of a step for each choice, from the numbers that the ranks exchanged."""
    segments, rounds, sent, _ = facts
    typical = [median(column) for column in zip(*rows, strict=True)]
    computing, latency, exchange = typical[:3]
    of_byte = max(exchange - rounds[current] * latency, 1e-9) / sent[current]
    times = []
    for number in range(len(BITS)):
        work = typical[len(typical) - len(BITS) + number] + rounds[number] * latency + sent[number] * of_byte
        if not overlapped:
            times.append(computing + work)
            continue
        ready = free = computing / 3  # the forward pass; the backward pass takes twice as long
        for values in segments:
            share = values / sum(segments)
            ready += 2 / 3 * computing * share
            free = max(free, ready) + work * share
        times.append(free)
    return times


def noise_ratios(rows, facts):
    """Return the error of the average over its noise for each choice, from the numbers that the ranks exchanged."""
    ranks, rounded = len(rows), facts[3]
    energy, sampled, product, few_peaks, peaks = (sum(row[4 + k] for row in rows) / ranks for k in range(5))
    exact = min(max(product / sampled, 1 / ranks), 1) * energy  # the square of the exact average
    noise = (energy - exact) / (ranks - 1)
    ratios = []
    for number, bits in enumerate(BITS):
        if bits == 32:
            ratios.append(0.0)
            continue
        if bits == 16:
            error = energy * 2**-14 / 12
        else:
            error = sum(row[9 + number] for row in rows) / ranks / few_peaks * peaks
        first = error / ranks
        total = first + rounded[number] * error / energy * (exact + first)
        ratios.append(total / noise if noise > 0 else float("inf"))
    return ratios


def best_bits(times, ratios, current, tolerance):
    """Return the bits that are chosen, by a search of all: `current` are the present ones."""
    now = BITS.index(current)
    best = None
    for number in reversed(range(len(BITS))):
        if ratios[number] <= 0.8 * tolerance and (best is None or times[number] < times[best]):
            best = number
    if ratios[now] <= tolerance and not times[best] < 0.95 * times[now]:
        return current
    return BITS[best]
