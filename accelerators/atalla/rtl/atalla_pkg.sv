// Command layouts (README.md, "Commands") and arithmetic (README.md, "Numbers").
`include "bugs.svh"
package atalla_pkg;
`ifdef ATALLA_BUGS
  logic [7:0] bug;  // bugs.svh; 0: none
`endif
  typedef enum logic [7:0] {LOAD = 1, MATMUL = 2, EPILOGUE = 3, STORE = 4} opcode_t;

  // Fields from the last byte of a command to its first.
  typedef struct packed {
    logic [15:0] reserved, outer_lines, inner_lines, line, outer, inner, run, address_high;
    logic [31:0] outer_stride, inner_stride, address_low;
    logic [7:0] pad, flags, tokens, opcode;
  } load_t;
  typedef struct packed {
    logic [31:0] reserved;
    logic [15:0] weight_lines, weights, accumulator, outer_last, outer_first, inner_last, inner_first, outer, inner,
                 outer_lines, inner_lines, line;
    logic [7:0] pad;
    logic [3:0] reserved_flags;
    logic transpose, keep, is_float, accumulate;
    logic [7:0] tokens, opcode;
  } matmul_t;
  typedef struct packed {
    logic [95:0] reserved;
    logic [31:0] residual_scale, high, low;
    logic [7:0] reserved_byte, residual_zero_point;
    logic [15:0] line;
    logic [7:0] zero_point;
    logic [6:0] reserved_flags;
    logic vectors;
    logic [7:0] tokens, opcode;
  } epilogue_t;
  typedef struct packed {
    logic [31:0] reserved;
    logic [15:0] residual, accumulator, outer, inner, columns, address_high;
    logic [31:0] outer_stride, inner_stride, address_low;
    logic [7:0] reserved_byte;
    logic clamp, residual_bf16, has_residual, scale, bias, is_float;
    logic [1:0] kind;
    logic [7:0] tokens, opcode;
  } store_t;
  typedef enum logic [1:0] {I8, BF16, F32, I32} output_t;

  localparam logic [31:0] NAN = 32'h7fc00000;

  function automatic logic fnan(input logic [31:0] x);
    return x[30:23] == 8'hff && x[22:0] != 0;
  endfunction

  // Subnormal numbers are zeros.
  function automatic logic [31:0] flush(input logic [31:0] x);
    return x[30:23] == 0 ? {x[31], 31'b0} : x;
  endfunction

  // a + b, rounded to nearest even. The significand of the smaller operand moves right; three more bits (guard, round,
  // sticky) hold what decides the rounding.
  function automatic logic [31:0] fadd(input logic [31:0] a, input logic [31:0] b);
    logic swap, subtract, invalid;
    logic [31:0] x, y, up, result;
    logic [7:0] distance;
    logic [4:0] shift;
    logic [27:0] big, small_, lost, sum;
    logic [9:0] exponent;
    swap = b[30:0] > a[30:0];
    x = swap ? b : a;
    y = swap ? a : b;
    subtract = x[31] ^ y[31];
    distance = x[30:23] - y[30:23];
    shift = distance > 27 ? 5'd27 : distance[4:0];
    big = x[30:23] == 0 ? 28'd0 : {2'b01, x[22:0], 3'b0};
    small_ = y[30:23] == 0 ? 28'd0 : {2'b01, y[22:0], 3'b0};
    lost = small_ & ((28'd1 << shift) - 28'd1);
    small_ = (small_ >> shift) | {27'b0, lost != 0};
    sum = subtract ? big - small_ : big + small_;
    shift = sum[27:12] == 0 ? 5'd16 : 5'd0;
    sum = sum << shift;
    shift = sum[27:20] == 0 ? shift | 5'd8 : shift;
    sum = sum[27:20] == 0 ? sum << 8 : sum;
    shift = sum[27:24] == 0 ? shift | 5'd4 : shift;
    sum = sum[27:24] == 0 ? sum << 4 : sum;
    shift = sum[27:26] == 0 ? shift | 5'd2 : shift;
    sum = sum[27:26] == 0 ? sum << 2 : sum;
    shift = sum[27] ? shift : shift | 5'd1;
    sum = sum[27] ? sum : sum << 1;
    exponent = {2'b0, x[30:23]} + 10'd1 - {5'b0, shift};
    // Bits 27:4 are the significand now, 3:0 decide. A carry out of the fraction goes into the exponent, as it should.
    up = {1'b0, exponent[7:0], sum[26:4]} + {31'b0, sum[3] & (sum[4] | sum[2:0] != 0 | `BUG(20))};
    invalid = x[22:0] != 0 || (y[30:23] == 8'hff && (subtract || y[22:0] != 0));
    result = exponent >= 10'd255 || up[30:23] == 8'hff ? {x[31], 8'hff, 23'b0} : {x[31], up[30:0]};
    result = exponent[9] || exponent == 0 ? {x[31], 31'b0} : result;
    result = sum[27] ? result : {x[31] & y[31], 31'b0};  // nothing is left
    result = x[30:23] != 8'hff ? result : invalid ? NAN : {x[31], 8'hff, 23'b0};
    return result;
  endfunction

  // The exact product of two bf16, as f32.
  function automatic logic [31:0] bmul(input logic [15:0] a, input logic [15:0] b);
    logic [15:0] product;
    logic [9:0] exponent;
    logic [31:0] result;
    logic sign, zero, special, invalid;
    sign = a[15] ^ b[15];
    zero = a[14:7] == 0 || b[14:7] == 0;
    special = a[14:7] == 8'hff || b[14:7] == 8'hff;
    product = {8'b0, 1'b1, a[6:0]} * {8'b0, 1'b1, b[6:0]};
    exponent = {2'b0, a[14:7]} + {2'b0, b[14:7]} - 10'd127 + {9'b0, product[15]};
    product = product[15] ? product : product << 1;
    result = exponent >= 10'd255 ? {sign, 8'hff, 23'b0} : {sign, exponent[7:0], product[14:0], 8'b0};
    result = zero || exponent[9] || exponent == 0 ? {sign, 31'b0} : result;
    invalid = (zero && !`BUG(21)) || (a[14:7] == 8'hff && a[6:0] != 0) || (b[14:7] == 8'hff && b[6:0] != 0);
    result = !special ? result : invalid ? NAN : {sign, 8'hff, 23'b0};
    return result;
  endfunction

  // a * b, rounded to nearest even.
  function automatic logic [31:0] fmul(input logic [31:0] a, input logic [31:0] b);
    logic [47:0] product;
    logic [9:0] exponent;
    logic [31:0] up;
    logic sign, zero, special;
    sign = a[31] ^ b[31];
    zero = a[30:23] == 0 || b[30:23] == 0;
    special = a[30:23] == 8'hff || b[30:23] == 8'hff;
    product = {24'b0, 1'b1, a[22:0]} * {24'b0, 1'b1, b[22:0]};
    exponent = {2'b0, a[30:23]} + {2'b0, b[30:23]} - 10'd127 + {9'b0, product[47]};
    product = product[47] ? product : product << 1;
    if (special)
      return zero || (a[30:23] == 8'hff && a[22:0] != 0) || (b[30:23] == 8'hff && b[22:0] != 0) ? NAN
                                                                                                : {sign, 8'hff, 23'b0};
    if (zero) return {sign, 31'b0};
    up = {1'b0, exponent[7:0], product[46:24]} + {31'b0, product[23] & (product[24] | product[22:0] != 0)};
    // Tiny results that round up to the smallest normal number count as that number.
    if (exponent[9] || (exponent == 0 && up[30:23] == 0)) return {sign, 31'b0};
    return exponent >= 10'd255 || up[30:23] == 8'hff ? {sign, 8'hff, 23'b0} : {sign, up[30:0]};
  endfunction

  // An integer as f32, rounded to nearest even.
  function automatic logic [31:0] itof(input logic signed [31:0] i);
    logic [31:0] m, up;
    logic [7:0] exponent;
    m = i < 0 ? -i : i;
    exponent = 8'd158;
    if (m[31:16] == 0) begin m = m << 16; exponent = exponent - 8'd16; end
    if (m[31:24] == 0) begin m = m << 8; exponent = exponent - 8'd8; end
    if (m[31:28] == 0) begin m = m << 4; exponent = exponent - 8'd4; end
    if (m[31:30] == 0) begin m = m << 2; exponent = exponent - 8'd2; end
    if (!m[31]) begin m = m << 1; exponent = exponent - 8'd1; end
    up = {1'b0, exponent, m[30:8]} + {31'b0, m[7] & (m[8] | m[6:0] != 0)};
    return i == 0 ? 32'b0 : {i[31], up[30:0]};
  endfunction

  // The nearest integer, of two the even one, plus the zero point, within int8.
  function automatic logic [7:0] ftoi8(input logic [31:0] x, input logic [7:0] zero_point);
    logic [31:0] m, magnitude;
    logic signed [31:0] value;
    logic [4:0] shift;
    if (fnan(x)) return zero_point;
    m = {8'b0, 1'b1, x[22:0]};
    if (x[30:23] >= 8'd136) magnitude = 32'd512;       // 2^9 and more
    else if (x[30:23] < 8'd126) magnitude = 32'd0;     // less than 1/2
    else begin
      shift = 5'd23 - 5'(x[30:23] - 8'd127);           // 15 to 24 bits of fraction
      magnitude = m >> shift;
      m = m & ((32'd1 << shift) - 32'd1);
      magnitude = magnitude + {31'b0, (m << 1) > (32'd1 << shift) || ((m << 1) == (32'd1 << shift) && (magnitude[0] || `BUG(29)))};
    end
    value = (x[31] ? -$signed(magnitude) : $signed(magnitude)) + 32'($signed(zero_point));
    return value < -128 ? 8'h80 : value > 127 ? 8'h7f : value[7:0];
  endfunction

  function automatic logic [15:0] ftobf16(input logic [31:0] x);
    logic [31:0] up;
    up = x + 32'h7fff + {31'b0, x[16]};
    return fnan(x) ? NAN[31:16] : up[31:16];
  endfunction

  // Whether a < b, both flushed and neither a NaN.
  function automatic logic fless(input logic [31:0] a, input logic [31:0] b);
    if (a[30:0] == 0 && b[30:0] == 0) return 0;
    if (a[31] != b[31]) return a[31];
    return a[31] ? a[30:0] > b[30:0] : a[30:0] < b[30:0];
  endfunction
endpackage
