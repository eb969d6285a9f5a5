"""Signatures of the connections between blocks."""

from __future__ import annotations

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER
from bitlane.contract.layout import CHUNK

from .payloads import store_layout


class RunControl(wiring.Signature):
    """What the control tells the engine, and the end of an epoch, from the side of the control.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    load : 1 bit, out
        High until the sizes are valid: the reader takes its regions and the schedule its initial values.
    enable : 1 bit, out
        The engine may read and consume beats.
    epoch_done : 1 bit, in
        The weights of the epoch are complete.
    epoch_go : 1 bit, out
        The results of the epoch are stored; the next epoch may start.
    storing : 1 bit, out
        The beats to store are those of a model.
    store_chunk : unsigned, out
        Chunk to store. Constant until the request for the next one.
    store_output : unsigned, out
        Output whose model is stored. Constant until the request for the next chunk.
    store_begin : 1 bit, out
        High with each request: the next beat is the first one.
    store_trace : 1 bit, out
        The beats to store are those of the record.
    stamp : 64 bits, out
        Clock cycles at the end of the last epoch.
    requests : stream of store_layout, out
        Requests to the writers: of a model to all of them, of a record to the first. All are ready with each request.
    """

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "load": Out(1),
                "enable": Out(1),
                "epoch_done": In(1),
                "epoch_go": Out(1),
                "storing": Out(1),
                "store_chunk": Out(range(config.max_chunks)),
                "store_output": Out(range(config.outputs)),
                "store_begin": Out(1),
                "store_trace": Out(1),
                "stamp": Out(64),
                "requests": Out(stream.Signature(store_layout(config))),
            }
        )


class Bursts(wiring.Signature):
    """What a block reports of its bursts in one direction, over all its memory ports.

    Members
    -------
    response : 2 bits, out
        Last response that was not OKAY; OKAY if there was none.
    idle : 1 bit, out
        No burst is outstanding.
    """

    def __init__(self) -> None:
        super().__init__({"response": Out(2), "idle": Out(1)})


class PublishedChunk(wiring.Signature):
    """A chunk of a shard for the published copy of the model, from the side of its source.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    publish : 1 bit, out
        Write the chunk.
    address : unsigned, out
        Its index.
    bank : 1 bit, out
        Bank to write.
    masters : 32 values of format MASTER, out
        Its weights.
    """

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "publish": Out(1),
                "address": Out(range(config.max_chunks)),
                "bank": Out(1),
                "masters": Out(MASTER.bits * CHUNK),
            }
        )


class UpdateEvents(wiring.Signature):
    """What the update lanes report, from their side: see `UpdateLanes`.

    Members
    -------
    published, epoch_done, load_done : 1 bit, out
    """

    def __init__(self) -> None:
        super().__init__({"published": Out(1), "epoch_done": Out(1), "load_done": Out(1)})
