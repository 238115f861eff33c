// Sorting, selection by order, searching, and the places of nonzero elements.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/common.h"
#include "ops/lines.h"

namespace tenon::ops {
namespace {

const AttrDef kDim = {"dim", AttrKind::kInt, "the dimension to order", Attr(int64_t{-1})};
const AttrDef kDescending = {"descending", AttrKind::kBool, "largest first", Attr(false)};
const Samples kSortSamples = {
    "T[3, 4]",           "T[3, 4]; dim=0, descending=true", "T[]",        "T[0]", "T[2, 0]; dim=0",
    "T[2, 3, 2]; dim=1", "T[20]; descending=true",          "T[1]; dim=0"};

// NaN is the largest.
bool less(const Tensor& x, int64_t a, int64_t b) {
  if (!is_float(x.dtype())) return x.integer(a) < x.integer(b);
  return std::isnan(x.real(b)) ? !std::isnan(x.real(a)) : x.real(a) < x.real(b);
}

const OpDef kSort{
    .name = "sort",
    .family = "sort",
    .doc =
        "Sorts along a dimension; the indices say where each value was. Equal values keep their order. NaN is the "
        "largest.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {kDim, kDescending},
    .results = {"values", "indices"},
    .infer = [](InferContext& c) -> Types {
      c.dim("dim");
      return {c.type(0), {DType::kI64, c.type(0).shape}};
    },
    .semantics = reference([](ReferenceContext& c) {
      const Tensor& x = c.in();
      for_each_line(x.shape(), c.dim("dim"), [&](const std::vector<Sizes>& line) {
        const auto smaller = [&](size_t a, size_t b) { return less(x, x.offset(line[a]), x.offset(line[b])); };
        std::vector<size_t> order(line.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, [&](size_t a, size_t b) {
          const auto [first, second] = c.flag("descending") ? std::pair(b, a) : std::pair(a, b);
          return smaller(first, second) || (!smaller(second, first) && a < b);
        });
        for (size_t i = 0; i < line.size(); ++i) {
          copy_element(c.out(0), c.out(0).offset(line[i]), x, x.offset(line[order[i]]));
          c.out(1).set_integer(c.out(1).offset(line[i]), static_cast<int64_t>(order[i]));
        }
      });
    }),
    .gradient = gradient([](GradContext& g) {
      return g.op("scatter", {g.full_like(g.in(), 0), g.out(1), g.dout()},
                  {{"dim", g.integer("dim")}, {"reduce", std::string("add")}});
    }),
    .loops = LibraryTask{},
    .peer = torch_is("torch.sort(x, dim=dim, descending=descending, stable=True)"),
    .samples = kSortSamples,
};

std::vector<Value> sorted(ExpandContext& e, bool descending) {
  return e.results("sort", {e.in()}, {{"dim", e.attr("dim")}, {"descending", descending}});
}

const OpDef kArgsort{
    .name = "argsort",
    .family = "sort",
    .doc = "The indices of `sort`.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {kDim, kDescending},
    .infer = [](InferContext& c) -> Types {
      c.dim("dim");
      return {{DType::kI64, c.type(0).shape}};
    },
    .semantics = composite([](ExpandContext& e) { return sorted(e, e.flag("descending"))[1]; }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.argsort(x, dim=dim, descending=descending, stable=True)"),
    .samples = kSortSamples,
};

// The number of elements along the dimension.
Expr length_along(const OpView& view) {
  const TensorType& x = view.type(0);
  const int64_t dim = view.dim("dim");
  return x.rank() == 0 ? Expr(1) : x.size(dim);
}

void check_rank(InferContext& c, const Expr& low) {
  const Expr& k = c.expr("k");
  const Expr length = length_along(c);
  if (c.facts().less_equal(low, k) && c.facts().less_equal(k, length)) return;
  fail("k = {} is not known to be in [{}, {}] for dimension {} of {}", to_string(k), to_string(low), to_string(length),
       c.integer("dim"), to_string(c.type(0)));
}

const OpDef kTopk{
    .name = "topk",
    .family = "sort",
    .doc =
        "The k largest (or smallest) elements along a dimension, in order, and their indices: of equals the first "
        "ones.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"k", AttrKind::kExpr, "how many"},
              kDim,
              {"largest", AttrKind::kBool, "the largest; else the smallest", Attr(true)},
              {"sorted", AttrKind::kBool, "whether the order matters; they are in order either way", Attr(true)}},
    .results = {"values", "indices"},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = c.type(0);
      check_rank(c, x.rank() == 0 ? 1 : 0);
      Shape shape = x.shape;
      if (x.rank() > 0) shape[static_cast<size_t>(c.dim("dim"))] = c.expr("k");
      return {{x.dtype, shape}, {DType::kI64, shape}};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      std::vector<Value> all = sorted(e, e.flag("largest"));
      if (e.in().rank() == 0) return all;
      const auto first = [&](Value x) { return e.slice(x, e.integer("dim"), 0, e.expr("k")); };
      return {first(all[0]), first(all[1])};
    }),
    .gradient = ByExpansion{},
    // torch.topk does not define which of equal elements it takes.
    .peer = torch_is("torch.sort(x, dim=dim, descending=largest, stable=True) if x.dim() == 0 else [r.narrow(dim, 0, "
                     "k) for r in torch.sort(x, dim=dim, descending=largest, stable=True)]"),
    .samples = Samples{"T[3, 4]; k=2", "T[3, 4]; k=3, dim=0, largest=false", "T[5]; k=0", "T[5]; k=5, sorted=false",
                       "T[]; k=1", "T[2, 0]; k=1, dim=0", "T[2, 3, 2]; k=1, dim=1"},
};

