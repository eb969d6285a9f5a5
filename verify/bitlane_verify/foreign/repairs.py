"""Repairs of wb2axip's public `faxi_master.v`, which lacks parts and which Yosys does not read as it is.

Its author publishes the file with some of its lines replaced by `// ...`. What is left uses signals that are declared
in the missing lines, and ends with `endif` without `ifdef`. From "Write address checking" on, the checked registers get
their values in missing lines, so that part is cut off. The comma after the last port does not disturb Yosys.
"""

from __future__ import annotations

from bitlane.errors import DataError

PLACE = "\tinteger\tk;\n"
# The signals that are used before the cut and declared nowhere; F_OPT_INITIAL: valids are low before the first reset.
DECLARATIONS = """\
\tlocalparam F_OPT_INITIAL = 1;
\treg f_past_valid;
\treg [3:0] f_reset_length;
\treg [F_LGDEPTH-1:0] next_rd_nbursts, next_rd_outstanding;
"""
CUT = "\t//\n\t// Write address checking\n"


def repaired(text: str) -> str:
    """Return `faxi_master.v` so that Yosys reads it, with the properties before "Write address checking" unchanged.

    Raises
    ------
    DataError
        A place to repair is not found exactly once: this is another version of the file.
    """
    for place in (PLACE, CUT):
        if (found := text.count(place)) != 1:
            raise DataError(f"faxi_master.v has {place!r} {found} times, expected 1: write repairs for this version")
    text = text.replace(PLACE, PLACE + DECLARATIONS)
    return f"{text[: text.index(CUT)]}endmodule\n"
