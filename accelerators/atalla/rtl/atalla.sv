// The accelerator: three units with a queue each, tokens between them, scratchpad, accumulators, and a memory port.
// No output depends on an input of the same cycle, but data_ready on write_ready: a store that moves on may take the bank.
module atalla import atalla_pkg::*; #(
  parameter N = 16, SCRATCHPAD_LINES = 16384, SCRATCHPAD_BANKS = 8, ACCUMULATOR_ROWS = 2048, ACCUMULATOR_BANKS = 4,
            QUEUE_DEPTH = 16)(
  input logic clk, input logic rst,
  // Commands: taken in order, each when the queue of its unit is ready. Bit 0 load, 1 compute, 2 store, as everywhere.
  input logic command_valid, input logic [255:0] command, output logic [2:0] command_ready,
  // Memory: a read request is answered in order, some cycles later. Both take up to N bytes from any byte address.
  output logic read, output logic [47:0] read_address, output logic [7:0] read_bytes, input logic read_ready,
  input logic data_valid, input logic [7:0] data [N], output logic data_ready,
  output logic write, output logic [47:0] write_address, output logic [7:0] write_bytes, output logic [7:0] write_data [N],
  input logic write_ready,
  // Status. began and done have a bit for each unit, in the cycle after it took a command's tokens, or wrote its last.
  output logic idle, output logic fault, output logic [2:0] began, output logic [2:0] done,
  output logic line_written, output logic [15:0] written_line, output logic row_written, output logic [15:0] written_row,
  output logic [63:0] count_rows, output logic [63:0] count_waits [3], output logic [63:0] count_weight_stalls,
  output logic [63:0] count_bank_stalls, output logic [63:0] count_read_stalls, output logic [63:0] count_write_stalls);

