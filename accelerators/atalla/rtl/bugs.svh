// Thirty mistakes that hardware engineers make, to test the tools that find them. `BUG(n) is 0 unless ATALLA_BUGS is
// defined and the simulation runs with +bug=n; a chip has none of this.
//
//  1  load: the padding of a run's last line begins a byte late
//  2  load: the inner stride is one byte too large
//  3  load: the outer stride is the inner one
//  4  load: bit 12 of the read address is stuck at 0
//  5  load: inner_lines loses its sign
//  6  load: goes on when its bank is busy, and loses the line
//  7  load: gives its tokens when the last line is requested, not when it is written
//  8  tokens: one is lost if a token is given and taken in the same cycle
//  9  load: does not wait for the tokens of compute
// 10  compute: does not wait for the tokens of store
// 11  load: its queue takes one command too many
// 12  scratchpad: load writes odd banks' lines to the even bank before
// 13  scratchpad: the second line of a pair is the first one again
// 14  scratchpad: weights do not stall for the bank of the rows, and get the rows' line
// 15  store: does not stall for the bank of a residual, and takes the old one
// 16  array: bit 4 of the sums of row 5, column 7 is stuck at 1
// 17  array: the last row of weights is never loaded
// 18  array: the lower half changes to the next weights a row early
// 19  array: the last activation of a row loses its sign if it is -128
// 20  float: sums round ties up, not to even
// 21  float: infinity times zero is infinity
// 22  compute: a transposed tile does not wait for the last rows of the command before
// 23  compute: loads the weights of the command after the next one too early
// 24  compute: the inner window ends a row late
// 25  compute: padding is 0
// 26  accumulators: a row that is written in this cycle is read with its old value
// 27  store: does not stall for the bank of the accumulators, and takes the old row
// 28  store: writes all N columns of int8 rows
// 29  store: int8 ties round away from zero
// 30  store: a bf16 residual's next row is one line further, not two
`ifdef ATALLA_BUGS
`define BUG(n) (bug == 8'd``n)
`else
`define BUG(n) 1'b0
`endif
