// The store unit: one command at a time. Epilogue reads its vectors; store reads rows of accumulators and residuals,
// applies the epilogue and writes N bytes a cycle to memory.
module atalla_store import atalla_pkg::*; #(parameter N = 16, DEPTH = 16)(
  input logic clk, input logic rst,
  input logic push, input logic [255:0] command, output logic ready, output logic busy,
  output logic [2:0] needs, input logic has_tokens, output logic take, output logic done, output logic [2:0] gives,
  output logic line_read, output logic line_pair, output logic [15:0] line, input logic line_grant,
  input logic [7:0] line_data [2*N],
  output logic sum_read, output logic [15:0] sum_row, input logic sum_grant, input logic [31:0] sums [N],
  output logic write, output logic [47:0] write_address, output logic [7:0] write_bytes, output logic [7:0] write_data [N],
  input logic write_ready);

  logic valid;
  logic [255:0] head [1];
  atalla_queue #(.DEPTH(DEPTH), .READERS(1)) queue(.clk, .rst, .push, .in(command), .ready, .next(take), .valid, .head);
  epilogue_t settings;
  store_t rows;
  logic setting, storing;
  assign needs = head[0][10:8];
  assign take = valid && !setting && !storing && has_tokens;
  assign busy = valid || setting || storing;

  // Epilogue: eight lines of biases and scales.
  logic [31:0] vectors [2*N];  // biases, scales
  logic [3:0] vector, vector_came;
  logic vector_comes;
  wire vector_read = setting && vector != 8;
  wire set = setting && vector == 8 && !vector_comes;

  // Rows: read, then through the epilogue into `out`, then to memory in lines.
  logic [15:0] si, sj, row_at, i, j, residual_at;
  logic [47:0] address, outer_address;
  logic reads, came, full, sent;
  logic [47:0] out_address;
  logic [8:0] out_left;
  logic [7:0] out [4*N];
  wire wrote = full && write_ready;
  wire out_ends = out_left <= 9'(N);
  wire out_free = !full || (wrote && out_ends);
  wire move = came && out_free;
  wire wants = storing && reads && (!came || move);
  wire row_read = wants && (sum_grant || `BUG(27)) && (!rows.has_residual || line_grant || `BUG(15));
  assign sum_read = row_read;
  assign sum_row = row_at;
  assign line_read = vector_read || (wants && sum_grant && rows.has_residual);
  assign line_pair = !vector_read && rows.residual_bf16;
  assign line = vector_read ? settings.line + 16'(vector) : residual_at;
  assign write = full;
  assign write_address = out_address;
  assign write_bytes = out_ends && !(`BUG(28) && rows.kind == I8) ? out_left[7:0] : 8'(N);
  always_comb for (int k = 0; k < N; k++) write_data[k] = out[k];
  assign sent = storing && wrote && out_ends && !came && !reads;
  assign done = set || sent;
  assign gives = setting ? settings.tokens[5:3] : rows.tokens[5:3];

  /* verilator lint_off BLKSEQ */
  logic [31:0] x, y;
  logic [7:0] bytes [4*N];
  always_ff @(posedge clk) begin
    vector_comes <= vector_read && line_grant;
    vector_came <= vector;
    if (vector_read && line_grant) vector <= vector + 1;
    if (vector_comes)
      for (int k = 0; k < N / 4; k++)
        vectors[32'(vector_came) * (N / 4) + k] = {line_data[4*k+3], line_data[4*k+2], line_data[4*k+1], line_data[4*k]};
    if (set) setting <= 0;
    if (sent) storing <= 0;

    if (row_read) begin
      row_at <= row_at + 1;
      residual_at <= residual_at + (rows.residual_bf16 && !`BUG(30) ? 16'd2 : 16'd1);
      sj <= sj == rows.inner ? 16'd1 : sj + 1;
      si <= sj == rows.inner ? si + 1 : si;
      if (sj == rows.inner && si == rows.outer) reads <= 0;
    end
    if (row_read) came <= 1; else if (move) came <= 0;

    if (wrote && !out_ends) begin
      for (int k = 0; k < 3 * N; k++) bytes[k] = bytes[k + N];
      out_address <= out_address + 48'(N);
      out_left <= out_left - 9'(N);
    end
    if (wrote && out_ends) full <= 0;
    if (move) begin
      full <= 1;
      out_address <= address;
      out_left <= 9'(rows.columns) << (rows.kind == I8 ? 0 : rows.kind == BF16 ? 1 : 2);
      for (int k = 0; k < N; k++) begin
        y = rows.bias && !rows.is_float ? sums[k] + vectors[k] : sums[k];
        x = rows.is_float ? flush(y) : itof(y);
        if (rows.bias && rows.is_float) x = fadd(x, flush(vectors[k]));
        if (rows.scale) x = fmul(x, flush(vectors[N+k]));
        if (rows.has_residual)
          x = fadd(x, fmul(rows.residual_bf16 ? flush({line_data[2*k+1], line_data[2*k], 16'b0})
            : itof(32'($signed(line_data[k])) - 32'($signed(settings.residual_zero_point))), flush(settings.residual_scale)));
        if (rows.clamp && !fnan(x))
          x = fless(x, flush(settings.low)) ? flush(settings.low) : fless(flush(settings.high), x) ? flush(settings.high) : x;
        case (rows.kind)
          I8: bytes[k] = ftoi8(x, settings.zero_point);
          BF16: {bytes[2*k+1], bytes[2*k]} = ftobf16(x);
          default: {bytes[4*k+3], bytes[4*k+2], bytes[4*k+1], bytes[4*k]} = rows.kind == I32 ? y : fnan(x) ? NAN : x;
        endcase
      end
      if (j != rows.inner) begin
        j <= j + 1;
        address <= address + 48'($signed(rows.inner_stride));
      end else begin
        j <= 1;
        address <= outer_address + 48'($signed(rows.outer_stride));
        outer_address <= outer_address + 48'($signed(rows.outer_stride));
      end
    end
    out <= bytes;

    if (take) begin
      if (head[0][7:0] == EPILOGUE) begin
        settings <= head[0];
        setting <= 1;
        vector <= head[0][16] ? 0 : 8;
      end else begin
        rows <= head[0];
        storing <= 1;
        reads <= 1;
        row_at <= head[0][24*8 +: 16];
        residual_at <= head[0][26*8 +: 16];
        address <= {head[0][16*8 +: 16], head[0][4*8 +: 32]};
        outer_address <= {head[0][16*8 +: 16], head[0][4*8 +: 32]};
        sj <= 1;
        si <= 1;
        j <= 1;
      end
    end
    if (rst) begin
      setting <= 0;
      storing <= 0;
      vector_comes <= 0;
      came <= 0;
      full <= 0;
      reads <= 0;
      settings <= '0;
      for (int k = 0; k < 2 * N; k++) vectors[k] = 0;
    end
  end
  /* verilator lint_on BLKSEQ */
endmodule
