// The multiplier and adder of 7-series chips (UG479), as far as Yosys' mapper uses it: a 25 by 18 bit product of
// A, or of D plus or minus A, and B; a sum with C, P or the cascade; any of the data registers, none of the control's.
//
//   P = Z + (X + Y + CARRYIN)    ALUMODE 0000
//   P = Z - (X + Y + CARRYIN)    ALUMODE 0011
//
// Everything else ends the simulation: SIMD, pattern detection, logic, carry cascades. What these put out has no value.
module DSP48E1 #(
  parameter ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1, CARRYINREG = 1,
  parameter CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1, MREG = 1, OPMODEREG = 1, PREG = 1,
  parameter A_INPUT = "DIRECT", B_INPUT = "DIRECT", USE_DPORT = "FALSE", USE_MULT = "MULTIPLY", USE_SIMD = "ONE48",
  parameter USE_PATTERN_DETECT = "NO_PATDET"
) (
  output signed [47:0] P, PCOUT,
  output signed [29:0] ACOUT, output signed [17:0] BCOUT,
  output [3:0] CARRYOUT, output CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, PATTERNBDETECT, PATTERNDETECT, UNDERFLOW,
  input signed [29:0] A, ACIN, input signed [17:0] B, BCIN, input signed [47:0] C, PCIN, input signed [24:0] D,
  input [3:0] ALUMODE, input CARRYIN, input [2:0] CARRYINSEL, input [4:0] INMODE, input [6:0] OPMODE,
  input CEA1, CEA2, CEAD, CEB1, CEB2, CEC, CED, CEM, CEP, CLK, RSTA, RSTB, RSTC, RSTD, RSTM, RSTP,
  input CARRYCASCIN, MULTSIGNIN, CEALUMODE, CECARRYIN, CECTRL, CEINMODE,  // of what is refused
  input RSTALLCARRYIN, RSTALUMODE, RSTCTRL, RSTINMODE
);
  initial if (USE_MULT != "MULTIPLY") $fatal(1, "DSP48E1: USE_MULT other than MULTIPLY is not modelled");
  initial if (USE_SIMD != "ONE48") $fatal(1, "DSP48E1: SIMD is not modelled");
  initial if (USE_PATTERN_DETECT != "NO_PATDET") $fatal(1, "DSP48E1: pattern detection is not modelled");
  initial if (ALUMODEREG || CARRYINREG || CARRYINSELREG || INMODEREG || OPMODEREG)
    $fatal(1, "DSP48E1: registers of control inputs are not modelled");

  wire signed [29:0] a1, a;
  wire signed [17:0] b1, b;
  wire signed [47:0] c;
  wire signed [24:0] d, added;
  wire signed [42:0] product;
  dsp_stage #(30, AREG == 2) stage_a1 (CLK, CEA1, RSTA, A_INPUT == "CASCADE" ? ACIN : A, a1);
  dsp_stage #(30, AREG != 0) stage_a (CLK, CEA2, RSTA, a1, a);
  dsp_stage #(18, BREG == 2) stage_b1 (CLK, CEB1, RSTB, B_INPUT == "CASCADE" ? BCIN : B, b1);
  dsp_stage #(18, BREG != 0) stage_b (CLK, CEB2, RSTB, b1, b);
  assign ACOUT = ACASCREG < AREG ? a1 : a, BCOUT = BCASCREG < BREG ? b1 : b;  // one register less at most
  dsp_stage #(48, CREG) stage_c (CLK, CEC, RSTC, C, c);
  dsp_stage #(25, DREG) stage_d (CLK, CED, RSTD, D, d);

  // INMODE[2] lets D in, INMODE[3] subtracts A.
  wire signed [24:0] addend = INMODE[2] ? d : 25'sd0;
  wire signed [24:0] sum = INMODE[3] ? addend - $signed(a[24:0]) : addend + $signed(a[24:0]);
  dsp_stage #(25, ADREG) stage_ad (CLK, CEAD, RSTD, sum, added);
  wire signed [24:0] factor = USE_DPORT == "TRUE" ? added : $signed(a[24:0]);
  wire signed [42:0] multiplied = factor * b;
  dsp_stage #(43, MREG) stage_m (CLK, CEM, RSTM, multiplied, product);

  // X and Y are the product's two halves, so both select it; OPMODE[3:0] is Y, then X.
  reg signed [47:0] xy, z;
  wire signed [47:0] accumulated = PREG ? P : 48'sd0;
  reg refused;
  always @* begin
    refused = INMODE[4] || INMODE[1:0] != 0 || CARRYINSEL != 0 || (ALUMODE != 4'b0000 && ALUMODE != 4'b0011);
    case (OPMODE[3:0])
      4'b0000: xy = 0;
      4'b0101: xy = product;
      4'b1100: xy = c;
      4'b0010: xy = accumulated;
      4'b1110: xy = accumulated + c;
      default: begin xy = 0; refused = 1; end
    endcase
    case (OPMODE[6:4])
      3'b000: z = 0;
      3'b001: z = PCIN;
      3'b010: z = accumulated;
      3'b011: z = c;
      3'b101: z = PCIN >>> 17;
      3'b110: z = accumulated >>> 17;
      default: begin z = 0; refused = 1; end
    endcase
  end
  always @(posedge CLK)
    if (refused)
      $fatal(1, "DSP48E1: OPMODE %b, ALUMODE %b, INMODE %b, CARRYINSEL %b are not modelled",
             OPMODE, ALUMODE, INMODE, CARRYINSEL);

  wire signed [47:0] operand = xy + $signed({47'd0, CARRYIN});
  wire signed [47:0] result = ALUMODE == 4'b0011 ? z - operand : z + operand;
  dsp_stage #(48, PREG) stage_p (CLK, CEP, RSTP, result, P);
  assign PCOUT = P;
endmodule

// A register with enable and reset, the reset first; or a wire.
module dsp_stage #(parameter WIDTH = 1, REGISTERED = 0) (
  input CLK, enable, reset, input [WIDTH-1:0] in, output [WIDTH-1:0] out
);
  if (REGISTERED) begin
    reg [WIDTH-1:0] stored = 0;
    always @(posedge CLK) if (reset) stored <= 0; else if (enable) stored <= in;
    assign out = stored;
  end else
    assign out = in;
endmodule
