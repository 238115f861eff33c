// Products of matrices by groups of rows: the experts of a mixture.
#include <algorithm>

#include "ops/accumulate.h"
#include "ops/common.h"

namespace tenon::ops {
namespace {

// Where each group ends. An offset that is below the one before it, or past the last row, stands for the nearest end
// that fits: every vector of offsets means something.
std::vector<int64_t> ends_of(const Tensor& offsets, int64_t rows) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (int64_t i = 0; i < offsets.numel(); ++i) {
    end = std::clamp(offsets.integer(offsets.offset(i)), end, rows);
    ends.push_back(end);
  }
  return ends;
}

// Calls body(group, row) for each row of each group.
template <class Body>
void for_each_row(const Tensor& offsets, int64_t rows, Body body) {
  int64_t row = 0;
  const std::vector<int64_t> ends = ends_of(offsets, rows);
  for (size_t group = 0; group < ends.size(); ++group) {
    for (; row < ends[group]; ++row) body(static_cast<int64_t>(group), row);
  }
}

void check_operand(InferContext& c, size_t operand, int64_t rank) {
  const TensorType& type = c.type(operand);
  if (type.rank() != rank) {
    fail("{} must have {} dimensions, got {}", c.op().operands.get()[operand].name, rank, to_string(type));
  }
  if (is_float(type.dtype) && type.dtype != c.type(0).dtype) {
    fail("operands must have one dtype, got {} and {}", to_string(c.type(0)), to_string(type));
  }
}

void check_equal(InferContext& c, const Expr& a, const Expr& b, std::string_view what) {
  if (c.facts().equal(a, b)) return;
  fail("{} differ: {} and {}, of {} and {}", what, a, b, to_string(c.type(0)), to_string(c.type(1)));
}

// ---- grouped_matmul -------------------------------------------------------------------------------------------------

Types grouped_matmul_type(InferContext& c) {
  check_operand(c, 1, 3);
  check_operand(c, 0, 2);
  check_operand(c, 2, 1);
  const bool transposed = c.flag("transposed");
  const TensorType &x = c.type(0), &w = c.type(1);
  check_equal(c, x.size(1), w.size(transposed ? 2 : 1), "the inner sizes");
  check_equal(c, w.size(0), c.type(2).size(0), "the numbers of groups");
  return {{x.dtype, {x.size(0), w.size(transposed ? 1 : 2)}}};
}

void run_grouped_matmul(ReferenceContext& c) {
  const Tensor &x = c.in(0), &w = c.in(1);
  const bool transposed = c.flag("transposed");
  for_each_row(c.in(2), x.shape()[0], [&](int64_t group, int64_t row) {
    for (int64_t column = 0; column < c.out().shape()[1]; ++column) {
      Accumulator sum(x.dtype());
      for (int64_t k = 0; k < x.shape()[1]; ++k) {
        const int64_t at = transposed ? w.offset(Sizes{group, column, k}) : w.offset(Sizes{group, k, column});
        sum.add_product(x, x.offset(Sizes{row, k}), w, at);
      }
      sum.store(c.out(), c.out().offset(Sizes{row, column}));
    }
  });
}

const OpDef kGroupedMatmul{
    .name = "grouped_matmul",
    .family = "matmul",
    .doc =
        "Each row of x times the matrix of its group. Group g has the rows from the end of the group before it up to "
        "`offsets[g]`; an offset below the one before it makes an empty group. Rows after the last group give zeros.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"w", kFloats}, {"offsets", kIndices}},
    .attrs = {{"transposed", AttrKind::kBool, "w is [groups, out, in]; else [groups, in, out]", Attr(false)}},
    .infer = grouped_matmul_type,
    .semantics = reference(run_grouped_matmul),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Value x = g.in(0), offsets = g.in(2);
      const bool transposed = g.flag("transposed");
      const Value dx = g.op("grouped_matmul", {g.dout(), g.in(1), offsets}, {{"transposed", !transposed}});
      const Value left = transposed ? g.dout() : x, right = transposed ? x : g.dout();
      return {dx, g.op("grouped_outer", {left, right, offsets}), {}};
    }),
    .loops = LibraryTask{},
    .peer = torch_is("(lambda m, ends: torch.bmm(x.unsqueeze(1), torch.cat([m, m.new_zeros(1, *m.shape[1:])])"
                     "[torch.searchsorted(ends, torch.arange(len(x)), right=True)]).squeeze(1))"
                     "(w.mT if transposed else w, offsets.long().clamp(0, len(x)).cummax(0).values)"),
    .samples = Samples{"T[7, 3], T[2, 3, 4], i64[2] in 0..7", "T[9, 2], T[4, 5, 2], i32[4] in -2..12; transposed=true",
                       "T[20, 9], T[3, 9, 40], i32[3] in 0..20", "T[5, 3], T[1, 3, 2], i64[1] in 5..5",
                       "T[4, 3], T[2, 3, 2], i64[2] in 0..0", "T[0, 3], T[2, 3, 4], i64[2] in 0..1",
                       "T[3, 0], T[2, 0, 2], i64[2] in 1..3", "T[3, 2], T[0, 2, 2], i64[0]",
                       "T[3, 2], T[2, 2, 0], i64[2] in 1..3"},
    .special_values = false,
};

