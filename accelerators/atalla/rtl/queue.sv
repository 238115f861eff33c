// Commands of one unit, in order, for READERS stages that go through them one after the other. Stage 0 sees commands that
// were pushed, stage i those that stage i - 1 has passed; the last stage frees the place.
module atalla_queue import atalla_pkg::*; #(parameter DEPTH = 16, READERS = 1)(
  input logic clk, input logic rst,
  input logic push, input logic [255:0] in, output logic ready,
  input logic [READERS-1:0] next, output logic [READERS-1:0] valid, output logic [255:0] head [READERS]);

  localparam W = $clog2(DEPTH);
  logic [255:0] entries [DEPTH];
  logic [W:0] tail, at [READERS];
  assign ready = tail - at[READERS-1] != (W+1)'(DEPTH) || (`BUG(11) && READERS == 2);
  for (genvar i = 0; i < READERS; i++) begin : reader
    assign head[i] = entries[at[i][W-1:0]];
    if (i == 0) assign valid[i] = at[i] != tail;
    else assign valid[i] = at[i] != at[i-1];
    always_ff @(posedge clk) at[i] <= rst ? '0 : at[i] + (W+1)'(next[i]);
  end
  always_ff @(posedge clk) begin
    if (push) entries[tail[W-1:0]] <= in;
    tail <= rst ? '0 : tail + (W+1)'(push);
  end
endmodule