const OpDef kKthvalue{
    .name = "kthvalue",
    .family = "sort",
    .doc =
        "The k-th smallest element along a dimension, counting from 1, and its index: of equals the first ones come "
        "first.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"k", AttrKind::kExpr, "which, from 1"},
              kDim,
              {"keepdim", AttrKind::kBool, "keep the dimension with size 1", Attr(false)}},
    .results = {"values", "indices"},
    .infer = [](InferContext& c) -> Types {
      check_rank(c, 1);
      Shape shape = c.type(0).rank() == 0 ? Shape{} : without_dims(c.type(0).shape, {c.dim("dim")}, c.flag("keepdim"));
      return {{c.type(0).dtype, shape}, {DType::kI64, shape}};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      std::vector<Value> all = sorted(e, false);
      if (e.in().rank() == 0) return all;
      const auto kth = [&](Value x) {
        const Value one = e.slice(x, e.integer("dim"), e.expr("k") - 1, e.expr("k"));
        return e.flag("keepdim") ? one : e.squeeze(one, e.integer("dim"));
      };
      return {kth(all[0]), kth(all[1])};
    }),
    .gradient = ByExpansion{},
    // torch.kthvalue does not define which of equal elements it names.
    .peer = torch_is("torch.sort(x, stable=True) if x.dim() == 0 else [r.narrow(dim, k - 1, 1) if keepdim else "
                     "r.select(dim, k - 1) for r in torch.sort(x, dim=dim, stable=True)]"),
    .samples = Samples{"T[3, 4]; k=2", "T[3, 4]; k=3, dim=0, keepdim=true", "T[]; k=1", "T[5]; k=5, dim=0",
                       "T[2, 3, 2]; k=1, dim=1", "T[2, 0]; k=1, dim=0"},
};

const OpDef kNonzero{
    .name = "nonzero",
    .family = "sort",
    .doc =
        "The indices of the elements that are not zero, one in a row, in row-major order. How many there are is known "
        "only in the run: `count` is the symbol that stands for it from there on.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"count", AttrKind::kSymbol,
               "a symbol of its own; or a constant, when any other number is a run-time error"}},
    .infer = [](InferContext& c) -> Types { return {{DType::kI64, {c.expr("count"), c.type(0).rank()}}}; },
    .semantics = reference([](ReferenceContext& c) {
      const Tensor& x = c.in();
      std::vector<Sizes> found;
      for_each_index(x.shape(), [&](const Sizes& index) {
        const int64_t at = x.offset(index);
        if (is_float(x.dtype()) ? x.real(at) != 0 : x.integer(at) != 0) found.push_back(index);
      });
      const Expr& count = c.expr("count");
      if (count.is_constant() && !count.is_constant(std::ssize(found))) {
        fail("{} elements are not zero, where {} are expected", found.size(), to_string(count));
      }
      c.allocate(0, DType::kI64, {std::ssize(found), x.rank()});
      int64_t position = 0;
      for (const Sizes& index : found) {
        for (int64_t coordinate : index) c.out().set_integer(position++, coordinate);
      }
    }),
    .gradient = NotDifferentiable{},
    .loops = LibraryTask{},
    .peer = torch_is("torch.nonzero(x)"),
    .samples = Samples{"T[3, 4]; count=K", "T[]; count=K", "T[0, 2]; count=K", "T[10]; count=K", "T[2, 3, 2]; count=K"},
};

// ---- searching and counting -----------------------------------------------------------------------------------------

// Whether the search goes on before this element. NaN in a sequence counts as smaller than all else, as in PyTorch.
bool is_behind(const Tensor& sequence, int64_t at, const Tensor& values, int64_t value, bool right) {
  if (is_float(sequence.dtype())) {
    const double element = sequence.real(at), limit = values.real(value);
    return right ? element > limit : element >= limit;
  }
  const int64_t element = sequence.integer(at), limit = values.integer(value);
  return right ? element > limit : element >= limit;
}

