// A little of everything that Yosys maps to a cell of its own: the same module runs as it is and as a netlist.
module mapped (input clk, input [127:0] in, output [383:0] out);
  wire enable = in[0], write = in[1], clear = in[2], async = in[3] & in[4] & in[5];
  wire [8:0] read_at = in[16:8], write_at = in[25:17];
  wire [63:0] data = in[127:64];

  // FDRE, FDSE, FDCE, FDPE, CARRY4 and LUTs
  reg [15:0] counter = 16'h8003, ones = 16'hFFFF;
  reg [3:0] cleared = 4'h0, preset = 4'hF;
  always @(posedge clk) begin
    if (clear) counter <= 16'h00F0; else if (enable) counter <= counter + data[15:0] - data[31:16];
    if (clear) ones <= 16'hFFFF; else if (write) ones <= ones ^ ~data[15:0];
  end
  always @(posedge clk, posedge async) if (async) cleared <= 0; else if (enable) cleared <= data[3:0];
  always @(posedge clk, posedge async) if (async) preset <= 4'hF; else if (write) preset <= data[7:4];

  // SRL16E and SRLC32E
  reg [11:0] short_delay = 12'hA51;
  reg [69:0] long_delay = 70'h155AA3C0F123456789;
  always @(posedge clk) begin
    if (enable) short_delay <= {short_delay[10:0], data[0]};
    if (write) long_delay <= {long_delay[68:0], data[1]};
  end

  // RAM32M and RAM64M: read without a clock
  reg [5:0] file[0:31];
  reg [2:0] tall[0:63];
  reg tall_bit[0:63];
  // RAMB36E1 and RAMB18E1, one a table, one written by the byte
  reg [71:0] wide[0:511];
  reg [35:0] half[0:511];
  reg [17:0] table_[0:1023];
  reg [31:0] bytes[0:1023];
  reg [71:0] wide_read;
  reg [35:0] half_read;
  reg [17:0] table_read;
  reg [31:0] bytes_read;
  integer i;
  initial begin
    for (i = 0; i < 32; i = i + 1) file[i] = i * 11;
    for (i = 0; i < 64; i = i + 1) tall[i] = i * 5;
    for (i = 0; i < 64; i = i + 1) tall_bit[i] = i * 3 >> 2;
    for (i = 0; i < 512; i = i + 1) wide[i] = {i, ~i, i * 77};
    for (i = 0; i < 512; i = i + 1) half[i] = {~i, i * 201};
    for (i = 0; i < 1024; i = i + 1) table_[i] = i * i + 7 * i;
    for (i = 0; i < 1024; i = i + 1) bytes[i] = i * 65537;
    wide_read = 0;
    half_read = 0;
    table_read = 0;
    bytes_read = 0;
  end
  always @(posedge clk) begin
    if (write) file[write_at[4:0]] <= data[5:0];
    if (write) tall[write_at[5:0]] <= data[8:6];
    if (write) tall_bit[write_at[5:0]] <= data[9];
    if (write) wide[write_at] <= {data[7:0], data};
    if (write) half[write_at] <= data[40:5];
    for (i = 0; i < 4; i = i + 1) if (write && in[32+i]) bytes[{1'b1, write_at}][8*i +: 8] <= data[8*i +: 8];
    if (enable) wide_read <= wide[read_at];
    if (enable) half_read <= half[read_at];
    if (enable) table_read <= table_[{in[26], read_at}];
    bytes_read <= bytes[{1'b1, read_at}];
  end

  // DSP48E1: with registers, and a product that takes several
  reg signed [24:0] a = 0;
  reg signed [17:0] b = 0;
  reg signed [42:0] product = 0;
  reg [47:0] sum = 0;
  always @(posedge clk) begin
    a <= data[24:0];
    b <= data[42:25];
    product <= a * b;
    if (clear) sum <= 0; else sum <= sum + data[15:0] * data[31:16];
  end
  wire [59:0] split_product = data[31:0] * data[59:32];

  wire chosen = data[in[31:26]];  // a wide multiplexer
  assign out = {
    chosen, split_product, sum, product, bytes_read, table_read, half_read, wide_read, tall_bit[read_at[5:0]],
    tall[read_at[5:0]], file[read_at[4:0]], long_delay[69], short_delay[11], preset, cleared, ones, counter
  };
endmodule
