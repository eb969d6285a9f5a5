"""What is written for a card, read back as the linker and the driver read it. No linker has seen it."""

from __future__ import annotations

import json
from configparser import ConfigParser
from xml.etree import ElementTree as xml

import pytest
from tests.helpers.shells import shell

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import DataError
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export import __main__ as command
from bitlane_hw.export.cards import CARDS
from bitlane_hw.export.core import Core

HBM_CHANNELS = 32  # of both cards


def exported(monkeypatch: pytest.MonkeyPatch, ports: int, card: str) -> tuple[Core, dict[str, str]]:
    monkeypatch.setattr(Core, "component", lambda core: shell(Accelerator)(core.config))
    width, shards = (1024, 2) if ports > 8 else (512, 1)
    config = AcceleratorConfig(width, address_bits=64, shards=shards, ports=ports)
    core = Core(config, "sgd", kernel=True, card=card)
    return core, command.files(core)


def sections(text: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The general options, and all values of each key of [connectivity], as `v++` reads them."""
    general, _, connectivity = text.partition("[connectivity]\n")
    parser = ConfigParser()
    parser.read_string("[general]\n" + general)
    values: dict[str, list[str]] = {}
    for line in connectivity.splitlines():
        key, _, value = line.partition("=")
        values.setdefault(key, []).append(value)
    return dict(parser["general"]), values


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("ports", [1, 2, 4, 8, 16])
def test_every_memory_port_of_the_kernel_has_channels_of_its_own(
    monkeypatch: pytest.MonkeyPatch, ports: int, card: str
) -> None:
    _, files = exported(monkeypatch, ports, card)
    general, connectivity = sections(files["link.cfg"])
    assert f"_{card}_" in general["platform"] and general["kernel_frequency"] == "300"
    kernel = xml.fromstring(files["kernel.xml"]).find("kernel")
    assert kernel is not None
    (number,) = connectivity["nk"]
    name, count, instance = number.split(":")
    assert (name, count) == (kernel.attrib["name"], "1") and connectivity["slr"] == [f"{instance}:SLR0"]
    masters = [each.attrib["name"] for each in kernel.iter("port") if each.attrib["mode"] == "master"]
    taken: list[int] = []
    for master, value in zip(masters, connectivity["sp"], strict=True):
        port, _, channels = value.partition(":HBM[")
        assert port == f"{instance}.{master}"
        first, last = map(int, channels.removesuffix("]").split(":"))
        taken += range(first, last + 1)
    assert len(taken) == len({*taken}) and {*taken} <= {*range(HBM_CHANNELS)} and len(masters) == ports


def test_the_facts_are_those_of_the_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    core, files = exported(monkeypatch, 4, "u50")
    facts = json.loads(files["sgd_kernel.json"])
    assert facts["kernel"] == "sgd_kernel" and facts["build"] == core.build and facts["card"] == "u50"
    assert (facts["port_bits"], facts["ports"], facts["outputs"], facts["clock_mhz"]) == (512, 4, 1, 300)


@pytest.mark.parametrize(
    ("card", "kernel", "message"),
    [
        ("u51", True, r"card='u51' is unknown: choose one of u50, u280"),
        ("u50", False, r"card='u50' needs a kernel: add --kernel"),
    ],
)
def test_a_card_that_cannot_be_is_refused(card: str, kernel: bool, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Core(AcceleratorConfig(address_bits=64), kernel=kernel, card=card)