// ---- grouped_outer --------------------------------------------------------------------------------------------------

Types grouped_outer_type(InferContext& c) {
  for (size_t operand : {0, 1}) check_operand(c, operand, 2);
  check_operand(c, 2, 1);
  const TensorType &x = c.type(0), &y = c.type(1);
  check_equal(c, x.size(0), y.size(0), "the numbers of rows");
  return {{x.dtype, {c.type(2).size(0), x.size(1), y.size(1)}}};
}

void run_grouped_outer(ReferenceContext& c) {
  const Tensor &x = c.in(0), &y = c.in(1);
  std::vector<Accumulator> sums(static_cast<size_t>(c.out().numel()), Accumulator(x.dtype()));
  for_each_row(c.in(2), x.shape()[0], [&](int64_t group, int64_t row) {
    for (int64_t i = 0; i < x.shape()[1]; ++i) {
      for (int64_t j = 0; j < y.shape()[1]; ++j) {
        const int64_t at = c.out().offset(Sizes{group, i, j});
        sums[static_cast<size_t>(at)].add_product(x, x.offset(Sizes{row, i}), y, y.offset(Sizes{row, j}));
      }
    }
  });
  for (int64_t i = 0; i < c.out().numel(); ++i) sums[static_cast<size_t>(i)].store(c.out(), i);
}

const OpDef kGroupedOuter{
    .name = "grouped_outer",
    .family = "matmul",
    .doc =
        "For each group the sum of the outer products of its rows: the transposed rows of x times those of y. Group g "
        "has the rows from the end of the group before it up to `offsets[g]`, as of `grouped_matmul`, whose gradient "
        "this is.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"y", kFloats}, {"offsets", kIndices}},
    .infer = grouped_outer_type,
    .semantics = reference(run_grouped_outer),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      return {g.op("grouped_matmul", {g.in(1), g.dout(), g.in(2)}, {{"transposed", true}}),
              g.op("grouped_matmul", {g.in(0), g.dout(), g.in(2)}),
              {}};
    }),
    .loops = LibraryTask{},
    .peer =
        torch_is("torch.einsum('tg,ti,tj->gij', (torch.searchsorted(offsets.long().clamp(0, len(x)).cummax(0).values, "
                 "torch.arange(len(x)), right=True).unsqueeze(1) == torch.arange(len(offsets))).to(x.dtype), x, y)"),
    .samples = Samples{"T[7, 3], T[7, 2], i64[2] in 0..7", "T[9, 2], T[9, 5], i32[4] in -2..12",
                       "T[20, 9], T[20, 40], i32[3] in 0..20", "T[5, 3], T[5, 1], i64[1] in 5..5",
                       "T[4, 3], T[4, 2], i64[2] in 0..0", "T[0, 3], T[0, 2], i64[2] in 0..1",
                       "T[3, 0], T[3, 2], i64[2] in 1..3", "T[3, 2], T[3, 2], i64[0]"},
    .special_values = false,
};

}  // namespace

OpRefs grouped_ops() { return {&kGroupedMatmul, &kGroupedOuter}; }

}  // namespace tenon::ops
