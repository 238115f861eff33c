// Lines of N bytes in banks, each of which reads or writes one line, or one aligned pair of lines, in a cycle. Of several
// that want the same bank, the first in this order gets it: activations, weights, store, load. Data comes a cycle later.
module atalla_scratchpad import atalla_pkg::*; #(parameter N = 16, LINES = 16384, BANKS = 8)(
  input logic clk,
  input logic rows_read, input logic rows_pair, input logic [15:0] rows_line, output logic [7:0] rows_data [2*N],
  input logic weights_read, input logic weights_pair, input logic [15:0] weights_line,
  output logic weights_grant, output logic [7:0] weights_data [2*N],
  input logic store_read, input logic store_pair, input logic [15:0] store_line,
  output logic store_grant, output logic [7:0] store_data [2*N],
  input logic load_write, input logic [15:0] load_line, input logic [7:0] load_data [N], output logic load_grant);

  localparam W = $clog2(LINES), SHIFT = W - $clog2(BANKS);
  function automatic logic same_bank(input logic [15:0] a, input logic [15:0] b);
    return a[W-1:0] >> SHIFT == b[W-1:0] >> SHIFT;
  endfunction
  logic [7:0] mem [LINES][N] /* verilator public_flat_rd */;

  wire clash = rows_read && same_bank(rows_line, weights_line);
  assign weights_grant = !clash || `BUG(14);
  wire [W-1:0] load_to = `BUG(12) ? load_line[W-1:0] & ~(W'(1) << SHIFT) : load_line[W-1:0];
  wire [W-1:0] other = `BUG(13) ? '0 : W'(1);
  wire [W-1:0] weights_at = clash ? rows_line[W-1:0] : weights_line[W-1:0];
  assign store_grant = !(rows_read && same_bank(rows_line, store_line))
                    && !(weights_read && weights_grant && same_bank(weights_line, store_line));
  assign load_grant = !(rows_read && same_bank(rows_line, load_line))
                   && !(weights_read && weights_grant && same_bank(weights_line, load_line))
                   && !(store_read && store_grant && same_bank(store_line, load_line));

  /* verilator lint_off BLKSEQ */
  logic [7:0] rows_out [2*N], weights_out [2*N], store_out [2*N];
  always_ff @(posedge clk) begin
    if (rows_read) begin
      for (int k = 0; k < N; k++) rows_out[k] = mem[rows_line[W-1:0]][k];
      if (rows_pair) for (int k = 0; k < N; k++) rows_out[N+k] = mem[rows_line[W-1:0] | other][k];
    end
    if (weights_read && weights_grant) begin
      for (int k = 0; k < N; k++) weights_out[k] = mem[weights_at][k];
      if (weights_pair) for (int k = 0; k < N; k++) weights_out[N+k] = mem[weights_at | other][k];
    end
    if (store_read && store_grant) begin
      for (int k = 0; k < N; k++) store_out[k] = mem[store_line[W-1:0]][k];
      if (store_pair) for (int k = 0; k < N; k++) store_out[N+k] = mem[store_line[W-1:0] | other][k];
    end
    if (load_write && load_grant) for (int k = 0; k < N; k++) mem[load_to][k] = load_data[k];
    rows_data <= rows_out;
    weights_data <= weights_out;
    store_data <= store_out;
  end
  /* verilator lint_on BLKSEQ */
endmodule
