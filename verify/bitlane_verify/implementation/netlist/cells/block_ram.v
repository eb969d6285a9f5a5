// The memory inside RAMB36E1 and RAMB18E1 (UG473): two ports of one clock, each of which may read and write.
//
// Widths are data bits: 1, 2, 4, 8, 16, 32 or 64, with a parity bit for each 8 of them; 0 for a side that is not used.
// Bit i of a port's data is bit `address + i` of the memory, the address rounded down to a multiple of the width.
// What a port reads of bits that the other one writes at the same edge is the old value where the writer's mode is
// READ_FIRST; else the chip promises nothing, and this model reads the complement.
module block_ram #(
  parameter BITS = 32768,
  parameter READ_A = 0, READ_B = 0, WRITE_A = 0, WRITE_B = 0,
  parameter MODE_A = "WRITE_FIRST", MODE_B = "WRITE_FIRST",
  parameter [71:0] INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0,  // of the outputs: {parity, data}
  parameter [BITS-1:0] INIT = 0, parameter [BITS/8-1:0] INITP = 0
) (
  input clk_a, enable_a, reset_a, input [14:0] address_a, input [7:0] write_a, input [63:0] in_a, input [7:0] inp_a,
  input clk_b, enable_b, reset_b, input [14:0] address_b, input [7:0] write_b, input [63:0] in_b, input [7:0] inp_b,
  output [63:0] out_a, out_b, output [7:0] outp_a, outp_b
);
  localparam WIDER_A = READ_A > WRITE_A ? READ_A : WRITE_A;
  localparam WIDER_B = READ_B > WRITE_B ? READ_B : WRITE_B;
  localparam WIDTH = WIDER_A > WIDER_B ? WIDER_A : WIDER_B;  // data bits of a row
  localparam LANES = WIDTH < 8 ? 1 : WIDTH / 8;              // parity bits of a row
  localparam ROWS = BITS / WIDTH, SHIFT = $clog2(WIDTH);

  reg [LANES+WIDTH-1:0] rows[0:ROWS-1];
  integer i;
  initial for (i = 0; i < ROWS; i = i + 1) rows[i] = {INITP[i*WIDTH/8 +: LANES], INIT[i*WIDTH +: WIDTH]};

  wire [$clog2(ROWS)-1:0] row_a = address_a >> SHIFT, row_b = address_b >> SHIFT;
  wire same = row_a == row_b;
  wire [LANES+WIDTH-1:0] stored_a = rows[row_a], mask_a, value_a, stored_b = rows[row_b], mask_b, value_b;
  wire [LANES+WIDTH-1:0] unreliable_a = same && MODE_B != "READ_FIRST" ? mask_b : 0;
  wire [LANES+WIDTH-1:0] unreliable_b = same && MODE_A != "READ_FIRST" ? mask_a : 0;
  block_ram_port #(WIDTH, LANES, READ_A, WRITE_A, MODE_A, INIT_A, SRVAL_A) port_a (
    clk_a, enable_a, reset_a, address_a, write_a, in_a, inp_a, stored_a, unreliable_a, mask_a, value_a, out_a, outp_a);
  block_ram_port #(WIDTH, LANES, READ_B, WRITE_B, MODE_B, INIT_B, SRVAL_B) port_b (
    clk_b, enable_b, reset_b, address_b, write_b, in_b, inp_b, stored_b, unreliable_b, mask_b, value_b, out_b, outp_b);

  wire clk = WIDER_A != 0 ? clk_a : clk_b;
  wire [LANES+WIDTH-1:0] after_a = stored_a & ~mask_a | value_a;
  always @(posedge clk) begin
    if (WRITE_A != 0 && mask_a != 0) rows[row_a] <= after_a;
    if (WRITE_B != 0 && mask_b != 0) rows[row_b] <= (WRITE_A != 0 && same ? after_a : stored_b) & ~mask_b | value_b;
    if (WIDER_A != 0 && WIDER_B != 0 && clk_a != clk_b) $fatal(1, "block RAM: two clocks are not modelled");
  end
endmodule

// One port: the bits of its row that it writes (`mask`, `value`), and its output.
module block_ram_port #(
  parameter WIDTH = 1, LANES = 1, READ = 0, WRITE = 0, MODE = "WRITE_FIRST", parameter [71:0] INIT = 0, SRVAL = 0
) (
  input clk, enable, reset, input [14:0] address, input [7:0] write, input [63:0] in, input [7:0] inp,
  input [LANES+WIDTH-1:0] stored, unreliable, output [LANES+WIDTH-1:0] mask, value,
  output [63:0] out, output [7:0] outp
);
  initial if (MODE != "READ_FIRST" && MODE != "WRITE_FIRST" && MODE != "NO_CHANGE")
    $fatal(1, "block RAM: write mode %s is not modelled", MODE);
  wire [5:0] offset = address & (WIDTH - 1);

  if (WRITE == 0) begin
    assign mask = 0, value = 0;
  end else begin
    localparam BYTES = WRITE < 8 ? 1 : WRITE / 8, BYTE = WRITE < 8 ? WRITE : 8;
    wire [5:0] start = offset & ~(WRITE - 1);
    wire [WIDTH-1:0] data_mask;
    wire [LANES-1:0] parity_mask;
    wire [WRITE-1:0] bits;
    for (genvar i = 0; i < BYTES; i = i + 1) assign bits[i*BYTE +: BYTE] = {BYTE{write[i]}};
    assign data_mask = {{WIDTH{1'b0}}, bits} << start;
    assign parity_mask = WRITE < 8 ? 0 : {{LANES{1'b0}}, write[BYTES-1:0]} << start / 8;
    wire [WIDTH-1:0] data = {{WIDTH{1'b0}}, in[WRITE-1:0]} << start;
    wire [LANES-1:0] parity = {{LANES{1'b0}}, inp[BYTES-1:0]} << start / 8;
    assign mask = enable ? {parity_mask, data_mask} : 0;
    assign value = {parity, data} & mask;
  end

  if (READ == 0) begin
    assign out = 0, outp = 0;
  end else begin
    localparam PARITY = READ < 8 ? 0 : READ / 8;
    reg [READ+PARITY-1:0] loaded;
    for (genvar i = 0; i < READ + PARITY; i = i + 1) if (INIT[i] !== 1'bx) initial loaded[i] = INIT[i];
    wire [5:0] start = offset & ~(READ - 1);
    wire [LANES+WIDTH-1:0] row = (MODE == "WRITE_FIRST" ? stored & ~mask | value : stored) ^ unreliable;
    wire [READ-1:0] data = row[WIDTH-1:0] >> start;
    wire [LANES-1:0] parity = row[LANES+WIDTH-1:WIDTH] >> start / 8;
    always @(posedge clk)
      if (enable)
        if (reset) loaded <= SRVAL;
        else if (MODE != "NO_CHANGE" || mask == 0) loaded <= {parity, data};
    assign out = loaded[READ-1:0];
    if (PARITY != 0) assign outp = loaded[READ+PARITY-1:READ];
    else assign outp = 0;
  end
endmodule
