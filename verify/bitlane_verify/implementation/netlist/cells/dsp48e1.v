// The multiplier and adder of 7-series chips (UG479): a 25 by 18 bit product of A, or of D plus or minus A, and B; a
// sum of two or three operands that OPMODE may select anew in each cycle; the pattern detector; every register.
//
//   P = Z + (X + Y + CARRYIN)    ALUMODE 0000
//   P = Z - (X + Y + CARRYIN)    ALUMODE 0011
//
//   X: 0, M, P or A:B    Y: 0, M, all ones or C    Z: 0, PCIN, P, C, and PCIN or P shifted by 17 bits
//
// The model refuses everything else. A parameter ends the build or the first cycle: SIMD, patterns from C, automatic
// reset. An input ends the simulation: other selections, P without PREG, M without the multiplier, A:B with it, logic,
// other carries, INMODE[4] and INMODE[1:0]. CARRYOUT, CARRYCASCOUT, MULTSIGNOUT, OVERFLOW and UNDERFLOW have no value.
module DSP48E1 #(
  parameter ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1, CARRYINREG = 1,
  parameter CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1, MREG = 1, OPMODEREG = 1, PREG = 1,
  parameter A_INPUT = "DIRECT", B_INPUT = "DIRECT", USE_DPORT = "FALSE", USE_MULT = "MULTIPLY", USE_SIMD = "ONE48",
  parameter USE_PATTERN_DETECT = "NO_PATDET", AUTORESET_PATDET = "NO_RESET",
  parameter SEL_MASK = "MASK", SEL_PATTERN = "PATTERN",
  parameter [47:0] MASK = 48'h3fffffffffff, PATTERN = 48'h000000000000
) (
  output signed [47:0] P, PCOUT,
  output signed [29:0] ACOUT, output signed [17:0] BCOUT,
  output [3:0] CARRYOUT, output CARRYCASCOUT, MULTSIGNOUT, OVERFLOW, PATTERNBDETECT, PATTERNDETECT, UNDERFLOW,
  input signed [29:0] A, ACIN, input signed [17:0] B, BCIN, input signed [47:0] C, PCIN, input signed [24:0] D,
  input [3:0] ALUMODE, input CARRYIN, input [2:0] CARRYINSEL, input [4:0] INMODE, input [6:0] OPMODE,
  input CEA1, CEA2, CEAD, CEB1, CEB2, CEC, CED, CEM, CEP, CEALUMODE, CECARRYIN, CECTRL, CEINMODE, CLK,
  input RSTA, RSTB, RSTC, RSTD, RSTM, RSTP, RSTALLCARRYIN, RSTALUMODE, RSTCTRL, RSTINMODE,
  input CARRYCASCIN, MULTSIGNIN  // of what is refused
);
  initial if (USE_MULT != "NONE" && USE_MULT != "MULTIPLY" && USE_MULT != "DYNAMIC")
    $fatal(1, "DSP48E1: USE_MULT is NONE, MULTIPLY or DYNAMIC");
  initial if (USE_SIMD != "ONE48") $fatal(1, "DSP48E1: USE_SIMD other than ONE48 is not modelled");
  initial if (USE_PATTERN_DETECT != "NO_PATDET" && USE_PATTERN_DETECT != "PATDET")
    $fatal(1, "DSP48E1: USE_PATTERN_DETECT is NO_PATDET or PATDET");
  initial if (AUTORESET_PATDET != "NO_RESET") $fatal(1, "DSP48E1: automatic reset is not modelled");
  initial if (SEL_MASK != "MASK") $fatal(1, "DSP48E1: SEL_MASK other than MASK is not modelled");
  initial if (SEL_PATTERN != "PATTERN") $fatal(1, "DSP48E1: SEL_PATTERN other than PATTERN is not modelled");
  initial if (AREG > 2 || BREG > 2) $fatal(1, "DSP48E1: AREG and BREG are 0, 1 or 2");

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

  wire [3:0] alumode;
  wire [4:0] inmode;
  wire [6:0] opmode;
  wire [2:0] carryinsel;
  wire carryin;
  dsp_stage #(4, ALUMODEREG) stage_alumode (CLK, CEALUMODE, RSTALUMODE, ALUMODE, alumode);
  dsp_stage #(5, INMODEREG) stage_inmode (CLK, CEINMODE, RSTINMODE, INMODE, inmode);
  dsp_stage #(7, OPMODEREG) stage_opmode (CLK, CECTRL, RSTCTRL, OPMODE, opmode);
  dsp_stage #(3, CARRYINSELREG) stage_carryinsel (CLK, CECTRL, RSTCTRL, CARRYINSEL, carryinsel);
  dsp_stage #(1, CARRYINREG) stage_carryin (CLK, CECARRYIN, RSTALLCARRYIN, CARRYIN, carryin);

  // INMODE[2] lets D in, INMODE[3] subtracts A.
  wire signed [24:0] addend = inmode[2] ? d : 25'sd0;
  wire signed [24:0] sum = inmode[3] ? addend - $signed(a[24:0]) : addend + $signed(a[24:0]);
  dsp_stage #(25, ADREG) stage_ad (CLK, CEAD, RSTD, sum, added);
  wire signed [24:0] factor = USE_DPORT == "TRUE" ? added : $signed(a[24:0]);
  wire signed [42:0] multiplied = factor * b;
  dsp_stage #(43, MREG) stage_m (CLK, CEM, RSTM, multiplied, product);

  // M is the sum of X and Y, which carry its two halves, so both must select it.
  wire multiplies = opmode[3:0] == 4'b0101;
  wire signed [47:0] accumulated = PREG ? P : 48'sd0;
  reg signed [47:0] x, y, z;
  reg refused;
  always @* begin
    refused = inmode[4] || inmode[1:0] != 0 || carryinsel != 0 || (alumode != 4'b0000 && alumode != 4'b0011);
    case (opmode[1:0])
      2'b00: x = 0;
      2'b01: begin x = product; refused = refused || !multiplies || USE_MULT == "NONE"; end
      2'b10: begin x = accumulated; refused = refused || !PREG; end
      2'b11: begin x = {a, b}; refused = refused || USE_MULT == "MULTIPLY"; end
    endcase
    case (opmode[3:2])
      2'b00: y = 0;
      2'b01: begin y = 0; refused = refused || !multiplies; end
      2'b10: y = -48'sd1;
      2'b11: y = c;
    endcase
    case (opmode[6:4])
      3'b000: z = 0;
      3'b001: z = PCIN;
      3'b010: begin z = accumulated; refused = refused || !PREG; end
      3'b011: z = c;
      3'b101: z = PCIN >>> 17;
      3'b110: begin z = accumulated >>> 17; refused = refused || !PREG; end
      default: begin z = 0; refused = 1; end
    endcase
  end
  always @(posedge CLK)
    if (refused)
      $fatal(1, "DSP48E1: OPMODE %b, ALUMODE %b, INMODE %b, CARRYINSEL %b are not modelled",
             opmode, alumode, inmode, carryinsel);

  wire signed [47:0] operand = x + y + $signed({47'd0, carryin});
  wire signed [47:0] result = alumode == 4'b0011 ? z - operand : z + operand;
  dsp_stage #(48, PREG) stage_p (CLK, CEP, RSTP, result, P);
  assign PCOUT = P;

  // Whether the bits outside MASK are those of PATTERN, or of its complement, together with P.
  if (USE_PATTERN_DETECT == "PATDET") begin
    wire [47:0] differs = result ^ PATTERN;
    dsp_stage #(1, PREG) stage_detected (CLK, CEP, RSTP, &(~differs | MASK), PATTERNDETECT);
    dsp_stage #(1, PREG) stage_inverse (CLK, CEP, RSTP, &(differs | MASK), PATTERNBDETECT);
  end
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
