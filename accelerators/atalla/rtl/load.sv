// The load unit. One stage asks the memory for lines, the other writes what comes back into the scratchpad, in order;
// the first one goes on with the next commands while data of earlier ones is on its way.
module atalla_load import atalla_pkg::*; #(parameter N = 16, DEPTH = 16)(
  input logic clk, input logic rst,
  input logic push, input logic [255:0] command, output logic ready, output logic busy,
  output logic [2:0] needs, input logic has_tokens, output logic take, output logic done, output logic gives_now,
  output logic [2:0] gives,
  output logic read, output logic [47:0] read_address, output logic [7:0] read_bytes, input logic read_ready,
  input logic data_valid, input logic [7:0] data [N], output logic data_ready,
  output logic [15:0] line, output logic [7:0] line_data [N], input logic grant);

  logic [1:0] next, valid;
  logic [255:0] head [2];
  atalla_queue #(.DEPTH(DEPTH), .READERS(2)) queue(.clk, .rst, .push, .in(command), .ready, .next, .valid, .head);
  load_t first, write;
  assign first = head[0];
  assign write = head[1];

  // Requests.
  load_t ask;
  logic asking;
  logic [47:0] address, run_address, outer_address;
  logic [15:0] left, j, i;
  wire asked = asking && read_ready;
  wire [31:0] outer_stride = `BUG(3) ? ask.inner_stride : ask.outer_stride;
  wire line_ends_run = left <= 16'(N);
  assign needs = `BUG(9) ? first.tokens[2:0] & 3'b101 : first.tokens[2:0];
  assign take = !asking && valid[0] && has_tokens;
  assign read = asking;
  assign read_address = `BUG(4) ? address & ~48'h1000 : address;
  assign read_bytes = line_ends_run ? 8'(left) : 8'(N);
  assign next[0] = take;
  always_ff @(posedge clk) begin
    if (take) begin
      ask <= first;
      asking <= 1;
      address <= {first.address_high, first.address_low};
      run_address <= {first.address_high, first.address_low};
      outer_address <= {first.address_high, first.address_low};
      left <= first.run;
      j <= 1;
      i <= 1;
    end else if (asked)
      if (!line_ends_run) begin
        address <= address + 48'(N);
        left <= left - 16'(N);
      end else begin
        left <= ask.run;
        if (j != ask.inner) begin
          j <= j + 1;
          address <= run_address + 48'($signed(ask.inner_stride)) + 48'(`BUG(2));
          run_address <= run_address + 48'($signed(ask.inner_stride));
        end else if (i != ask.outer) begin
          j <= 1;
          i <= i + 1;
          address <= outer_address + 48'($signed(outer_stride));
          run_address <= outer_address + 48'($signed(outer_stride));
          outer_address <= outer_address + 48'($signed(outer_stride));
        end else asking <= 0;
      end
    if (rst) asking <= 0;
  end

  // Answers. `fresh`: the next line is the first one of its command.
  logic fresh;
  logic [15:0] to, run_line, outer_line, rest, wj, wi;
  wire [15:0] rest_now = fresh ? write.run : rest;
  wire [15:0] j_now = fresh ? 16'd1 : wj, i_now = fresh ? 16'd1 : wi;
  wire [15:0] run_now = fresh ? write.line : run_line, outer_now = fresh ? write.line : outer_line;
  wire wrote = data_valid && (grant || `BUG(6));
  wire [15:0] inner_lines = `BUG(5) ? {8'b0, write.inner_lines[7:0]} : write.inner_lines;
  wire [15:0] present = rest_now + 16'(`BUG(1));
  wire ends_run = rest_now <= 16'(N);
  assign line = fresh ? write.line : to;
  assign data_ready = grant;
  assign done = wrote && ends_run && j_now == write.inner && i_now == write.outer;
  // Bug 7 gives the tokens with the last request, and none with the last line.
  wire asked_last = asked && line_ends_run && j == ask.inner && i == ask.outer;
  assign gives = `BUG(7) ? ask.tokens[5:3] : write.tokens[5:3];
  assign gives_now = `BUG(7) ? asked_last : done;
  assign next[1] = done;
  assign busy = valid != 0;
  always_comb for (int k = 0; k < N; k++) line_data[k] = 16'(k) < present ? data[k] : write.pad;
  always_ff @(posedge clk) begin
    if (wrote) begin
      fresh <= done;
      rest <= ends_run ? write.run : rest_now - 16'(N);
      wj <= j_now;
      wi <= i_now;
      run_line <= run_now;
      outer_line <= outer_now;
      if (!ends_run) to <= line + 1;
      else if (j_now != write.inner) begin
        wj <= j_now + 1;
        to <= run_now + inner_lines;
        run_line <= run_now + inner_lines;
      end else begin
        wj <= 1;
        wi <= i_now + 1;
        to <= outer_now + write.outer_lines;
        run_line <= outer_now + write.outer_lines;
        outer_line <= outer_now + write.outer_lines;
      end
    end
    if (rst) fresh <= 1;
  end
endmodule
