// Combinational cells of 7-series slices, and buffers (UG474, UG472): what a wire or a table does, without delay.

module LUT1 #(parameter [1:0] INIT = 0) (output O, input I0);
  assign O = INIT[I0];
endmodule

module LUT2 #(parameter [3:0] INIT = 0) (output O, input I0, I1);
  assign O = INIT[{I1, I0}];
endmodule

module LUT3 #(parameter [7:0] INIT = 0) (output O, input I0, I1, I2);
  assign O = INIT[{I2, I1, I0}];
endmodule

module LUT4 #(parameter [15:0] INIT = 0) (output O, input I0, I1, I2, I3);
  assign O = INIT[{I3, I2, I1, I0}];
endmodule

module LUT5 #(parameter [31:0] INIT = 0) (output O, input I0, I1, I2, I3, I4);
  assign O = INIT[{I4, I3, I2, I1, I0}];
endmodule

module LUT6 #(parameter [63:0] INIT = 0) (output O, input I0, I1, I2, I3, I4, I5);
  assign O = INIT[{I5, I4, I3, I2, I1, I0}];
endmodule

module INV (output O, input I);
  assign O = !I;
endmodule

module MUXF7 (output O, input I0, I1, S);
  assign O = S ? I1 : I0;
endmodule

module MUXF8 (output O, input I0, I1, S);
  assign O = S ? I1 : I0;
endmodule

// Four bits of a carry chain; it begins with CI from the slice below or with CYINIT, of which one is always 0.
// Its bits are split: else, to Verilator, a carry that comes back through a LUT to a later bit would look like a loop.
module CARRY4 (
  output [3:0] CO /*verilator split_var*/, output [3:0] O /*verilator split_var*/,
  input CI, CYINIT, input [3:0] DI /*verilator split_var*/, S /*verilator split_var*/
);
  wire first = CI | CYINIT;
  assign CO[0] = S[0] ? first : DI[0], O[0] = S[0] ^ first;
  for (genvar i = 1; i < 4; i = i + 1) assign CO[i] = S[i] ? CO[i-1] : DI[i], O[i] = S[i] ^ CO[i-1];
endmodule

module BUFG (output O, input I);
  assign O = I;
endmodule

module IBUF (output O, input I);
  assign O = I;
endmodule

module OBUF (output O, input I);
  assign O = I;
endmodule
