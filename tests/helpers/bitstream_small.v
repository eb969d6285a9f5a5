// A small design with what the accelerator has: PS7, a clock buffer, carry chains, a DSP48E1, a block RAM.
module small;
  wire [3:0] fclk, resets;
  wire clk;
  wire [31:0] wdata, araddr;
  wire wvalid;
  reg [31:0] count = 32'h1234, write, read, address, product, rdata;
  (* ram_style = "block" *) reg [31:0] memory[0:1023];
  PS7 ps7 (
      .FCLKCLK(fclk), .FCLKRESETN(resets), .MAXIGP0ACLK(clk), .MAXIGP0WDATA(wdata), .MAXIGP0WVALID(wvalid),
      .MAXIGP0ARADDR(araddr), .MAXIGP0RDATA(rdata)
  );
  BUFG buffer (.I(fclk[0]), .O(clk));
  always @(posedge clk) begin
    if (!resets[0]) count <= 0;
    else if (wvalid) count <= count + write;
    write <= wdata;
    address <= araddr;
    if (wvalid) memory[count[9:0]] <= write ^ count;
    read <= memory[address[9:0]];
    product <= read[15:0] * write[15:0];
    rdata <= product + count;
  end
endmodule
