// A small bus master for the harness's own tests: it has the ports of the accelerator, copies bursts of
// sixteen beats from `source` to `target`, and on request breaks exactly one rule of the bus. The tests write
// the width that they want in place of the one here.
//
// registers: 0x20 control (1 start, 4 acknowledge), 0x24 status (bit 0 busy, 1 done, 15..8 error),
//            0x28 irq enable, 0x40 source, 0x44 target, 0x48 bursts, 0x4C mischief, 0x50 cycles of the last run
module bitlane_accelerator #(parameter WIDTH = 64) (
    input clk, input rst, output irq,
    input [11:0] s_axi_awaddr, input [2:0] s_axi_awprot, input s_axi_awvalid, output s_axi_awready,
    input [31:0] s_axi_wdata, input [3:0] s_axi_wstrb, input s_axi_wvalid, output s_axi_wready,
    output [1:0] s_axi_bresp, output reg s_axi_bvalid, input s_axi_bready,
    input [11:0] s_axi_araddr, input [2:0] s_axi_arprot, input s_axi_arvalid, output s_axi_arready,
    output reg [31:0] s_axi_rdata, output [1:0] s_axi_rresp, output reg s_axi_rvalid, input s_axi_rready,
    output [0:0] m_axi_arid, output [39:0] m_axi_araddr, output [7:0] m_axi_arlen, output [2:0] m_axi_arsize,
    output [1:0] m_axi_arburst, output m_axi_arvalid, input m_axi_arready,
    input [0:0] m_axi_rid, input [WIDTH-1:0] m_axi_rdata, input [1:0] m_axi_rresp, input m_axi_rlast,
    input m_axi_rvalid, output m_axi_rready,
    output [0:0] m_axi_awid, output [39:0] m_axi_awaddr, output [7:0] m_axi_awlen, output [2:0] m_axi_awsize,
    output [1:0] m_axi_awburst, output m_axi_awvalid, input m_axi_awready,
    output [WIDTH-1:0] m_axi_wdata, output [WIDTH/8-1:0] m_axi_wstrb, output m_axi_wlast, output m_axi_wvalid,
    input m_axi_wready,
    input [0:0] m_axi_bid, input [1:0] m_axi_bresp, input m_axi_bvalid, output m_axi_bready
);
    // The numbers that register `mischief` takes; tests/sim/test_harness.py names them too.
    localparam AR_DROP = 1, AR_CHANGE = 2, AR_BOUNDARY = 3, AR_LENGTH = 4, AR_SIZE = 5, AR_BURST = 6, AR_ALIGN = 7,
               AW_DROP = 11, AW_CHANGE = 12, AW_BOUNDARY = 13, AW_LENGTH = 14, AW_SIZE = 15, AW_BURST = 16,
               AW_ALIGN = 17, W_DROP = 21, W_CHANGE = 22, W_STROBE = 23, W_EARLY_LAST = 24, W_NO_LAST = 25,
               W_NO_ADDRESS = 26, W_LATE = 27, LITE_R_DROP = 31, LITE_R_CHANGE = 32, LITE_B_DROP = 33, LITE_R_NEVER = 34,
               LITE_B_EARLY = 35, LITE_R_EARLY = 36, LITE_ERROR = 37, IRQ_EARLY = 41, RESET_VALID = 42,
               READ_BACK = 43, ASSERTION = 44, NEVER_DONE = 45, KEEP = 46;
    localparam BYTES = WIDTH / 8, SIZE = $clog2(BYTES);
    localparam [39:0] BURST = 16 * BYTES, ACROSS = 4096 - 8 * BYTES;
    localparam IDLE = 0, AR = 1, R = 2, W = 3, B = 4;

    reg [2:0] state = IDLE;
    reg [31:0] source = 0, target = 0, bursts = 0, mischief = 0, cycles = 0;
    reg done = 0, enable = 0, toggle = 0, recovering = 0, addressed = 0, sent = 0;
    reg [7:0] error = 0;
    reg [4:0] beat = 0;
    reg [WIDTH-1:0] buffer [0:31];
    wire [4:0] last = 15;

    // --- the memory port
    assign m_axi_arid = 0, m_axi_awid = 0;
    assign m_axi_arvalid = (state == AR && !(mischief == AR_DROP && toggle)) || (mischief == RESET_VALID && rst);
    assign m_axi_araddr = (mischief == READ_BACK && state == AR && target != 0 && recovering ? target + BURST - BYTES : source)
                          + (mischief == AR_BOUNDARY ? ACROSS : mischief == AR_ALIGN ? BYTES / 2 : 40'd0)
                          + (mischief == AR_CHANGE && toggle ? BURST : 40'd0);
    assign m_axi_arlen = mischief == AR_LENGTH ? 8'd16 : 8'd15;
    assign m_axi_arsize = mischief == AR_SIZE ? SIZE - 1 : SIZE;
    assign m_axi_arburst = mischief == AR_BURST ? 2'd0 : 2'd1;
    assign m_axi_rready = state == R;
    assign m_axi_awvalid = state == W && !addressed && !(mischief == AW_DROP && toggle);
    assign m_axi_awaddr = target + (mischief == AW_BOUNDARY ? ACROSS : mischief == AW_ALIGN ? BYTES / 2 : 40'd0)
                          + (mischief == AW_CHANGE && toggle ? BURST : 40'd0);
    assign m_axi_awlen = mischief == AW_LENGTH ? 8'd16 : 8'd15;
    assign m_axi_awsize = mischief == AW_SIZE ? SIZE - 1 : SIZE;
    assign m_axi_awburst = mischief == AW_BURST ? 2'd0 : 2'd1;
    assign m_axi_wvalid = state == W && !sent && !(mischief == W_DROP && toggle) && !(mischief == W_LATE && !addressed);
    assign m_axi_wdata = buffer[beat] ^ {mischief == W_CHANGE && toggle, {WIDTH - 1{1'b0}}};
    assign m_axi_wstrb = {mischief != W_STROBE, {BYTES - 1{1'b1}}};
    assign m_axi_wlast = mischief == W_EARLY_LAST ? beat == 3 : mischief != W_NO_LAST && beat == last;
    assign m_axi_bready = state == B || (mischief == READ_BACK && recovering);
    assign irq = enable && (done || (mischief == IRQ_EARLY && state == B));

    wire now_addressed = addressed || m_axi_awvalid && m_axi_awready;
    wire now_sent = sent || m_axi_wvalid && m_axi_wready && beat == last;
    wire failed = m_axi_rresp != 0 && mischief != KEEP;
    wire start = s_axi_bvalid && s_axi_bready && written == 12'h020 && value[0];
    always @(posedge clk) begin
        toggle <= !toggle && (m_axi_arvalid && !m_axi_arready || m_axi_awvalid && !m_axi_awready
                              || m_axi_wvalid && !m_axi_wready);
        if (state != IDLE) cycles <= cycles + 1;
        if (mischief == ASSERTION && state == R) assert (beat != 7);
        case (state)
            IDLE: if (start) begin
                state <= mischief == W_NO_ADDRESS ? W : AR;
                addressed <= mischief == W_NO_ADDRESS;
                done <= 0; error <= 0; beat <= 0; cycles <= 0; recovering <= 0; sent <= 0;
            end
            AR: if (m_axi_arvalid && m_axi_arready) state <= R;
            R: if (m_axi_rvalid) begin
                buffer[beat] <= m_axi_rdata;
                beat <= beat + 1;
                if (failed) error <= {7'd1, m_axi_rresp[0]};
                if (m_axi_rlast) begin
                    beat <= 0;
                    state <= W;
                    if (error != 0 || failed) begin state <= IDLE; done <= 1; end
                end
            end
            W: begin
                addressed <= now_addressed;
                sent <= now_sent;
                if (m_axi_wvalid && m_axi_wready) beat <= beat + 1;
                if (now_addressed && now_sent) begin
                    beat <= 0; addressed <= 0; sent <= 0;
                    state <= mischief == READ_BACK ? AR : B;
                    recovering <= 1;
                end
            end
            B: if (m_axi_bvalid) begin
                source <= source + BURST; target <= target + BURST; bursts <= bursts - 1;
                state <= AR;
                if (m_axi_bresp != 0) error <= {7'd2, m_axi_bresp[0]};
                if (bursts == 1 || m_axi_bresp != 0) begin
                    state <= IDLE;
                    done <= mischief != NEVER_DONE;
                end
            end
        endcase
        if (s_axi_bvalid && s_axi_bready) case (written)
            12'h020: if (value[2]) done <= 0;
            12'h028: enable <= value[0];
            12'h040: source <= value;
            12'h044: target <= value;
            12'h048: bursts <= value;
            12'h04C: mischief <= value;
        endcase
        if (rst) begin
            state <= IDLE; done <= 0; enable <= 0; error <= 0;
            if (mischief != RESET_VALID) mischief <= 0;
        end
    end

    // --- the register port
    reg have_address = 0, have_value = 0;
    reg [11:0] written = 0;
    reg [31:0] value = 0;
    reg [3:0] age = 0;
    assign s_axi_awready = !have_address, s_axi_wready = !have_value;
    assign s_axi_bresp = mischief == LITE_ERROR ? 2'd2 : 2'd0, s_axi_rresp = mischief == LITE_ERROR ? 2'd2 : 2'd0;
    assign s_axi_arready = !s_axi_rvalid;
    always @(posedge clk) begin
        age <= s_axi_rvalid || s_axi_bvalid ? age + 1 : 0;
        if (s_axi_awvalid && s_axi_awready) begin have_address <= 1; written <= s_axi_awaddr; end
        if (s_axi_wvalid && s_axi_wready) begin have_value <= 1; value <= s_axi_wdata; end
        if (have_address && have_value && !s_axi_bvalid) s_axi_bvalid <= 1;
        if (mischief == LITE_B_EARLY && have_address) s_axi_bvalid <= 1;
        if (s_axi_bvalid && (s_axi_bready || mischief == LITE_B_DROP && age == 0)) begin
            s_axi_bvalid <= 0; have_address <= 0; have_value <= 0;
        end
        if (s_axi_arvalid && s_axi_arready) begin
            s_axi_rvalid <= mischief != LITE_R_NEVER;
            case (s_axi_araddr)
                12'h024: s_axi_rdata <= {16'd0, error, 6'd0, done, state != IDLE};
                12'h040: s_axi_rdata <= source;
                12'h044: s_axi_rdata <= target;
                12'h048: s_axi_rdata <= bursts;
                12'h04C: s_axi_rdata <= mischief;
                12'h050: s_axi_rdata <= cycles;
                default: s_axi_rdata <= 0;
            endcase
        end
        if (mischief == LITE_R_EARLY && state == R) s_axi_rvalid <= 1;
        if (s_axi_rvalid && mischief == LITE_R_CHANGE && age == 0) s_axi_rdata <= ~s_axi_rdata;
        if (s_axi_rvalid && (s_axi_rready || mischief == LITE_R_DROP && age == 0)) s_axi_rvalid <= 0;
        if (rst) begin have_address <= 0; have_value <= 0; s_axi_bvalid <= 0; s_axi_rvalid <= 0; end
    end
endmodule
