// LUTs of 7-series SLICEMs as shift registers and memories (UG474): written at the clock's edge, read without one.

module SRL16E #(parameter [15:0] INIT = 0, parameter IS_CLK_INVERTED = 0) (
  output Q, input A0, A1, A2, A3, CE, CLK, D
);
  initial if (IS_CLK_INVERTED) $fatal(1, "SRL16E: an inverted clock is not modelled");
  reg [15:0] bits = INIT;
  assign Q = bits[{A3, A2, A1, A0}];
  always @(posedge CLK) if (CE) bits <= {bits[14:0], D};
endmodule

module SRLC32E #(parameter [31:0] INIT = 0, parameter IS_CLK_INVERTED = 0) (
  output Q, output Q31, input [4:0] A, input CE, CLK, D
);
  initial if (IS_CLK_INVERTED) $fatal(1, "SRLC32E: an inverted clock is not modelled");
  reg [31:0] bits = INIT;
  assign Q = bits[A];
  assign Q31 = bits[31];
  always @(posedge CLK) if (CE) bits <= {bits[30:0], D};
endmodule

module RAM32X1D #(parameter [31:0] INIT = 0, parameter IS_WCLK_INVERTED = 0) (
  output DPO, SPO, input A0, A1, A2, A3, A4, D, DPRA0, DPRA1, DPRA2, DPRA3, DPRA4, WCLK, WE
);
  initial if (IS_WCLK_INVERTED) $fatal(1, "RAM32X1D: an inverted clock is not modelled");
  reg [31:0] bits = INIT;
  wire [4:0] address = {A4, A3, A2, A1, A0};
  assign SPO = bits[address];
  assign DPO = bits[{DPRA4, DPRA3, DPRA2, DPRA1, DPRA0}];
  always @(posedge WCLK) if (WE) bits[address] <= D;
endmodule

module RAM64X1D #(parameter [63:0] INIT = 0, parameter IS_WCLK_INVERTED = 0) (
  output DPO, SPO, input A0, A1, A2, A3, A4, A5, D, DPRA0, DPRA1, DPRA2, DPRA3, DPRA4, DPRA5, WCLK, WE
);
  initial if (IS_WCLK_INVERTED) $fatal(1, "RAM64X1D: an inverted clock is not modelled");
  reg [63:0] bits = INIT;
  wire [5:0] address = {A5, A4, A3, A2, A1, A0};
  assign SPO = bits[address];
  assign DPO = bits[{DPRA5, DPRA4, DPRA3, DPRA2, DPRA1, DPRA0}];
  always @(posedge WCLK) if (WE) bits[address] <= D;
endmodule

// Four memories that are written together at ADDRD, each read at an address of its own.
module RAM32M #(
  parameter [63:0] INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0, parameter IS_WCLK_INVERTED = 0
) (
  output [1:0] DOA, DOB, DOC, DOD,
  input [4:0] ADDRA, ADDRB, ADDRC, ADDRD, input [1:0] DIA, DIB, DIC, DID, input WCLK, WE
);
  initial if (IS_WCLK_INVERTED) $fatal(1, "RAM32M: an inverted clock is not modelled");
  reg [63:0] a = INIT_A, b = INIT_B, c = INIT_C, d = INIT_D;
  assign DOA = a[{ADDRA, 1'b0} +: 2];
  assign DOB = b[{ADDRB, 1'b0} +: 2];
  assign DOC = c[{ADDRC, 1'b0} +: 2];
  assign DOD = d[{ADDRD, 1'b0} +: 2];
  always @(posedge WCLK)
    if (WE) begin
      a[{ADDRD, 1'b0} +: 2] <= DIA;
      b[{ADDRD, 1'b0} +: 2] <= DIB;
      c[{ADDRD, 1'b0} +: 2] <= DIC;
      d[{ADDRD, 1'b0} +: 2] <= DID;
    end
endmodule

module RAM64M #(
  parameter [63:0] INIT_A = 0, INIT_B = 0, INIT_C = 0, INIT_D = 0, parameter IS_WCLK_INVERTED = 0
) (
  output DOA, DOB, DOC, DOD, input [5:0] ADDRA, ADDRB, ADDRC, ADDRD, input DIA, DIB, DIC, DID, WCLK, WE
);
  initial if (IS_WCLK_INVERTED) $fatal(1, "RAM64M: an inverted clock is not modelled");
  reg [63:0] a = INIT_A, b = INIT_B, c = INIT_C, d = INIT_D;
  assign DOA = a[ADDRA];
  assign DOB = b[ADDRB];
  assign DOC = c[ADDRC];
  assign DOD = d[ADDRD];
  always @(posedge WCLK)
    if (WE) begin
      a[ADDRD] <= DIA;
      b[ADDRD] <= DIB;
      c[ADDRD] <= DIC;
      d[ADDRD] <= DID;
    end
endmodule
