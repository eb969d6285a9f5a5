// 36 Kb of block RAM (UG473): simple dual port at its full width, or true dual port at any.
// Not modelled: output registers, cascades of two blocks, FIFOs, error correction, simple dual port at a smaller width.
module RAMB36E1 #(
  parameter [255:0]
    INIT_00 = 0, INIT_01 = 0, INIT_02 = 0, INIT_03 = 0, INIT_04 = 0, INIT_05 = 0, INIT_06 = 0, INIT_07 = 0,
    INIT_08 = 0, INIT_09 = 0, INIT_0A = 0, INIT_0B = 0, INIT_0C = 0, INIT_0D = 0, INIT_0E = 0, INIT_0F = 0,
    INIT_10 = 0, INIT_11 = 0, INIT_12 = 0, INIT_13 = 0, INIT_14 = 0, INIT_15 = 0, INIT_16 = 0, INIT_17 = 0,
    INIT_18 = 0, INIT_19 = 0, INIT_1A = 0, INIT_1B = 0, INIT_1C = 0, INIT_1D = 0, INIT_1E = 0, INIT_1F = 0,
    INIT_20 = 0, INIT_21 = 0, INIT_22 = 0, INIT_23 = 0, INIT_24 = 0, INIT_25 = 0, INIT_26 = 0, INIT_27 = 0,
    INIT_28 = 0, INIT_29 = 0, INIT_2A = 0, INIT_2B = 0, INIT_2C = 0, INIT_2D = 0, INIT_2E = 0, INIT_2F = 0,
    INIT_30 = 0, INIT_31 = 0, INIT_32 = 0, INIT_33 = 0, INIT_34 = 0, INIT_35 = 0, INIT_36 = 0, INIT_37 = 0,
    INIT_38 = 0, INIT_39 = 0, INIT_3A = 0, INIT_3B = 0, INIT_3C = 0, INIT_3D = 0, INIT_3E = 0, INIT_3F = 0,
    INIT_40 = 0, INIT_41 = 0, INIT_42 = 0, INIT_43 = 0, INIT_44 = 0, INIT_45 = 0, INIT_46 = 0, INIT_47 = 0,
    INIT_48 = 0, INIT_49 = 0, INIT_4A = 0, INIT_4B = 0, INIT_4C = 0, INIT_4D = 0, INIT_4E = 0, INIT_4F = 0,
    INIT_50 = 0, INIT_51 = 0, INIT_52 = 0, INIT_53 = 0, INIT_54 = 0, INIT_55 = 0, INIT_56 = 0, INIT_57 = 0,
    INIT_58 = 0, INIT_59 = 0, INIT_5A = 0, INIT_5B = 0, INIT_5C = 0, INIT_5D = 0, INIT_5E = 0, INIT_5F = 0,
    INIT_60 = 0, INIT_61 = 0, INIT_62 = 0, INIT_63 = 0, INIT_64 = 0, INIT_65 = 0, INIT_66 = 0, INIT_67 = 0,
    INIT_68 = 0, INIT_69 = 0, INIT_6A = 0, INIT_6B = 0, INIT_6C = 0, INIT_6D = 0, INIT_6E = 0, INIT_6F = 0,
    INIT_70 = 0, INIT_71 = 0, INIT_72 = 0, INIT_73 = 0, INIT_74 = 0, INIT_75 = 0, INIT_76 = 0, INIT_77 = 0,
    INIT_78 = 0, INIT_79 = 0, INIT_7A = 0, INIT_7B = 0, INIT_7C = 0, INIT_7D = 0, INIT_7E = 0, INIT_7F = 0,
    INITP_00 = 0, INITP_01 = 0, INITP_02 = 0, INITP_03 = 0, INITP_04 = 0, INITP_05 = 0, INITP_06 = 0, INITP_07 = 0,
    INITP_08 = 0, INITP_09 = 0, INITP_0A = 0, INITP_0B = 0, INITP_0C = 0, INITP_0D = 0, INITP_0E = 0, INITP_0F = 0,
  parameter INIT_A = 36'h0, INIT_B = 36'h0, SRVAL_A = 36'h0, SRVAL_B = 36'h0,
  parameter DOA_REG = 0, DOB_REG = 0, RAM_MODE = "TDP", RAM_EXTENSION_A = "NONE", RAM_EXTENSION_B = "NONE",
  parameter READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0,
  parameter WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST"
) (
  output [31:0] DOADO, DOBDO, output [3:0] DOPADOP, DOPBDOP,
  input [15:0] ADDRARDADDR, ADDRBWRADDR, input [31:0] DIADI, DIBDI, input [3:0] DIPADIP, DIPBDIP,
  input [3:0] WEA, input [7:0] WEBWE,
  input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, RSTRAMARSTRAM, RSTRAMB,
  input REGCEAREGCE, REGCEB, RSTREGARSTREG, RSTREGB
);
  localparam SIMPLE = RAM_MODE == "SDP";
  initial if (DOA_REG || DOB_REG) $fatal(1, "RAMB36E1: output registers are not modelled");
  initial if (RAM_EXTENSION_A != "NONE" || RAM_EXTENSION_B != "NONE") $fatal(1, "RAMB36E1: cascades are not modelled");
  initial if (SIMPLE && (READ_WIDTH_A != 72 || WRITE_WIDTH_B != 72 || READ_WIDTH_B != 0 || WRITE_WIDTH_A != 0))
    $fatal(1, "RAMB36E1: simple dual port is modelled with a read and a write width of 72 only");
  wire [63:0] out_a, out_b;
  wire [7:0] outp_a, outp_b;
  // Of a width's nine bits the ninth is parity: 72 is 64 bits and 8.
  block_ram #(
    .BITS(32768),
    .READ_A(READ_WIDTH_A < 9 ? READ_WIDTH_A : READ_WIDTH_A / 9 * 8),
    .READ_B(READ_WIDTH_B < 9 ? READ_WIDTH_B : READ_WIDTH_B / 9 * 8),
    .WRITE_A(WRITE_WIDTH_A < 9 ? WRITE_WIDTH_A : WRITE_WIDTH_A / 9 * 8),
    .WRITE_B(WRITE_WIDTH_B < 9 ? WRITE_WIDTH_B : WRITE_WIDTH_B / 9 * 8),
    .MODE_A(WRITE_MODE_A), .MODE_B(WRITE_MODE_B),
    .INIT_A(SIMPLE ? {INIT_B[35:32], INIT_A[35:32], INIT_B[31:0], INIT_A[31:0]} : INIT_A), .INIT_B(INIT_B),
    .SRVAL_A(SIMPLE ? {SRVAL_B[35:32], SRVAL_A[35:32], SRVAL_B[31:0], SRVAL_A[31:0]} : SRVAL_A), .SRVAL_B(SRVAL_B),
    .INIT({
    INIT_7F, INIT_7E, INIT_7D, INIT_7C, INIT_7B, INIT_7A, INIT_79, INIT_78,
    INIT_77, INIT_76, INIT_75, INIT_74, INIT_73, INIT_72, INIT_71, INIT_70,
    INIT_6F, INIT_6E, INIT_6D, INIT_6C, INIT_6B, INIT_6A, INIT_69, INIT_68,
    INIT_67, INIT_66, INIT_65, INIT_64, INIT_63, INIT_62, INIT_61, INIT_60,
    INIT_5F, INIT_5E, INIT_5D, INIT_5C, INIT_5B, INIT_5A, INIT_59, INIT_58,
    INIT_57, INIT_56, INIT_55, INIT_54, INIT_53, INIT_52, INIT_51, INIT_50,
    INIT_4F, INIT_4E, INIT_4D, INIT_4C, INIT_4B, INIT_4A, INIT_49, INIT_48,
    INIT_47, INIT_46, INIT_45, INIT_44, INIT_43, INIT_42, INIT_41, INIT_40,
    INIT_3F, INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38,
    INIT_37, INIT_36, INIT_35, INIT_34, INIT_33, INIT_32, INIT_31, INIT_30,
    INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28,
    INIT_27, INIT_26, INIT_25, INIT_24, INIT_23, INIT_22, INIT_21, INIT_20,
    INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19, INIT_18,
    INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10,
    INIT_0F, INIT_0E, INIT_0D, INIT_0C, INIT_0B, INIT_0A, INIT_09, INIT_08,
    INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00}),
    .INITP({
    INITP_0F, INITP_0E, INITP_0D, INITP_0C, INITP_0B, INITP_0A, INITP_09, INITP_08,
    INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00})
  ) memory (
    .clk_a(CLKARDCLK), .enable_a(ENARDEN), .reset_a(RSTRAMARSTRAM), .address_a(ADDRARDADDR[14:0]),
    .write_a(WEA), .in_a(DIADI), .inp_a(DIPADIP), .out_a(out_a), .outp_a(outp_a),
    .clk_b(CLKBWRCLK), .enable_b(ENBWREN), .reset_b(RSTRAMB), .address_b(ADDRBWRADDR[14:0]),
    .write_b(WEBWE), .in_b(SIMPLE ? {DIBDI, DIADI} : DIBDI), .inp_b(SIMPLE ? {DIPBDIP, DIPADIP} : DIPBDIP),
    .out_b(out_b), .outp_b(outp_b)
  );
  assign DOADO = out_a, DOPADOP = outp_a;
  assign DOBDO = SIMPLE ? out_a[63:32] : out_b, DOPBDOP = SIMPLE ? outp_a[7:4] : outp_b;
endmodule
