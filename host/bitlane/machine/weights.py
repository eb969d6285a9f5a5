"""Master weights: saturation, the proximal operator, and the copy that dot products read."""

from __future__ import annotations

import numpy as np

from bitlane.contract.formats import MASTER, SHRINK_SHIFT
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane.contract.packing import CUT_BITS
from bitlane.reference.machine import PHASE_BITS

from .integers import clip, inlined, kernel, random_word, round_at_random
from .plan import PHASE, SEED, Arrays, Rules, Shape

NONE, L2, L1, BOX = (int(prox) for prox in (Prox.NONE, Prox.L2, Prox.L1, Prox.BOX))
LOW, HIGH = MASTER.minimum, MASTER.maximum


def _proximal_step(prox: int, rules: Rules, master: int) -> int:
    """Return a master weight after the proximal operator."""
    if prox == L2:
        return master - (master >> SHRINK_SHIFT)
    if prox == L1:
        return max(master - rules.threshold, 0) if master > 0 else min(master + rules.threshold, 0)
    if master >= rules.high:
        return rules.high
    return rules.low if master < rules.low else master


def _end_batch(rules: Rules, arrays: Arrays) -> int:
    """Advance the phase at the end of a batch; return the proximal operator to apply."""
    phase = arrays.counters[PHASE] + rules.rate
    arrays.counters[PHASE] = phase & ((1 << PHASE_BITS) - 1)
    if rules.prox == L2 and not phase >> PHASE_BITS:
        return NONE
    return rules.prox


def _publish(shape: Shape, rules: Rules, arrays: Arrays, bank: int) -> None:
    """Write the weights that dot products read, and their sums, to a bank."""
    seed, cut = arrays.counters[SEED], rules.model_cut
    for output in range(shape.outputs):
        master, target = arrays.master[output], arrays.published[bank, output]
        total = 0
        for j in range(shape.features):
            seen = np.int64(master[j])
            if cut:
                random = random_word(seed, j // CHUNK, arrays.model_lanes[j % CHUNK])
                seen = clip(round_at_random(seen, random, cut), LOW, HIGH)
            seen >>= CUT_BITS
            total += seen
            if shape.codebook:
                target[j] = seen
            else:
                target[2 * j] = seen
                target[2 * j + 1] = seen
        arrays.totals[bank, output] = total


def _has_room(shape: Shape, arrays: Arrays, output: int, chunk: int, change: int) -> bool:
    """Return whether changes of at most this size, in any order, saturate no weight of a chunk; keep its ceiling."""
    if arrays.ceilings[output, chunk] + change > HIGH:
        size, master = 0, arrays.master[output]
        for j in range(chunk * CHUNK, min(chunk * CHUNK + CHUNK, shape.features)):
            size = max(size, abs(np.int64(master[j])))
        arrays.ceilings[output, chunk] = size
    arrays.ceilings[output, chunk] += change
    return bool(arrays.ceilings[output, chunk] <= HIGH)


proximal_step = inlined(_proximal_step)
end_batch = inlined(_end_batch)
publish = kernel(_publish)
has_room = inlined(_has_room)
