"""The parts of a step's time, and the time that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from .collectives.cost_model import AlphaBetaModel


@dataclass(frozen=True)
class ComputeCosts:
    """The computing time of a training step.

    Attributes
    ----------
    forward : float
        Seconds of the forward pass and the update of the weights.
    backward : float
        Seconds of the backward pass.
    """

    forward: float
    backward: float

    @classmethod
    def of(cls, seconds: float) -> ComputeCosts:
        """Return the costs of a step of which only the sum is known: a backward pass computes twice a forward pass."""
        return cls(seconds / 3, 2 * seconds / 3)

    @property
    def total(self) -> float:
        """Seconds of a step without an exchange."""
        return self.forward + self.backward


@dataclass(frozen=True)
class StepCosts:
    """The cost of one step of a compressor, for one rank.

    Attributes
    ----------
    codec : float
        Seconds of collecting the gradient, encoding, adding, decoding and returning the average.
    rounds : int
        Number of exchanges.
    bytes : int
        Bytes that determine the duration: in each round the larger of incoming and outgoing, summed over rounds.
    sent : int
        Bytes that the socket carries to other ranks: those of the compressor, and the framing of gloo.
    state_bytes : int, default: 0
        Bytes that a rank keeps between steps.
    shares : tuple of float, default: (1.0,)
        The segments of the gradient that are exchanged one after the other, in the order of the backward pass, each as
        a fraction of its values. Each segment begins when it is computed.
    """

    codec: float
    rounds: int
    bytes: int
    sent: int
    state_bytes: int = 0
    shares: tuple[float, ...] = (1.0,)

    def link_seconds(self, model: AlphaBetaModel) -> float:
        """Return the predicted seconds of sending on a link."""
        return self.rounds * model.latency + self.bytes / model.bandwidth

    def step_seconds(self, compute: ComputeCosts, model: AlphaBetaModel) -> float:
        """Return the predicted seconds of a step with a core for coding beside those that compute."""
        computed, done, work = compute.forward, 0.0, self.codec + self.link_seconds(model)
        for share in self.shares:
            computed += share * compute.backward
            done = max(done, computed) + share * work
        return done
