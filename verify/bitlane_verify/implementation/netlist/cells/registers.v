// Flip-flops of 7-series slices (UG474). One whose INIT is x has no initial value: the simulator starts it at random.

module FDRE #(parameter INIT = 1'b0) (output Q, input C, CE, D, R);
  reg q;
  assign Q = q;
  if (INIT !== 1'bx) initial q = INIT;
  always @(posedge C) if (R) q <= 1'b0; else if (CE) q <= D;
endmodule

module FDSE #(parameter INIT = 1'b1) (output Q, input C, CE, D, S);
  reg q;
  assign Q = q;
  if (INIT !== 1'bx) initial q = INIT;
  always @(posedge C) if (S) q <= 1'b1; else if (CE) q <= D;
endmodule

// An asynchronous reset shows at once, also one that is there from the start and so never rises.
module FDCE #(parameter INIT = 1'b0) (output Q, input C, CE, D, CLR);
  reg q;
  assign Q = CLR ? 1'b0 : q;
  if (INIT !== 1'bx) initial q = INIT;
  always @(posedge C, posedge CLR) if (CLR) q <= 1'b0; else if (CE) q <= D;
endmodule

module FDPE #(parameter INIT = 1'b1) (output Q, input C, CE, D, PRE);
  reg q;
  assign Q = PRE ? 1'b1 : q;
  if (INIT !== 1'bx) initial q = INIT;
  always @(posedge C, posedge PRE) if (PRE) q <= 1'b1; else if (CE) q <= D;
endmodule
