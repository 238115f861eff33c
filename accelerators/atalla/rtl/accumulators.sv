// Rows of N 32-bit sums in banks, each of which reads and writes one row in a cycle. The array's results are added to
// the row that was read in the cycle before; a row that is written in that same cycle is passed on. The store unit reads
// where the array does not read the same bank.
module atalla_accumulators import atalla_pkg::*; #(parameter N = 16, ROWS = 2048, BANKS = 4)(
  input logic clk,
  input logic read, input logic [15:0] read_row,
  input logic write, input logic write_add, input logic write_float, input logic [15:0] write_row,
  input logic [31:0] write_data [N],
  input logic store_read, input logic [15:0] store_row, output logic store_grant, output logic [31:0] store_data [N]);

  localparam W = $clog2(ROWS), SHIFT = W - $clog2(BANKS);
  logic [31:0] mem [ROWS][N] /* verilator public_flat_rd */;
  assign store_grant = !(read && read_row[W-1:0] >> SHIFT == store_row[W-1:0] >> SHIFT);

  /* verilator lint_off BLKSEQ */
  logic [31:0] old [N], early [N], store_out [N];
  always_ff @(posedge clk) begin
    if (read && `BUG(26)) for (int c = 0; c < N; c++) early[c] = mem[read_row[W-1:0]][c];
    if (write)
      if (!write_add)
        if (write_float) for (int c = 0; c < N; c++) mem[write_row[W-1:0]][c] = fadd(32'b0, write_data[c]);
        else for (int c = 0; c < N; c++) mem[write_row[W-1:0]][c] = write_data[c];
      else if (write_float) for (int c = 0; c < N; c++) mem[write_row[W-1:0]][c] = fadd(old[c], write_data[c]);
      else for (int c = 0; c < N; c++) mem[write_row[W-1:0]][c] = old[c] + write_data[c];
    if (read) for (int c = 0; c < N; c++) old[c] = mem[read_row[W-1:0]][c];
    if (read && `BUG(26)) for (int c = 0; c < N; c++) old[c] = early[c];
    if (store_read && store_grant) for (int c = 0; c < N; c++) store_out[c] = mem[store_row[W-1:0]][c];
    store_data <= store_out;
  end
  /* verilator lint_on BLKSEQ */
endmodule
