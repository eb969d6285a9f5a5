"""The datapath of one output: its weights, the lanes that read and update them, and its scalar stages."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, LOSS, MASTER
from bitlane.contract.latencies import SCALED_GRADIENT_LATENCY, crossing_latency, dot_sum_latency
from bitlane.contract.layout import DIGIT_BITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.fixed_point import popcount
from bitlane_hw.common.payloads import ObjectiveSettings, Scale, digit_layout, settings_layout
from bitlane_hw.common.staged import Staged, mux, steady

from .codebook import codebook_port
from .dot_sum import DotSum
from .model_shard import ModelShard, dot_type
from .rounding import RANDOM_SETTINGS, ScaledGradientRounding
from .scalar import LossSum, Predict, Slope, StepProduct
from .update import THRESHOLD_BITS


def forward_latency(config: AcceleratorConfig) -> int:
    """Return the cycles from the last beat of a group to its scaled gradients."""
    return _step_stage(config) + SCALED_GRADIENT_LATENCY * config.random_rounding


def _step_stage(config: AcceleratorConfig) -> int:
    """Return the stage of the scaled gradients before they are rounded; the last beat of a group is in stage 0."""
    scalars = (Predict, Slope, StepProduct)
    return dot_type(config).latency + dot_sum_latency(config.shards) + sum(block.latency for block in scalars)


class ModelCore(wiring.Component):
    """Train one model: a scalar stage for each row of a beat, and in each shard dot lanes for each row of a beat, one
    gradient pass, and the weights of its features.

    The terms of all rows_per_beat rows are added into the same weights. All paths have a fixed latency and there is no
    backpressure. A batch that reads the new model may start `update_latency` cycles after the last beat of the batch
    before (with one digit a feature; one cycle later for each further digit).

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    output : int
        Index of the output.

    Attributes
    ----------
    output : int
        As the parameter.

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
    loaded : 32 values of format MASTER for each shard, in
        Its weights.
    dot_codebooks : array of words_per_beat codebook_port, out
        Ports of the dot products. Only with table lanes.
    gradient_codebooks : array of words_per_beat codebook_port, out
        Ports of the gradient passes. Only with table lanes.
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
    stored : 32 values of format MASTER for each shard, out
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
        self.output = output
        self._pass_stage = forward_latency(config) + crossing_latency(config.shards)
        self._row_clips = (6 + 2 * config.table_lanes + 2 * config.random_rounding) * config.rows_per_beat
        self.clips = config.chunk_features + self._row_clips
        options = {}
        if config.table_lanes:
            port = codebook_port(config)
            options |= {
                name: Out(port).array(config.words_per_beat) for name in ("dot_codebooks", "gradient_codebooks")
            }
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
                "loaded": In(MASTER.bits * config.chunk_features),
                **options,
                "store_chunk": In(range(config.max_chunks)),
                "storing": In(1),
                "stored": Out(MASTER.bits * config.chunk_features),
                "published": Out(1),
                "epoch_done": Out(1),
                "load_done": Out(1),
                "clipped": Out(range(self.clips + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, digits = self._config, self.digits.payload
        shards = [ModelShard(config, index) for index in range(config.shards)]
        for shard in shards:
            shard.add(m, "weights")
        m.submodules.loss_sum = loss_sum = LossSum(config.rows_per_beat)
        for shard in shards:
            shard.add(m, "gradient", "lanes")
        clips, rounding = [], None
        if config.random_rounding:
            m.submodules.rounding = rounding = ScaledGradientRounding(config)
            clips += self._round_scaled_gradients(m, rounding, shards)
        for row in range(config.rows_per_beat):
            clips += self._connect_row(m, row, shards, loss_sum, rounding)

        scaled, passed, prox = forward_latency(config), self._pass_stage, steady(self.objective.prox)
        *_, start = Staged(self.digits.valid & digits.row_last, 0).valid_until(m, scaled, "start")
        end = Staged(digits.end, 0).until(m, scaled, "end")
        due = end["batch_last"] & ((prox != Prox.L2) | Staged(self.shrink, scaled))
        prox = mux(due, prox, Prox.NONE).until(m, passed, "prox_crossing")
        *_, starts = start.valid_until(m, passed, "start_crossing")
        ends = end.until(m, passed, "end_crossing")
        for shard in shards:
            shard.connect_beats(m, self)
        m.d.comb += self.batch_end.eq((start & end["batch_last"]).at(scaled))
        for shard in shards:
            shard.connect_gradient(m, self, starts.at(passed), ends.at(passed), prox.at(passed))
        m.d.comb += [
            loss_sum.squares.eq(self.objective.loss == Loss.SQUARES),
            loss_sum.clear.eq(self.clear_loss),
            self.loss.eq(loss_sum.loss),
        ]
        for shard in shards:
            shard.connect_update(m, self)
        if config.table_lanes:
            clips += list(shards[0].gradient.clipped)  # all shards clip the same values
            for shard in shards:
                shard.connect_gradient_codebooks(m, self)
        row_clips = Signal(range(self._row_clips + 1))
        weight_clips = (shard.lanes.clipped for shard in shards)
        m.d.sync += [row_clips.eq(popcount(Cat(clips))), self.clipped.eq(sum(weight_clips, row_clips))]
        return m

    def _connect_row(self, m, row, shards, loss_sum, rounding):
        """Connect the dot lanes and the scalar stage of a row; return flags of the values that they clip."""
        config = self._config
        dots = self._add_dots(m, row, shards)
        m.submodules[f"predict_{row}"] = predict = Predict(config)
        m.submodules[f"slope_{row}"] = slope = Slope()
        m.submodules[f"step_{row}"] = step = StepProduct()
        connect(m, dots, predict.dots)
        connect(m, predict.predictions, slope.predictions)
        for shard in shards:
            shard.connect_dots(m, self, row)
        m.d.comb += [
            predict.base_digits.eq(LEVEL.fraction // DIGIT_BITS if config.table_lanes else self.settings.base_digits),
            predict.weight_exponent.eq(self.settings.weight_exponent),
            slope.loss.eq(self.objective.loss),
            step.step.eq(self.step),
            step.step_negative.eq(self.step_negative),
            step.slopes.valid.eq(slope.slopes.valid),
            step.slopes.payload.eq(slope.slopes.payload),
            loss_sum.slopes.valid.eq(slope.slopes.valid),
            loss_sum.slopes.payload[row].eq(slope.slopes.payload),
        ]
        scaled_gradients = step.scaled_gradients.payload
        if rounding is None:
            m.d.comb += self._to_shards(m, row, Staged(scaled_gradients, _step_stage(config)), shards)
        else:
            m.d.comb += rounding.scaled_gradients[row].eq(scaled_gradients)
        if config.table_lanes:
            for shard in shards:
                shard.connect_dot_codebook(m, self, row)
        squares = self.objective.loss == Loss.SQUARES
        predictions, slopes = predict.predictions, slope.slopes
        return [
            *(clip & predictions.valid & predictions.payload.end.present & squares for clip in predict.clipped),
            *(clip & slopes.valid & slopes.payload.end.present for clip in slope.clipped),
            *step.clipped,
        ]

    def _add_dots(self, m, row, shards):
        """Add the dot lanes of a row in all shards; return their dot products, summed over the shards."""
        parts = [shard.add_dots(m, row) for shard in shards]
        if len(parts) == 1:
            return parts[0]
        m.submodules[f"dot_sum_{row}"] = dot_sum = DotSum(self._config)
        for part, port in zip(parts, dot_sum.parts, strict=True):
            connect(m, part, port)
        return dot_sum.dots

    def _to_shards(self, m, row, scaled_gradients, shards):
        """Return statements that pass the scaled gradients of a row to all shards."""
        crossed = scaled_gradients.until(m, self._pass_stage, f"scaled_gradients_{row}_crossing")
        return [shard.gradient.scaled_gradients[row].eq(crossed.at(self._pass_stage)) for shard in shards]

    def _round_scaled_gradients(self, m, rounding, shards):
        """Insert the rounding between scalar stages and gradient passes; return flags of the clipped values."""
        stage = _step_stage(self._config) - rounding.LEAD_CYCLES
        *_, due = Staged(self.digits.valid & self.digits.payload.row_last, 0).valid_until(m, stage, "due")
        rounded_stage = forward_latency(self._config)
        m.d.comb += [
            rounding.begin.eq(self.begin),
            rounding.cut.eq(self.scaled_gradient_cut),
            rounding.seed.eq(self.seed),
            rounding.due.eq(due.at(stage)),
            rounding.end.eq(Staged(self.digits.payload.end, 0).until(m, stage, "due_end").at(stage)),
            *(
                statement
                for row, rounded in enumerate(rounding.rounded)
                for statement in self._to_shards(m, row, Staged(rounded, rounded_stage), shards)
            ),
            self.seed_now.eq(rounding.seed_now),
        ]
        return list(rounding.clipped)
