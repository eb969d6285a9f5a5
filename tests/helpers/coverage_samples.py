"""A small Verilog text as Amaranth and Yosys write it, with lines of Python; and points of a build."""

from __future__ import annotations

from bitlane_verify.coverage.code_coverage import CodePoint

VERILOG = r"""
(* src = "/somewhere/hw/bitlane_hw/gate.py:10" *)
(* generator = "Amaranth" *)
module \top.gate (a, clk);
  reg \$auto$verilog_backend.cc:1:dump_module$1  = 0;
  (* src = "/somewhere/hw/bitlane_hw/gate.py:12" *)
  reg [3:0] left = 4'h0;
  assign \$2  = a & (* src = "/somewhere/hw/bitlane_hw/gate.py:20" *) b;
  (* src = "/somewhere/hw/bitlane_hw/gate.py:13" *)
  wire chosen;
  assign chosen = a ? (* src = "/somewhere/hw/bitlane_hw/gate.py:21" *) b : c;
  (* src = "/somewhere/hw/bitlane_hw/gate.py:12" *)
  always @(posedge clk)
    left <= \$1 ;
  always @* begin
    if (\$auto$verilog_backend.cc:1:dump_module$1 ) begin end
    \$1  = left;
    if (\$2 ) begin
      \$1  = chosen;
    end
  end
endmodule
"""
BRANCH, MUX, YOSYS = "if (\\$2", " ? ", "begin end"  # in the lines of two points, and of a statement of Yosys


def line_of(text: str) -> int:
    """Return the number, from 1, of the first line with this text."""
    return next(number for number, line in enumerate(VERILOG.splitlines(), 1) if text in line)


def points(hit: int, missed: int, build: str = "small") -> list[CodePoint]:
    """Return so many points of each kind of a build."""
    return [
        CodePoint(build, kind, "a.py", f"a.py: x_{i} (a.py:1), if", int(i < hit))
        for kind in ("line", "branch", "toggle")
        for i in range(hit + missed)
    ]
