"""One of the models that are trained: its weights, the lanes that read and update them, and its scalar stage."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, LOSS, MASTER
from bitlane.contract.latencies import SCALED_GRADIENT_LATENCY
from bitlane.contract.layout import CHUNK, DIGIT_BITS, WORD_BITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.fixed_point import delay, delay_valid, popcount, register
from bitlane_hw.common.payloads import GroupEnd, Objective, Scale, digit_flags, digit_layout, settings_layout

from .dot import DotLanes
from .gradient import GradientPass
from .levels import level_port
from .rounding import RANDOM_SETTINGS, ModelRounding, ScaledGradientRounding
from .scalar import LossSum, Predict, Slope, Step
from .table_dot import TableDot
from .table_pass import TablePass
from .update import THRESHOLD_BITS, UpdateLanes
from .weights import ROUNDED, Weights


def _dot(config: AcceleratorConfig) -> type[DotLanes | TableDot]:
    return TableDot if config.table_lanes else DotLanes


def start_latency(config: AcceleratorConfig) -> int:
    """From a group's last beat to its scaled_gradients, in cycles."""
    return (
        _dot(config).latency
        + Predict.latency
        + Slope.latency
        + Step.latency
        + SCALED_GRADIENT_LATENCY * config.random_rounding
    )


