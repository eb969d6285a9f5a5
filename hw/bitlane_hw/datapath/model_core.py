"""The datapath of one output: its weights, the lanes that read and update them, and its scalar stages."""

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
from bitlane_hw.common.payloads import GroupEnd, ObjectiveSettings, Scale, digit_flags, digit_layout, settings_layout

from .codebook import codebook_port
from .dot import DotLanes
from .gradient import GradientPass
from .rounding import RANDOM_SETTINGS, ModelRounding, ScaledGradientRounding
from .scalar import LossSum, Predict, Slope, StepProduct
from .table_dot import TableDot
from .table_pass import TablePass
from .update import THRESHOLD_BITS, UpdateLanes
from .weights import ROUNDED, Weights


def _dot_type(config: AcceleratorConfig) -> type[DotLanes | TableDot]:
    """Return the block that computes the dot products in this build."""
    return TableDot if config.table_lanes else DotLanes


def forward_latency(config: AcceleratorConfig) -> int:
    """Return the cycles from the last beat of a group to its scaled gradients."""
    return (
        _dot_type(config).latency
        + Predict.latency
        + Slope.latency
        + StepProduct.latency
        + SCALED_GRADIENT_LATENCY * config.random_rounding
    )


class ModelCore(wiring.Component):
    """Train one model: dot lanes and a scalar stage for each row of a beat, one gradient pass, and one set of weights.

    The terms of all rows_per_beat rows are added into the same weights. All paths have a fixed latency and there is no
    backpressure. A batch that reads the new model may start `update_latency` cycles after the last beat of the batch
    before (with one digit a feature; one cycle later for each further digit).

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    output : int
        Index of the output.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    objective : ObjectiveSettings, in
        Loss, proximal operator and bounds of the run.
    step : Scale, in
        Step of rows with labels of 0 and more.
    step_negative : Scale, in
        Step of rows with negative labels.
    threshold : unsigned, in
        Threshold of L1, in units of MASTER.
    shrink : 1 bit, in
        L2 shrinks the weights with this batch. Valid in the cycle of `batch_end`.
    batch_end : 1 bit, out
        The scaled gradients of the last group of a batch are valid.
    digits : stream of digit_layout, in, always ready
        Digit beats.
    beats : stream of beats, in
        The same beats again, from the row buffer. They must be valid when the gradient pass needs them.
    clear_loss : 1 bit, in
        Clear the loss before an epoch.
    loss : LOSS.bits bits, out
        Loss of the epoch, of format LOSS.
    load : 1 bit, in
        Load a chunk of the initial model.
    load_chunk : unsigned, in
        That chunk.
    loaded : 32 values of format MASTER, in
        Its weights.
    dot_codebooks : array of rows_per_beat codebook_port, out
        Ports of the dot products. Only with table lanes.
    gradient_codebooks : array of rows_per_beat codebook_port, out
        Ports of the gradient pass. Only with table lanes.
    begin : 1 bit, in
        Take the seed of the run. Only with random rounding, like the next four members.
    model_cut : 0 to 31, in
        Low bits of a master weight that random rounding removes: see `ModelRounding`.
    scaled_gradient_cut : 0 to 31, in
        Low bits of a scaled gradient that random rounding removes: see `ScaledGradientRounding`.
    seed : 32 bits, in
        Seed of the run.
    seed_now : 32 bits, out
        Seed after the batches so far.
    store_chunk : unsigned, in
        Chunk to read.
    storing : 1 bit, in
        Read `store_chunk`. Only while no sample is in the pipeline.
    stored : 32 values of format MASTER, out
        Weights of `store_chunk`, one cycle later.
    published : 1 bit, out
        See `UpdateLanes`.
    epoch_done : 1 bit, out
        See `UpdateLanes`.
    load_done : 1 bit, out
        See `UpdateLanes`.
    clipped : unsigned, out
        Number of values clipped in a cycle.
    """

    def __init__(self, config: AcceleratorConfig, output: int):
        self._config = config
        self._output = output
        self._row_clips = (6 + 2 * config.table_lanes + 2 * config.random_rounding) * config.rows_per_beat
        self.clips = CHUNK + self._row_clips
        options = {}
        if config.table_lanes:
            port = codebook_port(config)
            options |= {name: Out(port).array(config.rows_per_beat) for name in ("dot_codebooks", "gradient_codebooks")}
        if config.random_rounding:
            options |= {name: In(shape) for name, shape in {"begin": 1, **RANDOM_SETTINGS}.items()}
            options |= {"seed_now": Out(SEED_BITS)}
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "objective": In(ObjectiveSettings),
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
        for row in range(config.rows_per_beat):
            clips += self._connect_row(m, row, weights, loss_sum, scaled_gradients[row])

        latency = forward_latency(config)
        start = delay_valid(m, self.digits.valid & digits.row_last, latency, "start")[-1]
        end = GroupEnd(delay(m, digits.end.as_value(), latency, "end"))
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
        self._connect_update(m, lanes, weights)
        if config.table_lanes:
            clips += list(gradient.clipped)
            for port, inner in zip(self.gradient_codebooks, gradient.codebooks, strict=True):
                connect(m, inner, wiring.flipped(port))
        row_clips = Signal(range(self._row_clips + 1))
        m.d.sync += [row_clips.eq(popcount(Cat(clips))), self.clipped.eq(row_clips + lanes.clipped)]
        return m

    def _connect_row(self, m, row, weights, loss_sum, scaled_gradients):
        """Connect the dot lanes and the scalar stage of a row; return flags of the values that they clip."""
        config, digits = self._config, self.digits.payload
        m.submodules[f"dot_{row}"] = dot = _dot_type(config)(config)
        m.submodules[f"predict_{row}"] = predict = Predict(config)
        m.submodules[f"slope_{row}"] = slope = Slope()
        m.submodules[f"step_{row}"] = step = StepProduct()
        connect(m, dot.dots, predict.dots)
        connect(m, predict.predictions, slope.predictions)
        m.d.comb += [
            dot.digits.valid.eq(self.digits.valid),
            dot.digits.payload.word.eq(digits.words.word_select(row, WORD_BITS)),
            *(dot.digits.payload[name].eq(digits[name]) for name in ("draw", *digit_flags(config))),
            dot.digits.payload.end.eq(digits.rows[self._output][row]),
            dot.weights.eq(weights.published),
            predict.base_digits.eq(LEVEL.fraction // DIGIT_BITS if config.table_lanes else self.settings.base_digits),
            predict.weight_exponent.eq(self.settings.weight_exponent),
            slope.loss.eq(self.objective.loss),
            step.step.eq(self.step),
            step.step_negative.eq(self.step_negative),
            step.slopes.valid.eq(slope.slopes.valid),
            step.slopes.payload.eq(slope.slopes.payload),
            loss_sum.slopes.valid.eq(slope.slopes.valid),
            loss_sum.slopes.payload[row].eq(slope.slopes.payload),
            scaled_gradients.eq(step.scaled_gradients.payload),
        ]
        if config.table_lanes:
            connect(m, dot.codebook, wiring.flipped(self.dot_codebooks[row]))
            m.d.comb += [dot.settings.eq(self.settings), dot.digits.payload.chunk.eq(digits.chunk)]
        squares = self.objective.loss == Loss.SQUARES
        predictions, slopes = predict.predictions, slope.slopes
        return [
            *(clip & predictions.valid & predictions.payload.end.present & squares for clip in predict.clipped),
            *(clip & slopes.valid & slopes.payload.end.present for clip in slope.clipped),
            *step.clipped,
        ]

    def _connect_update(self, m, lanes, weights):
        """Connect the update lanes to the weights, and the weights to their other readers."""
        chunk, bank = self.digits.payload.chunk, self.digits.payload.bank
        if self._config.table_lanes:  # levels arrive one cycle later than digits
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
        """Insert the rounding between scalar stages and gradient pass; return flags of the clipped values."""
        delay_cycles = forward_latency(self._config) - SCALED_GRADIENT_LATENCY - rounding.LEAD_CYCLES
        valid = self.digits.valid & self.digits.payload.row_last
        m.d.comb += [
            rounding.begin.eq(self.begin),
            rounding.cut.eq(self.scaled_gradient_cut),
            rounding.seed.eq(self.seed),
            rounding.due.eq(delay_valid(m, valid, delay_cycles, "due")[-1]),
            rounding.end.eq(GroupEnd(delay(m, self.digits.payload.end.as_value(), delay_cycles, "due_end"))),
            *(port.eq(rounded) for port, rounded in zip(gradient.scaled_gradients, rounding.rounded, strict=True)),
            self.seed_now.eq(rounding.seed_now),
        ]
        return list(rounding.clipped)

    def _round_model(self, m, rounding, lanes, weights):
        """Insert the rounding between the update lanes and the published weights."""
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
