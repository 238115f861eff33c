// N x N multipliers. Weights stay; a row's activations are broadcast along it, and partial sums move down one row a
// cycle, so that element k of a row enters k cycles after element 0, and the N sums leave together.
//
// Each multiplier has two weights. The row that comes down says which one it uses, and the other one can be loaded.
module atalla_array import atalla_pkg::*; #(parameter N = 16)(
  input logic clk, input logic rst,
  input logic in_valid, input logic in_float, input logic in_select, input logic [7:0] in [2*N],
  input logic load_valid, input logic load_float, input logic load_column, input logic load_select,
  input logic [$clog2(N)-1:0] load_index, input logic [7:0] load [2*N],
  output logic out_valid, output logic out_soon, output logic [31:0] out [N]);

  // Blocking assignments, in an order in which each register is read before it is written: simulators then need no
  // copies of 256 sums, and make vector instructions of the loops.
  /* verilator lint_off BLKSEQ */
  logic signed [31:0] weights [2][N][N];  // 16 bits with a sign: simulators multiply words of 32 bits only
  logic [31:0] sums [N][N];
  logic [15:0] history [N][N];  // rows that came before: row r of the array uses element r of the row r cycles ago
  logic [N-1:0] valid, is_float, select, chosen;
  logic [15:0] a, row [N];
  logic [31:0] wide;
  logic [31:0] bottom [N];
  assign out_soon = valid[N-2];
  always_ff @(posedge clk) begin
    for (int k = 0; k < N; k++) row[k] = in_float ? {in[2*k+1], in[2*k]} : {{8{in[k][7]}}, in[k]};
    if (!in_float && row[N-1] == 16'hff80 && `BUG(19)) row[N-1] = 16'h0080;
    chosen = `BUG(18) ? {select[N-2:N/2-1], select[N/2-1:0]} : select;
    for (int r = N - 1; r > 0; r--) if (valid[r-1]) begin
      a = history[r-1][r];
      if (is_float[r-1])
        for (int c = 0; c < N; c++) sums[r][c] = fadd(sums[r-1][c], bmul(a, weights[chosen[r-1]][r][c][15:0]));
      else begin
        wide = 32'($signed(a));
        for (int c = 0; c < N; c++) sums[r][c] = sums[r-1][c] + wide * weights[chosen[r-1]][r][c];
      end
    end
    if (in_valid) begin
      if (in_float) for (int c = 0; c < N; c++) sums[0][c] = fadd(32'b0, bmul(row[0], weights[in_select][0][c][15:0]));
      else for (int c = 0; c < N; c++) sums[0][c] = 32'($signed(row[0])) * weights[in_select][0][c];
    end
    for (int r = N - 1; r > 0; r--) for (int k = 0; k < N; k++) history[r][k] = history[r-1][k];
    for (int k = 0; k < N; k++) history[0][k] = row[k];
    if (`BUG(16)) sums[N/4+1][N/2-1][4] = 1;
    for (int c = 0; c < N; c++) bottom[c] = sums[N-1][c];
    if (load_valid && !(load_index == ($clog2(N))'(N - 1) && `BUG(17)))
      for (int k = 0; k < N; k++)
        if (load_column) weights[load_select][k][load_index] = load_float ? {{16{load[2*k+1][7]}}, load[2*k+1], load[2*k]} : {{24{load[k][7]}}, load[k]};
        else weights[load_select][load_index][k] = load_float ? {{16{load[2*k+1][7]}}, load[2*k+1], load[2*k]} : {{24{load[k][7]}}, load[k]};
    out <= bottom;
    out_valid <= !rst && valid[N-2];
    valid <= rst ? '0 : {valid[N-2:0], in_valid};
    is_float <= {is_float[N-2:0], in_float};
    select <= {select[N-2:0], in_select};
  end
  /* verilator lint_on BLKSEQ */
endmodule