class ModelCore(wiring.Component):
    """Dot lanes and scalar stage for each column, then the gradient of all rows_per_beat into one set of weights.

    All of fixed latency, without backpressure: `update_latency` cycles after the last beat of a batch (of one digit)
    the first beat of a batch that reads the new model may come.

    Parameters
    ----------
    config: of the accelerator. output: this head's number.

    Members
    -------
    settings, objective: In, the run. step, step_negative: In, `Scale`.
    threshold: In, of L1. shrink: In(1), in the cycle of `batch_end`: L2 shrinks with this batch.
    batch_end: Out(1).
    digits: In, stream of `digit_layout`, always ready.
    beats: In, stream of the row buffer: the same beats again, when they are needed.
    clear_loss: In(1). loss: Out, format LOSS.
    load, load_chunk, loaded: In, a chunk of the initial model.
    dot_tables, gradient_tables: Out, with table lanes, `level_port` of each column.
    store_chunk, storing: In, which chunk `stored` is; only while no sample is under way. stored: Out, a cycle later.
    published, epoch_done, load_done: Out(1), see `UpdateLanes`.
    begin, model_cut, scaled_gradient_cut, seed, seed_now: with random rounding alone, see `rounding`.
    clipped: Out, values clipped.
    """

    def __init__(self, config: AcceleratorConfig, output: int):
        self._config = config
        self._output = output
        self._row_clips = (6 + 2 * config.table_lanes + 2 * config.random_rounding) * config.rows_per_beat
        self.clips = CHUNK + self._row_clips
        options = {}
        if config.table_lanes:
            port = level_port(config)
            options |= {name: Out(port).array(config.rows_per_beat) for name in ("dot_tables", "gradient_tables")}
        if config.random_rounding:
            options |= {name: In(shape) for name, shape in {"begin": 1, **RANDOM_SETTINGS}.items()}
            options |= {"seed_now": Out(SEED_BITS)}
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "objective": In(Objective),
                "step": In(Scale),
                "step_negative": In(Scale),
                "threshold": In(THRESHOLD_BITS),
                "shrink": In(1),
                "batch_end": Out(1),
                "digits": In(stream.Signature(digit_layout(config), always_ready=True)),
                "beats": In(stream.Signature(config.width)),
                "clear_loss": In(1),
                "loss": Out(LOSS.bits),
                "load": In(1),
                "load_chunk": In(range(config.max_chunks)),
                "loaded": In(MASTER.bits * CHUNK),
                **options,
                "store_chunk": In(range(config.max_chunks)),
                "storing": In(1),
                "stored": Out(MASTER.bits * CHUNK),
                "published": Out(1),
                "epoch_done": Out(1),
                "load_done": Out(1),
                "clipped": Out(range(self.clips + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, digits = self._config, self.digits.payload
        m.submodules.weights = weights = Weights(config)
        m.submodules.loss_sum = loss_sum = LossSum(config.rows_per_beat)
        m.submodules.gradient = gradient = TablePass(config) if config.table_lanes else GradientPass(config)
        m.submodules.lanes = lanes = UpdateLanes(config)
        scaled_gradients, clips = gradient.scaled_gradients, []
        if config.random_rounding:
            m.submodules.rounding = rounding = ScaledGradientRounding(config)
            scaled_gradients = rounding.scaled_gradients
            clips += self._round_scaled_gradients(m, rounding, gradient)
        for column in range(config.rows_per_beat):
            clips += self._row(m, column, weights, loss_sum, scaled_gradients[column])

        to_start = start_latency(config)
        start = delay_valid(m, self.digits.valid & digits.row_last, to_start, "start")[-1]
        end = GroupEnd(delay(m, digits.end.as_value(), to_start, "end"))
        due = end.batch_last & ((self.objective.prox != Prox.L2) | self.shrink)
        connect(m, gradient.passes, lanes.passes)
        connect(m, wiring.flipped(self.beats), gradient.beats)
        m.d.comb += [
            self.batch_end.eq(start & end.batch_last),
            gradient.settings.eq(self.settings),
            gradient.start.eq(start),
            gradient.end.eq(end),
            gradient.prox.eq(Mux(due, self.objective.prox, Prox.NONE)),
            loss_sum.squares.eq(self.objective.loss == Loss.SQUARES),
            loss_sum.clear.eq(self.clear_loss),
            self.loss.eq(loss_sum.loss),
        ]
        if config.random_rounding:
            m.submodules.model_rounding = model_rounding = ModelRounding(config)
            self._round_model(m, model_rounding, lanes, weights)
        self._update(m, lanes, weights)
        if config.table_lanes:
            clips += list(gradient.clipped)
            for mine, its in zip(self.gradient_tables, gradient.tables, strict=True):
                connect(m, its, wiring.flipped(mine))
        few = Signal(range(self._row_clips + 1))
        m.d.sync += [few.eq(popcount(Cat(clips))), self.clipped.eq(few + lanes.clipped)]
        return m

    def _row(self, m, column, weights, loss_sum, scaled_gradients):
        """The dot lanes and the scalar stage of a column; returns which of its values are clipped."""
        config, digits = self._config, self.digits.payload
        m.submodules[f"dot_{column}"] = dot = _dot(config)(config)
        m.submodules[f"predict_{column}"] = predict = Predict(config)
        m.submodules[f"slope_{column}"] = slope = Slope()
        m.submodules[f"step_{column}"] = step = Step()
        connect(m, dot.dots, predict.dots)
        connect(m, predict.predictions, slope.predictions)
        m.d.comb += [
            dot.digits.valid.eq(self.digits.valid),
            dot.digits.payload.word.eq(digits.words.word_select(column, WORD_BITS)),
            *(dot.digits.payload[name].eq(digits[name]) for name in ("draw", *digit_flags(config))),
            dot.digits.payload.end.eq(digits.rows[self._output][column]),
            dot.weights.eq(weights.published),
            predict.base_digits.eq(LEVEL.fraction // DIGIT_BITS if config.table_lanes else self.settings.base_digits),
            slope.loss.eq(self.objective.loss),
            step.step.eq(self.step),
            step.step_negative.eq(self.step_negative),
            step.slopes.valid.eq(slope.slopes.valid),
            step.slopes.payload.eq(slope.slopes.payload),
            loss_sum.slopes.valid.eq(slope.slopes.valid),
            loss_sum.slopes.payload[column].eq(slope.slopes.payload),
            scaled_gradients.eq(step.scaled_gradients.payload),
        ]
        if config.table_lanes:
            connect(m, dot.tables, wiring.flipped(self.dot_tables[column]))
            m.d.comb += [dot.settings.eq(self.settings), dot.digits.payload.chunk.eq(digits.chunk)]
        squares = self.objective.loss == Loss.SQUARES
        predicted, sloped = predict.predictions, slope.slopes
        return [
            *(clip & predicted.valid & predicted.payload.end.present & squares for clip in predict.clipped),
            *(clip & sloped.valid & sloped.payload.end.present for clip in slope.clipped),
            *step.clipped,
        ]

    def _update(self, m, lanes, weights):
        chunk, bank = self.digits.payload.chunk, self.digits.payload.bank
        if self._config.table_lanes:  # its levels come a cycle later than a digit would
            chunk, bank = register(m, chunk, "chunk"), register(m, bank, "bank")
        m.d.comb += [
            lanes.settings.eq(self.settings),
            lanes.low.eq(self.objective.low),
            lanes.high.eq(self.objective.high),
            lanes.unpenalized_intercept.eq(self.objective.unpenalized_intercept),
            lanes.threshold.eq(self.threshold),
            lanes.load.eq(self.load),
            lanes.load_chunk.eq(self.load_chunk),
            lanes.loaded.eq(self.loaded),
            lanes.master.eq(weights.master),
            weights.write.eq(lanes.write),
            weights.write_address.eq(lanes.write_address),
            weights.masters.eq(lanes.updated),
            weights.publish.eq(lanes.publish),
            weights.write_bank.eq(lanes.bank),
            weights.master_address.eq(Mux(self.storing, self.store_chunk, lanes.read_address)),
            weights.published_address.eq(chunk),
            weights.read_bank.eq(bank),
            self.stored.eq(weights.master),
        ]
        if not self._config.random_rounding:
            m.d.comb += [
                self.published.eq(lanes.published),
                self.epoch_done.eq(lanes.epoch_done),
                self.load_done.eq(lanes.load_done),
            ]

    def _round_scaled_gradients(self, m, rounding, gradient):
        """Between the scalar stages and the gradient; returns which scaled_gradients are clipped."""
        ahead = start_latency(self._config) - SCALED_GRADIENT_LATENCY - rounding.AHEAD
        valid = self.digits.valid & self.digits.payload.row_last
        m.d.comb += [
            rounding.begin.eq(self.begin),
            rounding.cut.eq(self.scaled_gradient_cut),
            rounding.seed.eq(self.seed),
            rounding.due.eq(delay_valid(m, valid, ahead, "due")[-1]),
            rounding.end.eq(GroupEnd(delay(m, self.digits.payload.end.as_value(), ahead, "due_end"))),
            *(mine.eq(rounded) for mine, rounded in zip(gradient.scaled_gradients, rounding.rounded, strict=True)),
            self.seed_now.eq(rounding.seed_now),
        ]
        return list(rounding.clipped)

    def _round_model(self, m, rounding, lanes, weights):
        """Between the update lanes and the published weights."""
        m.d.comb += [
            rounding.begin.eq(self.begin),
            rounding.cut.eq(self.model_cut),
            rounding.seed.eq(self.seed),
            rounding.publish.eq(lanes.publish),
            rounding.address.eq(lanes.write_address),
            rounding.bank.eq(lanes.bank),
            rounding.masters.eq(lanes.updated),
            *(getattr(weights, name).eq(getattr(rounding, name)) for name in ROUNDED),
            *(getattr(rounding, name).eq(getattr(lanes, name)) for name in ("published", "epoch_done", "load_done")),
            self.published.eq(rounding.rounded_published),
            self.epoch_done.eq(rounding.rounded_epoch_done),
            self.load_done.eq(rounding.rounded_load_done),
        ]
