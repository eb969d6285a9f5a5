"""The register map in SystemRDL 2.0, for generators of headers, models and pages (PeakRDL)."""

from __future__ import annotations

from .core import WORDS, Core, Word

KEYWORDS = ("encode",)  # of SystemRDL, among the names of registers and fields


def system_rdl(core: Core) -> str:
    """Return the register map of a core. Registers that it lacks read as 0, like unknown addresses."""
    return "\n".join(
        [
            "// Made by bitlane_hw.export; do not edit.",
            f"addrmap {core.top} {{",
            f'    name = "bitlane accelerator, build {core.build:#010x}";',
            "    addressing = compact;",
            "    default regwidth = 32;",
            *(f"    {line}" for word in WORDS for line in _register(word)),
            "};",
            "",
        ]
    )


def _register(word: Word) -> list[str]:
    """Return the lines of a word. Software reads control as 0, so it is write-only."""
    register = word.register
    access = {"sw": "w" if register.name == "control" else "rw", "hw": "r"} if register.writable else {"sw": "r"}
    properties = {**access, **({"reset": "0"} if register.writable else {"hw": "w"})}
    fields = [(each.name, each.low, each.bits, each.meaning) for each in register.fields]
    lines = [
        f"    field {{ {_description(meaning)}}} {_name(name)}[{low + bits - 1}:{low}];"
        for name, low, bits, meaning in fields or [("value", 0, word.bits, "")]
    ]
    defaults = " ".join(f"default {name} = {value};" for name, value in properties.items())
    return [
        "reg {",
        f"    {_description(register.meaning).rstrip()}",
        f"    {defaults}",
        *lines,
        f"}} {_name(word.name)} @ {word.offset:#05x};",
    ]


def _description(meaning: str) -> str:
    escaped = meaning.replace("\\", "\\\\").replace('"', '\\"')
    return f'desc = "{escaped}"; ' if meaning else ""


def _name(name: str) -> str:
    return f"\\{name} " if name in KEYWORDS else name
