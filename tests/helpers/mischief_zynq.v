// The small master of mischief.v behind the ports of a Zynq-7000, each a burst of what it was. Register 0xFF0 names
// a rule of AXI3 to break; tests/sim/test_zynq.py names them too.
module bitlane_fabric (
    input clk, input rst, output irq,
    input [11:0] gp0_awid, input [31:0] gp0_awaddr, input [3:0] gp0_awlen, input [1:0] gp0_awsize,
    input [1:0] gp0_awburst, input [1:0] gp0_awlock, input [3:0] gp0_awcache, input [2:0] gp0_awprot,
    input [3:0] gp0_awqos, input gp0_awvalid, output gp0_awready,
    input [11:0] gp0_wid, input [31:0] gp0_wdata, input [3:0] gp0_wstrb, input gp0_wlast, input gp0_wvalid,
    output gp0_wready, output [11:0] gp0_bid, output [1:0] gp0_bresp, output gp0_bvalid, input gp0_bready,
    input [11:0] gp0_arid, input [31:0] gp0_araddr, input [3:0] gp0_arlen, input [1:0] gp0_arsize,
    input [1:0] gp0_arburst, input [1:0] gp0_arlock, input [3:0] gp0_arcache, input [2:0] gp0_arprot,
    input [3:0] gp0_arqos, input gp0_arvalid, output gp0_arready,
    output [11:0] gp0_rid, output [31:0] gp0_rdata, output [1:0] gp0_rresp, output gp0_rlast, output gp0_rvalid,
    input gp0_rready,
    output [5:0] hp0_awid, output [31:0] hp0_awaddr, output [3:0] hp0_awlen, output [1:0] hp0_awsize,
    output [1:0] hp0_awburst, output [1:0] hp0_awlock, output [3:0] hp0_awcache, output [2:0] hp0_awprot,
    output [3:0] hp0_awqos, output hp0_awvalid, input hp0_awready,
    output [5:0] hp0_wid, output [63:0] hp0_wdata, output [7:0] hp0_wstrb, output hp0_wlast, output hp0_wvalid,
    input hp0_wready, input [5:0] hp0_bid, input [1:0] hp0_bresp, input hp0_bvalid, output hp0_bready,
    output [5:0] hp0_arid, output [31:0] hp0_araddr, output [3:0] hp0_arlen, output [1:0] hp0_arsize,
    output [1:0] hp0_arburst, output [1:0] hp0_arlock, output [3:0] hp0_arcache, output [2:0] hp0_arprot,
    output [3:0] hp0_arqos, output hp0_arvalid, input hp0_arready,
    input [5:0] hp0_rid, input [63:0] hp0_rdata, input [1:0] hp0_rresp, input hp0_rlast, input hp0_rvalid,
    output hp0_rready
);
    localparam GP_READ_ID = 1, GP_WRITE_ID = 2, GP_LAST = 3, W_ID = 4, AR_CACHE = 5, AW_PROT = 6, AR_LOCK = 7;
    reg [2:0] fault = 0;
    always @(posedge clk)
        if (rst) fault <= 0;
        else if (gp0_wvalid && gp0_wready && gp0_awaddr[11:0] == 12'hFF0) fault <= gp0_wdata[2:0];

    assign gp0_rid = gp0_arid ^ (fault == GP_READ_ID), gp0_bid = gp0_awid ^ (fault == GP_WRITE_ID);
    assign gp0_rlast = fault != GP_LAST;
    assign hp0_awid = 5, hp0_wid = fault == W_ID ? 0 : 5, hp0_arid = 0;
    assign hp0_arcache = fault == AR_CACHE ? 4'b0010 : 4'b0011, hp0_awcache = 4'b0011;
    assign hp0_arprot = 0, hp0_awprot = fault == AW_PROT ? 3'b010 : 3'b000;
    assign hp0_arlock = fault == AR_LOCK, hp0_awlock = 0, hp0_arqos = 0, hp0_awqos = 0;
    wire [39:0] araddr, awaddr;
    wire [7:0] arlen, awlen;
    wire [2:0] arsize, awsize;
    assign hp0_araddr = araddr[31:0], hp0_awaddr = awaddr[31:0], hp0_arlen = arlen[3:0], hp0_awlen = awlen[3:0];
    assign hp0_arsize = arsize[1:0], hp0_awsize = awsize[1:0];

    bitlane_accelerator accelerator (
        .clk(clk), .rst(rst), .irq(irq),
        .s_axi_awaddr(gp0_awaddr[11:0]), .s_axi_awprot(gp0_awprot), .s_axi_awvalid(gp0_awvalid),
        .s_axi_awready(gp0_awready), .s_axi_wdata(gp0_wdata), .s_axi_wstrb(gp0_wstrb), .s_axi_wvalid(gp0_wvalid),
        .s_axi_wready(gp0_wready), .s_axi_bresp(gp0_bresp), .s_axi_bvalid(gp0_bvalid), .s_axi_bready(gp0_bready),
        .s_axi_araddr(gp0_araddr[11:0]), .s_axi_arprot(gp0_arprot), .s_axi_arvalid(gp0_arvalid),
        .s_axi_arready(gp0_arready), .s_axi_rdata(gp0_rdata), .s_axi_rresp(gp0_rresp), .s_axi_rvalid(gp0_rvalid),
        .s_axi_rready(gp0_rready),
        .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(arsize), .m_axi_arburst(hp0_arburst),
        .m_axi_arvalid(hp0_arvalid), .m_axi_arready(hp0_arready),
        .m_axi_rid(1'b0), .m_axi_rdata(hp0_rdata), .m_axi_rresp(hp0_rresp), .m_axi_rlast(hp0_rlast),
        .m_axi_rvalid(hp0_rvalid), .m_axi_rready(hp0_rready),
        .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(awsize), .m_axi_awburst(hp0_awburst),
        .m_axi_awvalid(hp0_awvalid), .m_axi_awready(hp0_awready),
        .m_axi_wdata(hp0_wdata), .m_axi_wstrb(hp0_wstrb), .m_axi_wlast(hp0_wlast), .m_axi_wvalid(hp0_wvalid),
        .m_axi_wready(hp0_wready),
        .m_axi_bid(1'b0), .m_axi_bresp(hp0_bresp), .m_axi_bvalid(hp0_bvalid), .m_axi_bready(hp0_bready)
    );
endmodule
