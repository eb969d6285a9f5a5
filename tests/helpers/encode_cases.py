"""Random tables to encode, with what is needed to encode them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.helpers import encode_textbook as textbook

from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import fit_scaling, intercept_value
from bitlane.training.samples import SampleEncoder

DTYPES = ("u1", "i2", "f4", "f8", "i8", ">f4", "f2", "?")  # machine code reads the first four where they are


class Case:
    """A random table with its scaling, a precision, and the shape of a launch over some of its rows."""

    def __init__(self, rng, rows=120, features=140):
        rows, n = int(rng.integers(2, rows)), int(rng.integers(1, features))
        X = (rng.normal(size=(rows, n)) * rng.choice([1, 50]) + rng.choice([0, 100])).clip(0, 255)
        X = X.astype(rng.choice(DTYPES))
        if rng.random() < 0.4:
            X[:, rng.random(n) < 0.4] = 1  # constant columns
        X[:2, 0] = [0, 1]
        if rng.random() < 0.2:
            X = np.asfortranarray(X)
        elif rng.random() < 0.2:
            X = np.repeat(X, 2, axis=1)[:, ::2]  # every second value of a wider table
        sampling = str(rng.choice(["double", "double", "nearest", "naive", "full"]))
        self.precision = precision = Precision(32 if sampling == "full" else 2 * int(rng.integers(1, 17)), sampling)
        self.X, self.y = X, rng.normal(size=(rows, int(rng.integers(1, 4))))
        one = float(rng.choice([0.0, intercept_value(precision)]))
        centered = bool(rng.random() < 0.7)
        self.scaling = fit_scaling(X, self.y, centered, precision.limit, margins=True, intercept_value=one)
        if rng.random() < 0.3:  # columns whose values are clipped
            scale = self.scaling.scale * rng.choice([1.0, 0.25], n)
            self.scaling = replace(self.scaling, scale=scale)
        self.first, self.seed = int(rng.integers(rows)), int(rng.integers(1 << 40))
        self.numbers = rng.integers(100, size=rng.integers(1, 4)).tolist()  # of draw sets
        self.number = self.numbers[-1]
        batch, rows_per_beat = int(rng.integers(1, 40)), int(rng.choice([1, 2, 4, 8]))
        stored = self.scaling.stored_features
        self.geometry = Geometry.of(precision, stored, rows - self.first, batch, rows_per_beat, self.y.shape[1])

    def encoder(self, kernels, threads=None):
        """An encoder with machine code, or in numpy with None."""
        encoder = SampleEncoder(self.X, self.y, self.scaling, self.precision, self.seed, threads=threads)
        encoder.kernels = kernels
        return encoder

    def words(self, kernels, threads=None):
        """The base words and the words of the draw sets of the launch."""
        encoder = self.encoder(kernels, threads)
        base = encoder.base(self.geometry, self.first, self.number)
        draws = encoder.draws(self.geometry, self.first, self.numbers) if self.precision.draws else []
        return np.concatenate([base, *draws]).tolist()

    def in_textbook(self, row, feature):
        """The base code and the draw code of one stored feature."""
        precision, scaling = self.precision, self.scaling
        word = None
        if precision.sampling == "naive":
            word = textbook.draw_word(textbook.set_seed(self.seed, self.number), row, feature)
        elif precision.sampling == "double":
            word = textbook.draw_word(textbook.set_seed(self.seed, self.number // 16), row, feature)
            word ^= textbook.strata(self.number)
        if feature < len(scaling.active):
            column = scaling.active[feature]
            found = scaling.center[column], scaling.scale[column]
            place = textbook.position(float(self.X[row, column]), *map(float, found), precision.base_bits)
        else:
            place = round(2.0 ** (precision.base_bits + 19) * (1 + scaling.intercept_value))
        return textbook.base_and_draws(place, precision.base_bits, word, precision.sampling == "naive")