void run_searchsorted(ReferenceContext& c) {
  const Tensor &sequence = c.in(0), &values = c.in(1);
  const int64_t length = sequence.shape().back();
  for_each_index(values.shape(), [&](const Sizes& index) {
    Sizes line(index.begin(), index.begin() + (sequence.rank() - 1));
    line.push_back(0);
    int64_t begin = 0, end = length;
    while (begin < end) {
      line.back() = begin + (end - begin) / 2;
      const bool behind = is_behind(sequence, sequence.offset(line), values, values.offset(index), c.flag("right"));
      (behind ? end : begin) = behind ? line.back() : line.back() + 1;
    }
    c.out().set_integer(c.out().offset(index), begin);
  });
}

const OpDef kSearchsorted{
    .name = "searchsorted",
    .family = "sort",
    .doc =
        "Where each value belongs in a sorted sequence: how many elements are smaller, or with `right` smaller or "
        "equal. A sequence of rank 1 serves all values; else each line of it those of the same line. NaN belongs at "
        "the end. The place is found by halving, which also says what a sequence that is not sorted gives.",
    .operands = std::vector<OperandDef>{{"sequence", kNumbers}, {"values", kNumbers}},
    .attrs = {{"right", AttrKind::kBool, "behind equal elements; else before them", Attr(false)}},
    .infer = [](InferContext& c) -> Types {
      const TensorType &sequence = c.type(0), &values = c.type(1);
      if (sequence.dtype != values.dtype) {
        fail("operands must have one dtype, got {} and {}", to_string(sequence), to_string(values));
      }
      if (sequence.rank() == 0) fail("a sequence has at least one dimension, got {}", to_string(sequence));
      bool fits = sequence.rank() == 1 || sequence.rank() == values.rank();
      for (int64_t dim = 0; fits && dim + 1 < sequence.rank(); ++dim) {
        fits = c.facts().equal(sequence.size(dim), values.size(dim));
      }
      if (!fits) fail("{} does not have one line for each line of {}", to_string(sequence), to_string(values));
      return {{DType::kI64, values.shape}};
    },
    .semantics = reference(run_searchsorted),
    .gradient = NotDifferentiable{},
    .loops = LibraryTask{},
    .peer = torch_is("torch.searchsorted(sequence, values, right=right)"),
    .samples = Samples{"T[5], T[7]", "T[5], T[]; right=true", "T[2, 3], T[2, 4]", "T[2, 1, 6], T[2, 1, 3]; right=true",
                       "T[0], T[3]", "T[4], T[0]", "T[40], T[2, 3]", "T[2, 0], T[2, 2]", "T[0, 3], T[0, 2]"},
};

void run_bincount(ReferenceContext& c) {
  const Tensor& x = c.in();
  std::vector<int64_t> counts(static_cast<size_t>(c.size("minlength")));
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t value = x.integer(x.offset(i));
    if (value < 0) fail("bincount: {} is among the integers: they must not be negative", value);
    if (value >= std::ssize(counts)) counts.resize(static_cast<size_t>(value) + 1);
    ++counts[static_cast<size_t>(value)];
  }
  const Expr& count = c.expr("count");
  if (count.is_constant() && !count.is_constant(std::ssize(counts))) {
    fail("bincount: there are {} counts, where {} are expected", counts.size(), to_string(count));
  }
  c.allocate(0, DType::kI64, {std::ssize(counts)});
  for (size_t i = 0; i < counts.size(); ++i) c.out().set_integer(static_cast<int64_t>(i), counts[i]);
}

const OpDef kBincount{
    .name = "bincount",
    .family = "sort",
    .doc =
        "How often each integer from 0 on occurs, up to the largest and at least `minlength` of them. How many that "
        "are is known only in the run: `count` is the symbol that stands for it from there on. A negative integer is a "
        "run-time error.",
    .operands = std::vector<OperandDef>{{"x", kInts}},
    .attrs = {{"minlength", AttrKind::kExpr, "the least number of counts", Attr(Expr(0))},
              {"count", AttrKind::kSymbol,
               "a symbol of its own; or a constant, when any other number is a run-time error"}},
    .infer = [](InferContext& c) -> Types {
      if (c.type(0).rank() != 1) fail("x must be a vector, got {}", to_string(c.type(0)));
      return {{DType::kI64, {c.expr("count")}}};
    },
    .semantics = reference(run_bincount),
    .gradient = NotDifferentiable{},
    .loops = LibraryTask{},
    .peer = torch_is("torch.bincount(x, minlength=minlength)"),
    .samples = Samples{"T[9] in 0..5; count=K", "T[0]; count=K", "T[4] in 0..3; minlength=7, count=K",
                       "T[0]; minlength=2, count=K", "T[1] in 100..100; count=K"},
    .special_values = false,
};

}  // namespace

OpRefs sort_ops() { return {&kSort, &kArgsort, &kTopk, &kKthvalue, &kNonzero, &kSearchsorted, &kBincount}; }

}  // namespace tenon::ops
