// Products of matrices by groups of rows: PyTorch's, and the op by which the library transformers does without it.
#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

Value transposed(Builder& b, Value x) { return b.transpose(x, -2, -1); }

// Offsets split the dimension that belongs to one of the operands, or the one that is summed.
Value grouped_mm(AtenCall& c, Value a, Value b) {
  if (a.rank() == 3 && b.rank() == 3) return c.matmul(a, b);
  const Value offsets = c.tensor("offs");
  if (a.rank() == 2 && b.rank() == 3) return c.op("grouped_matmul", {a, b, offsets});
  if (a.rank() == 2) return c.op("grouped_outer", {transposed(c, a), b, offsets});
  return transposed(c, c.op("grouped_matmul", {transposed(c, b), a, offsets}, {{"transposed", true}}));
}

AtenArg grouped_mm(AtenCall& c) {
  if (c.given("bias")) c.decline("a product by groups with a bias");
  return cast(c, grouped_mm(c, c.tensor(), c.tensor("mat2")), c.dtype("out_dtype"));
}

}  // namespace

void add_grouped_entries(AtenTable& table) {
  table.add("aten._grouped_mm.default(self, mat2, offs=None, bias=None, out_dtype=None)",
            [](AtenCall& c) { return grouped_mm(c); });
  table.op("transformers.grouped_mm_fallback.default(input, weight, offs)", "grouped_matmul");
  table.op("tenon.grouped_matmul.default(x, w, offsets)", "grouped_matmul");
  table.op("tenon.grouped_outer.default(x, y, offsets)", "grouped_outer");
}

}  // namespace tenon::aten