`ifdef ATALLA_BUGS
  initial if (!$value$plusargs("bug=%d", bug)) bug = 0;
`endif

  // Dispatch.
  logic [2:0] push, busy, take, finish, give, has_tokens;
  assign give[2:1] = finish[2:1];
  logic [2:0] needs [3], gives [3];
  wire known = command[7:0] >= 8'(LOAD) && command[7:0] <= 8'(STORE);
  always_comb begin
    push = 0;
    if (command_valid && known) case (command[7:0])
      LOAD: push[0] = command_ready[0];
      MATMUL: push[1] = command_ready[1];
      default: push[2] = command_ready[2];
    endcase
  end
  assign idle = busy == 0;

  // Tokens of each unit for each other.
  logic [9:0] tokens [3][3];  // [from][to]
  always_comb for (int to = 0; to < 3; to++)
    has_tokens[to] = !(needs[to][0] && tokens[0][to] == 0) && !(needs[to][1] && tokens[1][to] == 0)
                  && !(needs[to][2] && tokens[2][to] == 0);
  for (genvar from = 0; from < 3; from++) for (genvar to = 0; to < 3; to++)
    always_ff @(posedge clk)
      tokens[from][to] <= rst ? 10'd0 : tokens[from][to] + 10'(give[from] && gives[from][to] && !(`BUG(8) && take[to] && needs[to][from]))
                                                         - 10'(take[to] && needs[to][from]);

  // Memories.
  logic rows_read, rows_pair, weights_read, weights_pair, weights_grant, line_read, line_pair, line_grant, load_grant;
  logic [15:0] rows_line, weights_line, line_line, load_line;
  logic [7:0] rows_data [2*N], weights_data [2*N], line_data [2*N], load_data [N];
  atalla_scratchpad #(.N(N), .LINES(SCRATCHPAD_LINES), .BANKS(SCRATCHPAD_BANKS)) scratchpad(.clk,
    .rows_read, .rows_pair, .rows_line, .rows_data,
    .weights_read, .weights_pair, .weights_line, .weights_grant, .weights_data,
    .store_read(line_read), .store_pair(line_pair), .store_line(line_line), .store_grant(line_grant), .store_data(line_data),
    .load_write(data_valid), .load_line, .load_data, .load_grant);
  logic sum_read, sum_write, sum_add, sum_float, store_read, store_grant;
  logic [15:0] sum_read_row, sum_row, store_row;
  logic [31:0] sums [N], store_sums [N];
  atalla_accumulators #(.N(N), .ROWS(ACCUMULATOR_ROWS), .BANKS(ACCUMULATOR_BANKS)) accumulators(.clk,
    .read(sum_read), .read_row(sum_read_row),
    .write(sum_write), .write_add(sum_add), .write_float(sum_float), .write_row(sum_row), .write_data(sums),
    .store_read, .store_row, .store_grant, .store_data(store_sums));

  // Units.
  logic starved, row_enters;
  atalla_load #(.N(N), .DEPTH(QUEUE_DEPTH)) load(.clk, .rst,
    .push(push[0]), .command, .ready(command_ready[0]), .busy(busy[0]),
    .needs(needs[0]), .has_tokens(has_tokens[0]), .take(take[0]), .done(finish[0]), .gives_now(give[0]), .gives(gives[0]),
    .read, .read_address, .read_bytes, .read_ready, .data_valid, .data, .data_ready,
    .line(load_line), .line_data(load_data), .grant(load_grant));
  atalla_compute #(.N(N), .DEPTH(QUEUE_DEPTH)) compute(.clk, .rst,
    .push(push[1]), .command, .ready(command_ready[1]), .busy(busy[1]), .starved,
    .needs(needs[1]), .has_tokens(has_tokens[1]), .take(take[1]), .done(finish[1]), .gives(gives[1]),
    .rows_read, .rows_pair, .rows_line, .rows_data,
    .weights_read, .weights_pair, .weights_line, .weights_grant, .weights_data,
    .row_enters, .sum_read, .sum_read_row, .sum_write, .sum_add, .sum_float, .sum_row, .sums);
  atalla_store #(.N(N), .DEPTH(QUEUE_DEPTH)) store(.clk, .rst,
    .push(push[2]), .command, .ready(command_ready[2]), .busy(busy[2]),
    .needs(needs[2]), .has_tokens(has_tokens[2]), .take(take[2]), .done(finish[2]), .gives(gives[2]),
    .line_read, .line_pair, .line(line_line), .line_grant, .line_data,
    .sum_read(store_read), .sum_row(store_row), .sum_grant(store_grant), .sums(store_sums),
    .write, .write_address, .write_bytes, .write_data, .write_ready);

  // Counters.
  logic [2:0] waits;
  assign waits[0] = load.valid[0] && !load.asking && !has_tokens[0];
  assign waits[1] = compute.valid[0] && compute.load_free && !has_tokens[1];
  assign waits[2] = store.valid && !store.setting && !store.storing && !has_tokens[2];
  for (genvar u = 0; u < 3; u++)
    always_ff @(posedge clk) count_waits[u] <= rst ? 64'd0 : count_waits[u] + 64'(waits[u]);
  always_ff @(posedge clk) begin
    fault <= !rst && (fault || (command_valid && !known));
    began <= take;
    done <= finish;
    line_written <= data_valid && load_grant;
    written_line <= load_line;
    row_written <= sum_write;
    written_row <= sum_row;
    count_rows <= count_rows + 64'(row_enters);
    count_weight_stalls <= count_weight_stalls + 64'(starved);
    count_bank_stalls <= count_bank_stalls + 64'(weights_read && !weights_grant) + 64'(line_read && !line_grant)
      + 64'(data_valid && !load_grant) + 64'(store.wants && !store_grant);
    count_read_stalls <= count_read_stalls + 64'(read && !read_ready);
    count_write_stalls <= count_write_stalls + 64'(write && !write_ready);
    if (rst) begin
      count_rows <= 0;
      count_weight_stalls <= 0;
      count_bank_stalls <= 0;
      count_read_stalls <= 0;
      count_write_stalls <= 0;
    end
  end
endmodule
