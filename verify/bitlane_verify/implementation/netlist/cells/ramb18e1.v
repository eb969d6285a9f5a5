// 18 Kb of block RAM (UG473): simple dual port at its full width, or true dual port at any.
// Not modelled: output registers, FIFOs, error correction, simple dual port at a smaller width.
module RAMB18E1 #(
  parameter [255:0]
    INIT_00 = 0, INIT_01 = 0, INIT_02 = 0, INIT_03 = 0, INIT_04 = 0, INIT_05 = 0, INIT_06 = 0, INIT_07 = 0,
    INIT_08 = 0, INIT_09 = 0, INIT_0A = 0, INIT_0B = 0, INIT_0C = 0, INIT_0D = 0, INIT_0E = 0, INIT_0F = 0,
    INIT_10 = 0, INIT_11 = 0, INIT_12 = 0, INIT_13 = 0, INIT_14 = 0, INIT_15 = 0, INIT_16 = 0, INIT_17 = 0,
    INIT_18 = 0, INIT_19 = 0, INIT_1A = 0, INIT_1B = 0, INIT_1C = 0, INIT_1D = 0, INIT_1E = 0, INIT_1F = 0,
    INIT_20 = 0, INIT_21 = 0, INIT_22 = 0, INIT_23 = 0, INIT_24 = 0, INIT_25 = 0, INIT_26 = 0, INIT_27 = 0,
    INIT_28 = 0, INIT_29 = 0, INIT_2A = 0, INIT_2B = 0, INIT_2C = 0, INIT_2D = 0, INIT_2E = 0, INIT_2F = 0,
    INIT_30 = 0, INIT_31 = 0, INIT_32 = 0, INIT_33 = 0, INIT_34 = 0, INIT_35 = 0, INIT_36 = 0, INIT_37 = 0,
    INIT_38 = 0, INIT_39 = 0, INIT_3A = 0, INIT_3B = 0, INIT_3C = 0, INIT_3D = 0, INIT_3E = 0, INIT_3F = 0,
    INITP_00 = 0, INITP_01 = 0, INITP_02 = 0, INITP_03 = 0, INITP_04 = 0, INITP_05 = 0, INITP_06 = 0, INITP_07 = 0,
  parameter INIT_A = 18'h0, INIT_B = 18'h0, SRVAL_A = 18'h0, SRVAL_B = 18'h0,
  parameter DOA_REG = 0, DOB_REG = 0, RAM_MODE = "TDP",
  parameter READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
  parameter WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST"
) (
  output [15:0] DOADO, DOBDO, output [1:0] DOPADOP, DOPBDOP,
  input [13:0] ADDRARDADDR, ADDRBWRADDR, input [15:0] DIADI, DIBDI, input [1:0] DIPADIP, DIPBDIP,
  input [1:0] WEA, input [3:0] WEBWE,
  input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, RSTRAMARSTRAM, RSTRAMB,
  input REGCEAREGCE, REGCEB, RSTREGARSTREG, RSTREGB
);
  localparam SIMPLE = RAM_MODE == "SDP";
  initial if (DOA_REG || DOB_REG) $fatal(1, "RAMB18E1: output registers are not modelled");
  initial if (SIMPLE && (READ_WIDTH_A != 36 || WRITE_WIDTH_B != 36 || READ_WIDTH_B != 0 || WRITE_WIDTH_A != 0))
    $fatal(1, "RAMB18E1: simple dual port is modelled with a read and a write width of 36 only");
  wire [63:0] out_a, out_b;
  wire [7:0] outp_a, outp_b;
  // Of a width's nine bits the ninth is parity: 72 is 64 bits and 8.
  block_ram #(
    .BITS(16384),
    .READ_A(READ_WIDTH_A < 9 ? READ_WIDTH_A : READ_WIDTH_A / 9 * 8),
    .READ_B(READ_WIDTH_B < 9 ? READ_WIDTH_B : READ_WIDTH_B / 9 * 8),
    .WRITE_A(WRITE_WIDTH_A < 9 ? WRITE_WIDTH_A : WRITE_WIDTH_A / 9 * 8),
    .WRITE_B(WRITE_WIDTH_B < 9 ? WRITE_WIDTH_B : WRITE_WIDTH_B / 9 * 8),
    .MODE_A(WRITE_MODE_A), .MODE_B(WRITE_MODE_B),
    .INIT_A(SIMPLE ? {INIT_B[17:16], INIT_A[17:16], INIT_B[15:0], INIT_A[15:0]} : INIT_A), .INIT_B(INIT_B),
    .SRVAL_A(SIMPLE ? {SRVAL_B[17:16], SRVAL_A[17:16], SRVAL_B[15:0], SRVAL_A[15:0]} : SRVAL_A), .SRVAL_B(SRVAL_B),
    .INIT({
    INIT_3F, INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38,
    INIT_37, INIT_36, INIT_35, INIT_34, INIT_33, INIT_32, INIT_31, INIT_30,
    INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28,
    INIT_27, INIT_26, INIT_25, INIT_24, INIT_23, INIT_22, INIT_21, INIT_20,
    INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19, INIT_18,
    INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10,
    INIT_0F, INIT_0E, INIT_0D, INIT_0C, INIT_0B, INIT_0A, INIT_09, INIT_08,
    INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00}),
    .INITP({
    INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00})
  ) memory (
    .clk_a(CLKARDCLK), .enable_a(ENARDEN), .reset_a(RSTRAMARSTRAM), .address_a({1'b0, ADDRARDADDR}),
    .write_a(WEA), .in_a(DIADI), .inp_a(DIPADIP), .out_a(out_a), .outp_a(outp_a),
    .clk_b(CLKBWRCLK), .enable_b(ENBWREN), .reset_b(RSTRAMB), .address_b({1'b0, ADDRBWRADDR}),
    .write_b(WEBWE), .in_b(SIMPLE ? {DIBDI, DIADI} : DIBDI), .inp_b(SIMPLE ? {DIPBDIP, DIPADIP} : DIPBDIP),
    .out_b(out_b), .outp_b(outp_b)
  );
  assign DOADO = out_a, DOPADOP = outp_a;
  assign DOBDO = SIMPLE ? out_a[31:16] : out_b, DOPBDOP = SIMPLE ? outp_a[3:2] : outp_b;
endmodule
