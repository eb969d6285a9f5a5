"""The part of a model core that holds the features of one shard."""

from __future__ import annotations

from amaranth.hdl import Mux
from amaranth.lib.wiring import connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER
from bitlane.contract.layout import CHUNK, WORD_BITS
from bitlane.contract.prng import INDEX_STEP
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import digit_flags

from .dot import DotLanes
from .gradient import GradientPass
from .rounding import ModelRounding
from .table_dot import TableDot
from .table_pass import TablePass
from .update import UpdateLanes
from .weights import Weights

MASTERS_BITS = MASTER.bits * CHUNK


def dot_type(config: AcceleratorConfig) -> type[DotLanes | TableDot]:
    """Return the block that computes the dot products in this build."""
    return TableDot if config.table_lanes else DotLanes


def shard_name(config: AcceleratorConfig, name: str, shard: int) -> str:
    """Return the name of a submodule that each shard has; without shards it has no number."""
    return name if config.shards == 1 else f"{name}_{shard}"


class ModelShard:
    """The weights of the features of a shard, and the lanes that read and update them.

    It is no component: its blocks are submodules of the core, so that a build without shards has no further level of
    modules. All shards of a core have the same timing.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    index : int
        Index of the shard.

    Attributes
    ----------
    weights : Weights
    gradient : GradientPass or TablePass
    lanes : UpdateLanes
    model_rounding : ModelRounding or None
        With random rounding only.
    """

    def __init__(self, config: AcceleratorConfig, index: int):
        self._config = config
        self._index = index
        self._first_word = index * config.rows_per_beat
        self._dots: list[DotLanes | TableDot] = []  # of each row
        self.weights = Weights(config)
        self.gradient = TablePass(config) if config.table_lanes else GradientPass(config)
        self.lanes = UpdateLanes(config, index)
        self.model_rounding = ModelRounding(config) if config.random_rounding else None

    def add(self, m, *names):
        """Add blocks to the module of the core, by the names of their attributes."""
        for name in names:
            m.submodules[shard_name(self._config, name, self._index)] = getattr(self, name)

    def add_dots(self, m, row):
        """Add the dot lanes of a row to the module of the core; return their dot products."""
        self._dots.append(dot_type(self._config)(self._config))
        m.submodules[shard_name(self._config, f"dot_{row}", self._index)] = self._dots[row]
        return self._dots[row].dots

    def connect_dots(self, m, core, row):
        """Connect the dot lanes of a row to the digits and the weights."""
        digits, dot = core.digits.payload, self._dots[row]
        m.d.comb += [
            dot.digits.valid.eq(core.digits.valid),
            dot.digits.payload.word.eq(digits.words.word_select(self._first_word + row, WORD_BITS)),
            *(dot.digits.payload[name].eq(digits[name]) for name in ("draw", *digit_flags(self._config))),
            dot.digits.payload.end.eq(digits.rows[core.output][row]),
            dot.weights.eq(self.weights.published),
        ]

    def connect_dot_codebook(self, m, core, row):
        """Connect the dot lanes of a row to their codebook. Only with table lanes."""
        dot = self._dots[row]
        connect(m, dot.codebook, flipped(core.dot_codebooks[self._first_word + row]))
        m.d.comb += [dot.settings.eq(core.settings), dot.digits.payload.chunk.eq(core.digits.payload.chunk)]

    def connect_beats(self, m, core):
        """Connect the gradient pass to the beats of the core, and the update lanes to the pass."""
        connect(m, self.gradient.passes, self.lanes.passes)
        given, taken = core.beats, self.gradient.beats
        m.d.comb += taken.payload.eq(given.payload.word_select(self._index, self._config.shard_width))
        if self._index == 0:
            m.d.comb += given.ready.eq(taken.ready)
        m.d.comb += taken.valid.eq(given.valid)

    def connect_gradient(self, m, core, start, end, prox):
        """Connect the gradient pass to its start, and to what is valid with it."""
        gradient = self.gradient
        m.d.comb += [
            gradient.settings.eq(core.settings),
            gradient.start.eq(start),
            gradient.end.eq(end),
            gradient.prox.eq(prox),
        ]

    def connect_gradient_codebooks(self, m, core):
        """Connect the gradient pass to the codebooks. Only with table lanes."""
        for row, codebook in enumerate(self.gradient.codebooks):
            connect(m, codebook, flipped(core.gradient_codebooks[self._first_word + row]))

    def connect_update(self, m, core):
        """Connect the update lanes to the weights, and the weights to their other readers."""
        lanes, weights = self.lanes, self.weights
        if self.model_rounding is not None:
            self.add(m, "model_rounding")
            self._round_model(m, core)
        chunk, bank = core.digits.payload.chunk, core.digits.payload.bank
        if self._config.table_lanes:  # levels arrive one cycle later than digits
            chunk, bank = register(m, chunk, "chunk"), register(m, bank, "bank")
        m.d.comb += [
            lanes.settings.eq(core.settings),
            lanes.low.eq(core.objective.low),
            lanes.high.eq(core.objective.high),
            lanes.unpenalized_intercept.eq(core.objective.unpenalized_intercept),
            lanes.threshold.eq(core.threshold),
            lanes.load.eq(core.load),
            lanes.load_chunk.eq(core.load_chunk),
            lanes.loaded.eq(core.loaded.word_select(self._index, MASTERS_BITS)),
            lanes.master.eq(weights.master),
            weights.write.eq(lanes.write),
            weights.write_address.eq(lanes.write_address),
            weights.masters.eq(lanes.updated),
            weights.publish.eq(lanes.publish),
            weights.write_bank.eq(lanes.bank),
            weights.master_address.eq(Mux(core.storing, core.store_chunk, lanes.read_address)),
            weights.published_address.eq(chunk),
            weights.read_bank.eq(bank),
            core.stored.word_select(self._index, MASTERS_BITS).eq(weights.master),
        ]
        if self.model_rounding is None:
            self._report(m, core, lanes)

    def _round_model(self, m, core):
        """Insert the rounding between the update lanes and the published weights."""
        rounding, lanes, rounded = self.model_rounding, self.lanes, self.weights.rounded
        m.d.comb += [
            rounding.begin.eq(core.begin),
            rounding.cut.eq(core.model_cut),
            rounding.seed.eq(core.seed + INDEX_STEP * self._index if self._index else core.seed),
            rounding.chunk.publish.eq(lanes.publish),
            rounding.chunk.address.eq(lanes.write_address),
            rounding.chunk.bank.eq(lanes.bank),
            rounding.chunk.masters.eq(lanes.updated),
            rounded.publish.eq(rounding.rounded.publish),
            rounded.address.eq(rounding.rounded.address),
            rounded.bank.eq(rounding.rounded.bank),
            rounded.masters.eq(rounding.rounded.masters),
            *_events(rounding.events, lanes),
        ]
        self._report(m, core, rounding.rounded_events)

    def _report(self, m, core, events):
        """Report the events of the first shard as those of the core."""
        if self._index == 0:
            m.d.comb += _events(core, events)


def _events(to, source):
    """Return the statements that pass the members of `UpdateEvents` on."""
    return [
        to.published.eq(source.published),
        to.epoch_done.eq(source.epoch_done),
        to.load_done.eq(source.load_done),
    ]
