"""Helpers of the tests of policies: observations, and the exchange of a single rank."""

from __future__ import annotations

from bitlane.policies.protocol import Observation


def alone(numbers):
    return [list(numbers)]


def step(loss=None, seconds=1.0, rms=1.0):
    return Observation(loss, seconds, lambda: rms)
