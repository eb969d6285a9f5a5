"""The processing system of a Zynq-7000: the PS7 primitive with the connections that the accelerator uses."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out, Signature

from .axi3 import AXI3, GP_DATA_BITS, HP_DATA_BITS, HP_ID_BITS, gp_signature, hp_signature

HP_CAPS = {"RDISSUECAP1EN": 1, "WRISSUECAP1EN": 1}  # 0: the AFI registers limit the bursts issued to the memory
GP_MASTER, HP_SLAVE = "MAXIGP", "SAXIHP"  # names of ports without their number


def _port_inputs(signature: Signature, flow) -> dict[str, int]:
    """Return the bits of the inputs of a port, by their names in the primitive; the clock is one of them."""
    members = {name.upper(): member.shape for name, member in signature.members.items() if member.flow == flow}
    return {"ACLK": 1, **members}


def _ones(names: str) -> dict[str, int]:
    """Return inputs of one bit."""
    return dict.fromkeys(names.split(), 1)


# Prefix; number of ports with this prefix (0: one, without a number); bits of the inputs of each.
FAMILIES = (
    (GP_MASTER, 2, _port_inputs(gp_signature(), In)),
    ("SAXIGP", 2, _port_inputs(AXI3(32, GP_DATA_BITS, HP_ID_BITS), Out)),
    (HP_SLAVE, 4, _port_inputs(hp_signature(), Out) | HP_CAPS),
    ("SAXIACP", 0, _port_inputs(AXI3(32, HP_DATA_BITS, 3), Out) | {"ARUSER": 5, "AWUSER": 5}),
    ("DMA", 4, _ones("ACLK DAREADY DRLAST DRVALID") | {"DRTYPE": 2}),
    ("EMIOCAN", 2, _ones("PHYRX")),
    (
        "EMIOENET",
        2,
        _ones("EXTINTIN GMIICOL GMIICRS GMIIRXCLK GMIIRXDV GMIIRXER GMIITXCLK MDIOI") | {"GMIIRXD": 8},
    ),
    ("EMIOI2C", 2, _ones("SCLI SDAI")),
    ("EMIOSDIO", 2, _ones("CDN CLKFB CMDI WP") | {"DATAI": 4}),
    ("EMIOSPI", 2, _ones("MI SCLKI SI SSIN")),
    ("EMIOTTC", 2, {"CLKI": 3}),
    ("EMIOUART", 2, _ones("CTSN DCDN DSRN RIN RX")),
    ("EMIOUSB", 2, _ones("VBUSPWRFAULT")),
    ("EMIO", 0, _ones("PJTAGTCK PJTAGTDI PJTAGTMS SRAMINTIN TRACECLK WDTCLKI") | {"GPIOI": 64}),
    ("FTM", 0, _ones("DTRACEINCLOCK DTRACEINVALID") | {"DTRACEINATID": 4, "DTRACEINDATA": 32}),
    ("FTM", 0, {"TF2PDEBUG": 32, "TF2PTRIG": 4, "TP2FTRIGACK": 4}),
    ("", 0, {"DDRARB": 4, "EVENTEVENTI": 1, "FCLKCLKTRIGN": 4, "FPGAIDLEN": 1, "IRQF2P": 20}),
)


def input_bits() -> dict[str, int]:
    """Return the bits of every input of the primitive, by name."""
    return {
        f"{prefix}{number}{name}": bits
        for prefix, count, inputs in FAMILIES
        for number in (range(count) if count else ("",))
        for name, bits in inputs.items()
    }


class ProcessingSystem(wiring.Component):
    """The PS7 primitive with M_AXI_GP0, some of S_AXI_HP0 to 3, and an interrupt.

    The block drives the clock domain `sync` of its owner: the clock is FCLK_CLK0 through a global buffer, which also
    clocks the ports, and the reset is FCLK_RESET0_N, released with the clock. Unused inputs are tied to 0: an open
    input reads as 1 on the chip. The pins of the processing system (DDR, MIO) need no connection. Software sets the
    clock, the widths of the ports and the interrupts.

    Parameters
    ----------
    hp : tuple of int, default=(0,)
        Numbers of the HP ports to connect.

    Members
    -------
    gp0 : AXI3, out
        M_AXI_GP0; the processing system is the master.
    hp0 to hp3 : AXI3, in
        The connected ports of S_AXI_HP0 to 3; the processing system is the slave.
    irq : 1 bit, in
        Shared interrupt 61 (IRQF2P[0]).
    """

    def __init__(self, hp: tuple[int, ...] = (0,)):
        self._hp = hp
        super().__init__({"gp0": Out(gp_signature()), **{f"hp{i}": In(hp_signature()) for i in hp}, "irq": In(1)})

    def elaborate(self, platform):
        m = Module()
        clocks, resets_n = Signal(4), Signal(4)
        m.submodules.clock = Instance("BUFG", i_I=clocks[0], o_O=ClockSignal())
        m.submodules.reset = ResetSynchronizer(~resets_n[0])
        ports = {f"{GP_MASTER}0": self.gp0, **{f"{HP_SLAVE}{i}": getattr(self, f"hp{i}") for i in self._hp}}
        inputs = {name: Const(0, bits) for name, bits in input_bits().items()}
        outputs = {"FCLKCLK": clocks, "FCLKRESETN": resets_n}
        inputs["IRQF2P"] = Cat(self.irq, inputs["IRQF2P"][1:])
        for prefix, port in ports.items():
            inputs[f"{prefix}ACLK"] = ClockSignal()
            for name in port.signature.members:
                pin = f"{prefix}{name.upper()}"
                (inputs if pin in inputs else outputs)[pin] = getattr(port, name)
        m.submodules.ps7 = Instance(
            "PS7",
            ("a", "keep", 1),
            *(("i", name, value) for name, value in inputs.items()),
            *(("o", name, value) for name, value in outputs.items()),
        )
        return m
