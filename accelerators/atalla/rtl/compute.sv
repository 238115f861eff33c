// The compute unit: loads the weights of a command while the rows of the one before go through the array, and adds what
// leaves the array to the accumulators. Three stages, which a command passes in order.
module atalla_compute import atalla_pkg::*; #(parameter N = 16, DEPTH = 16)(
  input logic clk, input logic rst,
  input logic push, input logic [255:0] command, output logic ready, output logic busy, output logic starved,
  output logic [2:0] needs, input logic has_tokens, output logic take, output logic done, output logic [2:0] gives,
  output logic rows_read, output logic rows_pair, output logic [15:0] rows_line, input logic [7:0] rows_data [2*N],
  output logic weights_read, output logic weights_pair, output logic [15:0] weights_line, input logic weights_grant,
  input logic [7:0] weights_data [2*N],
  output logic row_enters,
  output logic sum_read, output logic [15:0] sum_read_row,
  output logic sum_write, output logic sum_add, output logic sum_float, output logic [15:0] sum_row,
  output logic [31:0] sums [N]);

  logic [2:0] next, valid;
  logic [255:0] head [3];
  atalla_queue #(.DEPTH(DEPTH), .READERS(3)) queue(.clk, .rst, .push, .in(command), .ready, .next, .valid, .head);
  matmul_t load, feed, sum;
  assign load = head[0];
  assign feed = head[1];
  assign sum = head[2];

  // Weights. The other half of the array's weights is free once the command before has begun to feed rows; a transposed
  // tile writes all rows of the array at once, and waits until the last row has changed to its new weights.
  logic loading, load_select;
  logic [$clog2(N)-1:0] load_index;
  logic [$clog2(N):0] guard;
  logic loaded, loaded_float, loaded_column, loaded_select;
  logic [$clog2(N)-1:0] loaded_index;
  wire load_free = !loading && (!valid[1] || `BUG(23)) && !(load.transpose && guard != 0 && !`BUG(22));
  wire load_last = weights_read && weights_grant && load_index == ($clog2(N))'(N - 1);
  logic [15:0] weights_at;
  assign needs = `BUG(10) ? load.tokens[2:0] & 3'b011 : load.tokens[2:0];
  assign take = valid[0] && load_free && has_tokens;
  assign weights_read = loading;
  assign weights_pair = load.is_float;
  assign weights_line = weights_at;
  assign next[0] = load_last || (take && load.keep);
  always_ff @(posedge clk) begin
    if (take && !load.keep) begin
      loading <= 1;
      load_index <= 0;
      weights_at <= load.weights;
      load_select <= !load_select;
    end else if (weights_read && weights_grant) begin
      load_index <= load_index + 1;
      weights_at <= weights_at + load.weight_lines;
      if (load_last) loading <= 0;
    end
    loaded <= weights_read && weights_grant;
    loaded_float <= load.is_float;
    loaded_column <= load.transpose;
    loaded_select <= load_select;
    loaded_index <= load_index;
    if (rst) begin loading <= 0; loaded <= 0; load_select <= 0; end
  end

  // Rows.
  matmul_t rows;
  logic feeding, feed_select, entered, entered_pad, entered_float, entered_select;
  logic [15:0] i, j, at, outer_at;
  logic [7:0] pad;
  wire in_window = i >= rows.outer_first && i < rows.outer_last && j >= rows.inner_first && j < rows.inner_last + 16'(`BUG(24));
  wire feed_last = i + 1 == rows.outer && j + 1 == rows.inner;
  wire begins = valid[1] && (!feeding || feed_last);
  assign next[1] = begins;
  assign starved = !feeding && !valid[1] && (loading || take);
  assign row_enters = feeding;
  assign rows_read = feeding && in_window;
  assign rows_pair = rows.is_float;
  assign rows_line = at;
  always_ff @(posedge clk) begin
    if (guard != 0) guard <= guard - 1;
    if (begins) begin
      rows <= feed;
      feeding <= 1;
      feed_select <= load_select;
      i <= 0;
      j <= 0;
      at <= feed.line;
      outer_at <= feed.line;
      guard <= ($clog2(N)+1)'(N);
    end else if (feeding) begin
      if (feed_last) feeding <= 0;
      if (j + 1 != rows.inner) begin
        j <= j + 1;
        if (j >= rows.inner_first) at <= at + rows.inner_lines;
      end else begin
        j <= 0;
        i <= i + 1;
        at <= i >= rows.outer_first ? outer_at + rows.outer_lines : outer_at;
        if (i >= rows.outer_first) outer_at <= outer_at + rows.outer_lines;
      end
    end
    entered <= feeding;
    entered_pad <= !in_window;
    entered_float <= rows.is_float;
    entered_select <= feed_select;
    pad <= `BUG(25) ? 8'd0 : rows.pad;
    if (rst) begin feeding <= 0; entered <= 0; guard <= 0; end
  end
  logic [7:0] row [2*N];
  logic result_valid, result_soon;
  always_comb for (int k = 0; k < 2 * N; k++) row[k] = entered_pad ? pad : rows_data[k];
  atalla_array #(N) array(.clk, .rst, .in_valid(entered), .in_float(entered_float), .in_select(entered_select), .in(row),
    .load_valid(loaded), .load_float(loaded_float), .load_column(loaded_column), .load_select(loaded_select),
    .load_index(loaded_index), .load(weights_data), .out_valid(result_valid), .out_soon(result_soon), .out(sums));

  // Sums. A row is read a cycle before its result leaves the array.
  logic [15:0] si, sj, sum_at;
  logic fresh, sum_last;
  logic [2:0] sum_gives;
  wire [15:0] si_now = fresh ? 16'd1 : si, sj_now = fresh ? 16'd1 : sj;
  wire [15:0] sum_now = fresh ? sum.accumulator : sum_at;
  wire sum_ends = sj_now == sum.inner && si_now == sum.outer;
  assign sum_read = result_soon && sum.accumulate;
  assign sum_read_row = sum_now;
  assign next[2] = result_soon && sum_ends;
  assign sum_write = result_valid;
  assign done = result_valid && sum_last;
  assign gives = sum_gives;
  assign busy = valid != 0 || result_valid;
  always_ff @(posedge clk) begin
    if (result_soon) begin
      fresh <= sum_ends;
      sum_at <= sum_now + 1;
      si <= sj_now == sum.inner ? si_now + 1 : si_now;
      sj <= sj_now == sum.inner ? 16'd1 : sj_now + 1;
    end
    sum_row <= sum_now;
    sum_add <= sum.accumulate;
    sum_float <= sum.is_float;
    sum_last <= sum_ends;
    sum_gives <= sum.tokens[5:3];
    if (rst) fresh <= 1;
  end
endmodule
