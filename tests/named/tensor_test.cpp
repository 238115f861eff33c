#include "named/tensor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "backends/backend.h"
#include "graph/evaluate.h"
#include "loops/schedule.h"
#include "tests/graph/support_values.h"

namespace tenon::test {
namespace {

using named::Symbol;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor vector_of(const std::vector<double>& values, DType dtype = DType::kF32) {
  Tensor tensor = Tensor::zeros(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Tensor matrix_of(int64_t rows, const std::vector<double>& values) {
  const Tensor flat = vector_of(values);
  const int64_t columns = flat.numel() / rows;
  return Tensor::borrow(DType::kF32, {rows, columns}, {columns, 1}, flat.data(), flat.owner());
}

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.diagnostic().message;
  }
  return "no error";
}

class NamedTensor : public testing::Test {
 protected:
  static std::vector<double> values(const named::Tensor& tensor) { return values_of(tensor.data()); }

  Symbol m{"m"}, k{"k"}, n{"n"}, o{"o"};
};

// ---- names ----------------------------------------------------------------------------------------------------------

TEST_F(NamedTensor, SymbolsOfOneNameAreTwoDimensions) {
  const Symbol other("m");
  const named::Tensor a(vector_of({1, 2}), m), b(vector_of({10, 20, 30}), other);
  const named::Tensor c = a * b;
  EXPECT_EQ(c.data().shape(), (Sizes{2, 3}));
  EXPECT_THAT(values(c), ElementsAre(10, 20, 30, 20, 40, 60));
  EXPECT_EQ(c.ir().vars()[0].name, "m");
  EXPECT_EQ(c.ir().vars()[1].name, "m_1");
}

TEST_F(NamedTensor, NamesDoNotMeetSizesOrEachOther) {
  const Symbol sneaky("m_size"), another("m_1"), twin("m");
  const named::Tensor a(m), b(sneaky), c(another), d(twin);
  const named::Tensor sum = a + b + c + d;
  const auto feed = [](double x) { return vector_of({x, x}); };
  const Tensor result = sum.data({{a, feed(1)}, {b, feed(2)}, {c, feed(3)}, {d, feed(4)}});
  EXPECT_EQ(result.shape(), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(result.real(7), 10);
}

TEST_F(NamedTensor, BroadcastsByName) {
  const named::Tensor a(vector_of({1, 2}), m), b(vector_of({10, 20, 30}), n);
  EXPECT_THAT(values(b + a), ElementsAre(11, 12, 21, 22, 31, 32));
  EXPECT_THAT(values((a + b).sum(m)), ElementsAre(23, 43, 63));
}

TEST_F(NamedTensor, RenamedInputsShareTheirData) {
  const named::Tensor a(matrix_of(2, {1, 2, 3, 4}), {m, k});
  const named::Tensor gram = (a * a.to({n, k})).sum(k);
  EXPECT_THAT(values(gram), ElementsAre(5, 11, 11, 25));
  a.bind(matrix_of(1, {3, 4}));
  EXPECT_THAT(values(gram), ElementsAre(25));
}

TEST_F(NamedTensor, RenamesWhatIsComputed) {
  const named::Tensor a(vector_of({1, 2, 3}), m);
  const named::Tensor sums = a + 1;
  EXPECT_THAT(values((sums * sums.to(n)).sum(n)), ElementsAre(18, 27, 36));
}

TEST_F(NamedTensor, TransposesOnlyTheOrder) {
  const named::Tensor a(matrix_of(2, {1, 2, 3, 4, 5, 6}), {m, k});
  const named::Tensor turned = a.transpose({k, m});
  EXPECT_THAT(values(turned + 0), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(values(turned[{2, o}]), ElementsAre(3, 6));
  EXPECT_THAT(values(a + turned), ElementsAre(2, 4, 6, 8, 10, 12));
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

TEST_F(NamedTensor, StaySymbolicUntilDataComes) {
  named::Tensor a({m, k}), b({k, n});
  const named::Tensor c = (a * b).sum(k);
  EXPECT_EQ(c.shape(), (Shape{m.size(), n.size()}));
  EXPECT_THAT(c.loop_tree().dump(), HasSubstr("for m in m_size"));
  a.bind(matrix_of(1, {1, 2}));
  b.bind(matrix_of(2, {3, 4, 5, 6}));
  EXPECT_EQ(c.shape(), (Shape{1, 2}));
  EXPECT_THAT(values(c), ElementsAre(13, 16));
  EXPECT_THAT(c.loop_tree().dump(), HasSubstr("for m in 1"));
}

TEST_F(NamedTensor, OneKernelServesAllSizesOfFeeds) {
  named::clear_cache();
  const named::Tensor x(m), w(vector_of({1, 1, 1}), k);
  const named::Tensor c = (x[{2 * o + k}] * w).sum(k);
  EXPECT_THAT(values_of(c.data({{x, vector_of({1, 2, 3, 4, 5})}})), ElementsAre(6, 12));
  EXPECT_THAT(values_of(c.data({{x, vector_of({1, 2, 3, 4, 5, 6, 7, 8})}})), ElementsAre(6, 12, 18));
  EXPECT_EQ(named::cache_size(), 1);
}

TEST_F(NamedTensor, FedSizesAreChecked) {
  const named::Tensor x(m);
  const named::Tensor c = x[{o + 2}].with_sizes({{o, 4}});
  EXPECT_THAT(values_of(c.data({{x, vector_of({1, 2, 3, 4, 5, 6})}})), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(error_of([&] { c.data({{x, vector_of({1, 2, 3, 4, 5})}}); }),
              HasSubstr("the index o + 2 of m: 5 is 5, not from 0 to 4"));
}

TEST_F(NamedTensor, FlattensAndSplitsUnknownSizes) {
  const named::Tensor x({m, n});
  const named::Tensor turned = x.flatten({n, m}, o).split(o, {k, Symbol("rest")}, 2);
  const Tensor result = turned.data({{x, matrix_of(2, {1, 2, 3, 4, 5, 6})}});
  EXPECT_EQ(result.shape(), (Sizes{3, 2}));
  EXPECT_THAT(values_of(result), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(NamedTensor, WhatSizesMustSatisfyIsCheckedWithTheData) {
  const named::Tensor x({m, n}), y(k);
  const named::Tensor halves = x.flatten({m, n}, o).split(o, {Symbol("half"), Symbol("rest")}, 2);
  EXPECT_THAT(error_of([&] { halves.data({{x, matrix_of(3, {1, 2, 3})}}); }),
              HasSubstr("o of f32[o] split into [half, rest]: m_size*n_size % 2 is 1, not from 0 to 0"));
  const named::Tensor sum = x.flatten({m, n}, o).to(k) + y;
  EXPECT_THAT(values_of(sum.data({{x, matrix_of(1, {1, 2})}, {y, vector_of({3, 4})}})), ElementsAre(4, 6));
  EXPECT_NE(error_of([&] { sum.data({{x, matrix_of(1, {1, 2})}, {y, vector_of({3, 4, 5})}}); }), "no error");
}

TEST_F(NamedTensor, TheSmallestLimitIsTheSize) {
  const named::Tensor x(vector_of({1, 2, 3, 4, 5, 6, 7, 8}), m), w(vector_of({1, 1}), k), y(vector_of({10, 20, 30}), n);
  EXPECT_THAT(values((x[{o + k}] * w).sum(k) + y[{o}]), ElementsAre(13, 25, 37));
  EXPECT_THAT(values(y[{o}] + (x[{o + k}] * w).sum(k)), ElementsAre(13, 25, 37));
}

TEST_F(NamedTensor, EmptyDimensions) {
  const named::Tensor x(Tensor::zeros(DType::kF32, {0, 3}), {m, n});
  EXPECT_EQ(x.flatten({n, m}, o).data().shape(), Sizes{0});
  EXPECT_EQ((x[{o, n}].data().shape()), (Sizes{0, 3}));
  EXPECT_THAT(values(x.sum(m)), ElementsAre(0, 0, 0));
  EXPECT_THAT(values(x.max(m)), ElementsAre(-INFINITY, -INFINITY, -INFINITY));
  EXPECT_THAT(values(x.pad(m, 1, 0, 7)), ElementsAre(7, 7, 7));
}

TEST_F(NamedTensor, ContradictionsAreErrorsAtTheCall) {
  const named::Tensor a(vector_of({1, 2, 3}), m), b(vector_of({1, 2, 3, 4}), m);
  EXPECT_EQ(
      error_of([&] { a* b; }),
      "m has the size 3 from dimension 0 of the data f32[3] over [m], and the size 4 from dimension 0 of the data "
      "f32[4] over [m]");
  EXPECT_THAT(error_of([&] { (a.sum() + b.sum()); }), HasSubstr("m has the size 3 from"));
  EXPECT_THAT(error_of([&] { a.with_sizes({{m, 4}}); }), HasSubstr("the size 4 from with_sizes of f32[m]"));
  EXPECT_THAT(error_of([&] { a.split(m, {n, k}, 2); }), HasSubstr("has no solution for the size of n"));
  EXPECT_THAT(error_of([&] { a.pad(m, -2, -2); }), HasSubstr("the size of m would be -1"));
}

TEST_F(NamedTensor, LateContradictionsAreErrorsWhenCompiled) {
  const named::Tensor a(m), b(m);
  const named::Tensor c = a + b;
  a.bind(vector_of({1, 2, 3}));
  b.bind(vector_of({1, 2, 3, 4}));
  EXPECT_THAT(error_of([&] { c.data(); }), HasSubstr("m has the size 3 from"));
}

TEST_F(NamedTensor, IndicesOutsideAreErrorsAtTheCall) {
  const named::Tensor a(vector_of({1, 2, 3}), m);
  EXPECT_EQ(error_of([&] { a[{m + 1}]; }),
            "the index m + 1 of m reaches 3, outside of its size 3, with m of size 3: pad it, read it with at(), or "
            "use smaller sizes");
  EXPECT_THAT(error_of([&] { a[{o - 1}]; }), HasSubstr("the index o - 1 of m reaches -1"));
  EXPECT_THAT(error_of([&] { a[{3}]; }), HasSubstr("reaches 3, outside of its size 3"));
  EXPECT_THAT(values(a.at({o - 1}, 9).with_sizes({{o, 5}})), ElementsAre(9, 1, 2, 3, 9));
}

TEST_F(NamedTensor, UnknownSizesAreErrors) {
  const named::Tensor a(vector_of({1, 2, 3}), m);
  EXPECT_EQ(error_of([&] { a.at({o - 1}).data(); }),
            "nothing says what o_size is: bind data over it, or use with_sizes");
  EXPECT_THAT(error_of([&] { (named::Tensor(n) + a).data(); }), HasSubstr("an input f32[n_size] has no data: bind it"));
}

TEST_F(NamedTensor, GatheredIndicesAreChecked) {
  const named::Tensor x(vector_of({1, 2, 3}), m);
  const named::Tensor good(vector_of({2, 0}, DType::kI32), n), narrow(vector_of({1, 2}, DType::kI8), n);
  const named::Tensor bad(vector_of({0, 3}, DType::kI64), n);
  EXPECT_THAT(values(x[{good}]), ElementsAre(3, 1));
  EXPECT_THAT(values(x[{narrow}] + x[{good}]), ElementsAre(5, 4));
  EXPECT_THAT(error_of([&] { x[{bad}].data(); }), HasSubstr("index 3 is out of range for a size of 3"));
  EXPECT_THAT(error_of([&] { x[{x}]; }), HasSubstr("indices are f32[m], not integers"));
}

// ---- chains of views ------------------------------------------------------------------------------------------------

// Applies the same random views twice: as one kernel, and with the data in between.
class RandomViews {
 public:
  explicit RandomViews(uint64_t seed) : random_(seed) {}

  void run() {
    Tensor data = Tensor::zeros(DType::kF32, {number(1, 4), number(1, 4)});
    for (int64_t i = 0; i < data.numel(); ++i) data.set_real(i, static_cast<double>(i + 1));
    named::Tensor lazily(data, {Symbol("a"), Symbol("b")});
    named::Tensor stepwise = lazily;
    for (int64_t steps = number(2, 5); steps > 0; --steps) {
      const uint64_t choice = random_();
      lazily = viewed(lazily, choice);
      stepwise = viewed(named::Tensor(stepwise.data(), fresh(stepwise)), choice);
      if (stepwise.data().numel() > 400) break;
    }
    ASSERT_TRUE(identical(lazily.data(), stepwise.data())) << to_string(lazily.ir());
  }

 private:
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  static named::Symbols fresh(const named::Tensor& x) {
    named::Symbols symbols;
    for (size_t i = 0; i < x.dims().size(); ++i) symbols.emplace_back("x");
    return symbols;
  }

  static named::Tensor viewed(const named::Tensor& x, uint64_t choice) {
    Random random(choice);
    const auto below = [&](uint64_t limit) { return random() % limit; };
    const Symbol dim = x.dims()[below(x.dims().size())], p("p"), q("q");
    const int64_t size = x.size(dim).constant();
    std::vector<named::Coordinate> index(x.dims().begin(), x.dims().end());
    named::Coordinate& along = index[static_cast<size_t>(std::ranges::find(x.dims(), dim) - x.dims().begin())];
    const auto low = static_cast<int64_t>(below(3)), high = static_cast<int64_t>(below(3));
    switch (below(9)) {
      case 0:
        return x.pad(dim, low, high, below(2) == 0 ? 0 : 7);
      case 1:
        return x.pad(dim, size > 1 ? -1 : 0, high);
      case 2:
        along = size - 1 - p;
        return x[index];
      case 3:
        along = 2 * p + (size > 1 ? low % 2 : 0);
        return x[index];
      case 4:
        along = p + q - low;
        return x.at(index, 9).with_sizes({{p, size}, {q, 2}});
      case 5:
        return x.flatten(below(2) == 0 ? x.dims() : std::vector(x.dims().rbegin(), x.dims().rend()), p);
      case 6:
        return size % 2 == 0 ? x.split(dim, {p, q}, 2) : x.to(fresh(x));
      case 7:
        return concat({{x, dim}, {x.pad(dim, 1, 0, 5, q), q}}, p);
      default:
        return x.transpose(std::vector(x.dims().rbegin(), x.dims().rend()));
    }
  }

  Random random_;
};

TEST(NamedViews, ChainsAreWhatTheirStepsAre) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomViews(seed).run();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_F(NamedTensor, AViewOfViewsIsOneView) {
  const named::Tensor x(vector_of({1, 2, 3, 4}), m), w(vector_of({1, 1, 1}), k);
  const loops::IR ir = (x.pad(m, 1, 1)[{2 * o + k}] * w).sum(k).ir();
  const auto is_view = [](const loops::Node& node) { return node.as<loops::View>() != nullptr; };
  EXPECT_EQ(std::ranges::count_if(ir.nodes(), is_view), 1);
  EXPECT_THAT(to_string(ir), HasSubstr("where"));
}

// ---- dtypes ---------------------------------------------------------------------------------------------------------

TEST_F(NamedTensor, PromotesAsPyTorchDoes) {
  const auto of = [&](DType dtype) { return named::Tensor(vector_of({1, 2}, dtype), m); };
  EXPECT_EQ((of(DType::kI32) + of(DType::kF16)).dtype(), DType::kF16);
  EXPECT_EQ((of(DType::kBF16) * of(DType::kF16)).dtype(), DType::kF32);
  EXPECT_EQ((of(DType::kI32) / of(DType::kI32)).dtype(), DType::kF32);
  EXPECT_EQ((of(DType::kI8) + 1).dtype(), DType::kI8);
  EXPECT_EQ((of(DType::kI8) + 1.5).dtype(), DType::kF32);
  EXPECT_EQ((of(DType::kF64) + 1.5).dtype(), DType::kF64);
  EXPECT_EQ((of(DType::kBool) + 1).dtype(), DType::kI64);
  EXPECT_EQ((of(DType::kF16) < 1).dtype(), DType::kBool);
  EXPECT_EQ(of(DType::kI32).sum().dtype(), DType::kI64);
  EXPECT_EQ(of(DType::kBF16).sum().dtype(), DType::kBF16);
  EXPECT_EQ(where(of(DType::kF32) > 1, of(DType::kI32), 0).dtype(), DType::kI32);
  EXPECT_EQ(of(DType::kF32).cast(DType::kU8).dtype(), DType::kU8);
}

TEST_F(NamedTensor, ComputesMixedDtypes) {
  const named::Tensor halves(vector_of({1.5, 2048}, DType::kF16), m), integers(vector_of({3, 4}, DType::kI32), m);
  EXPECT_THAT(values(halves + integers), ElementsAre(4.5, 2052));
  EXPECT_THAT(values(halves + 1), ElementsAre(2.5, 2048));  // rounded to f16
  EXPECT_THAT(values(integers / 2), ElementsAre(1.5, 2));
  EXPECT_THAT(values(named::Tensor(vector_of({1}, DType::kF64), m) * 0.1), ElementsAre(0.1));
  EXPECT_THAT(values(where(halves > integers, halves, integers)), ElementsAre(3, 2048));
  EXPECT_THAT(error_of([&] { named::Tensor(vector_of({1}, DType::kU8), m) + 300; }), HasSubstr("300 does not fit u8"));
}

// A sample of an op over symbols, where its operands have one shape.
std::optional<named::Tensor> applied(const Sample& sample, const std::vector<Tensor>& inputs) {
  named::Symbols symbols;
  for (int64_t i = 0; i < inputs[0].rank(); ++i) symbols.emplace_back("d");
  std::vector<named::Operand> operands;
  for (const Tensor& input : inputs) {
    if (input.shape() != inputs[0].shape()) return {};
    operands.emplace_back(named::Tensor(input, symbols));
  }
  NamedAttrs attrs;
  const Node& node = sample.graph.nodes()[0];
  for (size_t i = 0; i < node.attrs.size(); ++i) attrs.emplace_back(node.op->attrs[i].name, node.attrs[i]);
  const Result<named::Tensor> result = attempt([&] { return named::apply(sample.op->name.get(), operands, attrs); });
  return result ? std::optional(*result) : std::nullopt;
}

TEST_F(NamedTensor, AppliesEveryElementwiseOpByName) {
  std::set<std::string_view> seen;
  for (const OpDef* op : op_table()) {
    int applied_to = 0;  // Three samples are enough to test the name: other tests compare what ops compute.
    for (const Sample& sample : samples_of(*op)) {
      if (applied_to == 3) break;
      const std::vector<Tensor> inputs = inputs_for(sample);
      if (inputs.size() != op->operands.get().size() || inputs.empty()) continue;
      const std::optional<named::Tensor> tensor = applied(sample, inputs);
      if (!tensor) continue;
      ++applied_to;
      seen.insert(op->name.get());
      EXPECT_TRUE(close(tensor->data(), evaluate(sample.graph, inputs).value()[0])) << sample.name();
    }
    const bool is_elementwise = std::holds_alternative<Elementwise>(op->semantics.get());
    if (is_elementwise) EXPECT_TRUE(seen.contains(op->name.get())) << op->name.get();
  }
  for (std::string_view name : {"relu", "gelu", "silu", "leaky_relu", "softplus", "bitwise_not", "isnan", "clamp"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
  for (std::string_view name : {"softmax", "sum", "squeeze", "flatten", "mean", "cumsum", "sort"}) {
    EXPECT_FALSE(seen.contains(name)) << name;
  }
  EXPECT_THAT(error_of([&] { named::apply("expp", {1.0}); }), HasSubstr("did you mean"));
  EXPECT_THAT(error_of([&] { named::apply("sum", {1.0}); }), HasSubstr("sum is not a function of single elements"));
  EXPECT_THAT(error_of([&] { named::apply("exp", {1.0, 2.0}); }), HasSubstr("exp takes 1 operands, got 2"));
  EXPECT_EQ(values_of(named::apply("leaky_relu", {-2.0}, {{"negative_slope", 0.5}}).data())[0], -1);
}

// ---- mistakes -------------------------------------------------------------------------------------------------------

TEST_F(NamedTensor, MistakesSayWhatTheyAre) {
  const named::Tensor a({m, k});
  EXPECT_EQ(error_of([&] { named::Tensor({m, m}); }),
            "m is there twice in [m, m]: each dimension needs a Symbol of its own");
  EXPECT_EQ(error_of([&] { a.sum(n); }), "f32[m, k] has no dimension n");
  EXPECT_EQ(error_of([&] { a.bind(vector_of({1})); }),
            "f32[m, k] cannot be bound to f32[1]: their dtypes and ranks must be the same");
  EXPECT_EQ(error_of([&] { (a + 1).bind(vector_of({1})); }), "bind takes an input, but f32[m, k] is computed");
  EXPECT_EQ(error_of([&] { a[{m}]; }), "f32[m, k] has 2 dimensions, got 1 indices");
  EXPECT_EQ(error_of([&] { a.to(n); }), "f32[m, k] has 2 dimensions, got 1 new ones: [n]");
  EXPECT_EQ(error_of([&] { a.transpose(m); }), "[m] is no order of all dimensions of f32[m, k]");
  EXPECT_THAT(error_of([&] { named::concat({{a, m}, {a, m}}, k); }), HasSubstr("k is there twice in [k, k]"));
  EXPECT_THAT(error_of([&] { a.backend("interpretre"); }), HasSubstr("there is no backend 'interpretre'"));
  EXPECT_THAT(error_of([&] { a[{Expr(symbolic::Symbol("x")), k}]; }),
              HasSubstr("x in the index x is no named::Symbol"));
  EXPECT_THAT(error_of([&] { a.set((a + a.to({n, o})).ir()); }), HasSubstr("the schedule is of another kernel (lazy_"));
  EXPECT_EQ(error_of([&] { (a + 1).data({{named::Tensor({n, o}), matrix_of(1, {1})}}); }),
            "the feed f32[n, o] is no input of the expression f32[m, k]");
}

// ---- schedules ------------------------------------------------------------------------------------------------------

TEST_F(NamedTensor, ASchedulesSizesMayComeLater) {
  const named::Tensor x(m);
  const named::Tensor sum = (x * 2).sum();
  const loops::LoopTree tree = sum.loop_tree();
  sum.set(split(tree, tree.roots()[0], 4).value());
  EXPECT_THAT(sum.backend("interpreter").code(), HasSubstr("for m in m_size // 4 r m_size % 4 by 4"));
  x.bind(vector_of({1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(values(sum), ElementsAre(42));
  EXPECT_THAT(values_of(sum.data({{x, vector_of({1, 2, 3})}})), ElementsAre(12));
}

TEST_F(NamedTensor, AScheduleOfOtherSizesIsRefused) {
  const named::Tensor x(vector_of({1, 2, 3, 4}), m);
  const named::Tensor negated = -x;
  negated.set(split(negated.loop_tree(), {0}, 2).value());
  EXPECT_THAT(values(negated), ElementsAre(-1, -2, -3, -4));
  x.bind(vector_of({1, 2, 3}));
  EXPECT_EQ(error_of([&] { negated.data(); }), "the schedule is of another kernel: its input 0 is f32[4], not f32[3]");
}

TEST_F(NamedTensor, AScheduleOfAnotherComputationIsRefused) {
  const named::Tensor a(vector_of({1, 2}), m);
  const named::Tensor e = a * 2;
  const std::vector<named::Tensor> others = {a * 3,
                                             a + 2,
                                             -a * 2,
                                             a * 2 * 1,
                                             a * a,
                                             a[{1 - m}] * 2,
                                             (a * 2).sum() + a,
                                             named::index(m) * a,
                                             a.pad(m, 0, 0) * 2};
  for (const named::Tensor& other : others) {
    EXPECT_EQ(error_of([&] { e.set(other.loop_tree()); }),
              fmt::format("the schedule is of another kernel ({}), this one is {}: make it from ir() or loop_tree()",
                          other.ir().name(), e.ir().name()));
  }
  EXPECT_THAT(values(e), ElementsAre(2, 4));
}

TEST_F(NamedTensor, AKernelsNameIsItsStructure) {
  const auto name_with = [](const Symbol& row, const Symbol& column, double factor) {
    const named::Tensor x({row, column});
    return (x.pad(column, 1, 1).sum(row) * factor).ir().name();
  };
  const std::string name = name_with(m, k, 2);
  EXPECT_EQ(name, "lazy_e53467b5d33c7f75") << "texts that were saved must stay loadable";
  EXPECT_EQ(name_with(Symbol("z"), Symbol("a"), 2), name);
  EXPECT_EQ(name_with(k, m, 2), name);
  EXPECT_NE(name_with(m, k, 2.5), name);
  const named::Tensor a(m), b(m), wide(m, DType::kF64);
  EXPECT_EQ((a - b).ir().name(), (b - a).ir().name());
  EXPECT_NE((a - a).ir().name(), (a - b).ir().name());
  EXPECT_NE((-a).ir().name(), (-wide).ir().name());
  EXPECT_NE((a * 0.0).ir().name(), (a * -0.0).ir().name());
  EXPECT_NE(named::index(m).with_sizes({{m, 5}}).sum().ir().name(),
            named::index(m).with_sizes({{m, 6}}).sum().ir().name());
}

TEST_F(NamedTensor, ASavedScheduleFitsTheSameExpressionOverOtherSymbols) {
  const named::Tensor x(vector_of({1, 2, 3, 4, 5}), m), y(vector_of({1, 2, 3, 4, 5}), n);
  const named::Tensor saved = (x * 2).sum(), loaded = (y * 2).sum();
  const std::string text = to_string(split(saved.loop_tree(), {0}, 2).value().ir);
  loaded.set(loops::parse(text).value());
  EXPECT_EQ(to_string(loaded.ir()), text);
  EXPECT_THAT(values(loaded), ElementsAre(30));
}

TEST_F(NamedTensor, AScheduleOfOtherFoldedSizesIsRefused) {
  const named::Tensor x(vector_of({1, 2, 3, 4}), m);
  const named::Tensor last = named::index(n).sum() + (x[{n}] * 0).sum().cast(DType::kI64);
  last.set(last.loop_tree());
  EXPECT_THAT(values(last), ElementsAre(6));
  x.bind(vector_of({1, 2, 3}));
  EXPECT_THAT(error_of([&] { last.data(); }), HasSubstr("the schedule is of another kernel"));
}

TEST_F(NamedTensor, AScheduleCanBeTakenBack) {
  const named::Tensor negated = -named::Tensor(vector_of({1, 2, 3, 4}), m);
  const loops::IR before = negated.ir();
  negated.set(split(negated.loop_tree(), {0}, 2).value());
  EXPECT_FALSE(negated.ir() == before);
  EXPECT_TRUE(negated.reset_schedule().ir() == before);
  EXPECT_THAT(values(negated), ElementsAre(-1, -2, -3, -4));
}

TEST_F(NamedTensor, Means) {
  const named::Tensor x(matrix_of(2, {1, 2, 3, 4, 5, 9}), {m, n});
  EXPECT_THAT(values(x.mean()), ElementsAre(4));
  EXPECT_THAT(values(x.mean(n)), ElementsAre(2, 6));
  EXPECT_THAT(values(x.mean({n, m})), ElementsAre(4));
  const named::Tensor integers(vector_of({1, 2}, DType::kI32), m);
  EXPECT_EQ(integers.mean().dtype(), DType::kF32);
  EXPECT_THAT(values(integers.mean()), ElementsAre(1.5));
  const named::Tensor half(vector_of({60000, 60000}, DType::kF16), m);
  EXPECT_EQ(half.mean().dtype(), DType::kF16);
  EXPECT_THAT(values(half.mean()), ElementsAre(60000)) << "their sum is no f16";
  EXPECT_TRUE(std::isnan(values(named::Tensor(vector_of({}), m).mean())[0]));
  const named::Tensor later(m);
  EXPECT_THAT(values_of(later.mean().data({{later, vector_of({1, 2, 6})}})), ElementsAre(3));
}

// ---- backends -------------------------------------------------------------------------------------------------------

TEST_F(NamedTensor, RunsOnTheFastestBackendThatIsThere) {
  EXPECT_EQ(named::default_backend(), "cpu");
  const named::Tensor a(vector_of({1, 2}), m);
  const named::Tensor negated = -a;
  EXPECT_EQ(negated.code(), (-a).backend("cpu").code());
  const std::shared_ptr<const Backend> cpu = find_backend("cpu").value();
  unregister_backend("cpu");
  EXPECT_EQ(named::default_backend(), "interpreter");
  EXPECT_THAT(values(negated), ElementsAre(-1, -2));
  register_backend(cpu);
}

TEST_F(NamedTensor, RunsByTheBackendsScheduleUntilOneIsSet) {
  const named::Tensor a(matrix_of(64, std::vector<double>(64 * 64, 1)), {m, k});
  const named::Tensor b(matrix_of(64, std::vector<double>(64 * 64, 2)), {k, n});
  const named::Tensor c = (a * b).sum(k);
  const std::string planned = c.code();
  EXPECT_EQ(values(c)[5], 128);
  c.set(c.loop_tree());
  EXPECT_NE(c.code(), planned);
  EXPECT_EQ(values(c)[5], 128);
  EXPECT_EQ(c.reset_schedule().code(), planned);
}

// ---- the cache ------------------------------------------------------------------------------------------------------

struct Counting : Backend {
  Counting() : Backend("counting") {}
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    ++compilations;
    return find_backend("interpreter").value()->compile(tree).value();
  }
  mutable std::atomic<int> compilations = 0;
};

class NamedCache : public NamedTensor {
 protected:
  void SetUp() override {
    named::clear_cache();
    before_ = named::default_backend();
    register_backend(counting_);
    named::set_default_backend("counting");
  }
  void TearDown() override {
    named::set_default_backend(before_);
    unregister_backend("counting");
  }
  // How many kernels it compiled.
  int compiles(const named::Tensor& tensor) const {
    const int before = counting_->compilations;
    tensor.data();
    return counting_->compilations - before;
  }

  std::string before_;
  std::shared_ptr<Counting> counting_ = std::make_shared<Counting>();
  named::Tensor a_{vector_of({1, 2}), m}, b_{vector_of({3, 4}), m};
};

TEST_F(NamedCache, EqualGraphsShareAKernel) {
  EXPECT_EQ(compiles(a_ + b_), 1);
  EXPECT_EQ(compiles(a_ + b_), 0);
  EXPECT_EQ(compiles(b_ + a_), 0);
  const Symbol other("other");
  EXPECT_EQ(compiles(named::Tensor(vector_of({5, 6}), other) + named::Tensor(vector_of({7, 8}), other)), 0);
  EXPECT_EQ(named::cache_size(), 1);
}

TEST_F(NamedCache, WhatIsSharedIsPartOfTheKey) {
  EXPECT_EQ(compiles(a_ + b_), 1);
  EXPECT_EQ(compiles(a_ + a_), 1);
  EXPECT_EQ(compiles(b_ + b_), 0);
  const named::Tensor square(matrix_of(2, {1, 2, 3, 4}), {m, k});
  EXPECT_EQ(compiles(square[{m, k}] + square[{k, m}]), 1);
  EXPECT_EQ(compiles(square[{m, k}] + square[{m, k}]), 1);
}

TEST_F(NamedCache, WhichDimensionsAreOneIsPartOfTheKey) {
  const named::Tensor other(vector_of({3, 4}), n);
  EXPECT_EQ(compiles((a_ * b_).sum()), 1);
  EXPECT_EQ(compiles((a_ * other).sum()), 1);
}

TEST_F(NamedCache, ConstantsSizesDtypesAndSchedulesArePartOfTheKey) {
  EXPECT_EQ(compiles(a_ * 0.0), 1);
  EXPECT_EQ(compiles(a_ * -0.0), 1);
  EXPECT_EQ(compiles(b_ * 0.0), 0);
  EXPECT_EQ(compiles(named::Tensor(vector_of({1, 2, 3}), m) * 0.0), 1);
  EXPECT_EQ(compiles(named::Tensor(vector_of({1, 2}, DType::kF64), m) * 0.0), 1);
  EXPECT_EQ(compiles(-a_), 1);
  EXPECT_EQ(compiles(exp(a_)), 1);
  const named::Tensor negated = -b_;
  negated.set(split(negated.loop_tree(), {0}, 2).value());
  EXPECT_EQ(compiles(negated), 1);
  EXPECT_EQ(compiles(negated), 0);
}

TEST_F(NamedCache, TheBackendIsPartOfTheKey) {
  EXPECT_EQ(compiles(-a_), 1);
  (-a_).backend("interpreter").data();
  EXPECT_EQ(named::cache_size(), 2);
  EXPECT_EQ(compiles(-a_), 0);
  unregister_backend("counting");
  counting_ = std::make_shared<Counting>();
  register_backend(counting_);
  EXPECT_EQ(compiles(-a_), 1) << "another backend has the name";
}

TEST_F(NamedCache, ATensorIsPreparedForItsInputs) {
  const named::Tensor sum = a_ + b_;
  EXPECT_EQ(compiles(sum), 1);
  a_.bind(vector_of({5, 6}));
  EXPECT_EQ(compiles(sum), 0);
  EXPECT_THAT(values(sum), ElementsAre(8, 10));
  b_.bind(vector_of({3, 4, 5}));
  EXPECT_THAT(error_of([&] { sum.data(); }), HasSubstr("m has the size 2 from"));
  a_.bind(vector_of({1, 2, 3}));
  EXPECT_EQ(compiles(sum), 1);
  EXPECT_THAT(values(sum), ElementsAre(4, 6, 8));
  sum.set(split(sum.loop_tree(), {0}, 2).value());
  EXPECT_EQ(compiles(sum), 1);
  named::clear_cache();
  EXPECT_EQ(compiles(sum), 1);
}

TEST_F(NamedCache, ThreadsCompileOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  const named::Tensor shared = a_ - b_;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const named::Tensor c = a_ * b_ + round % 5;
        if (values(c)[0] != 3 + round % 5 || values(shared)[0] != -2) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(counting_->compilations, 6);
  EXPECT_EQ(named::cache_size(), 6);
}

struct Failing : Backend {
  Failing() : Backend("failing") {}
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree&) const override { fail("not today"); }
};

TEST_F(NamedCache, FailuresAreNotKept) {
  register_backend(std::make_shared<Failing>());
  const named::Tensor c = -a_;
  c.backend("failing");
  EXPECT_EQ(error_of([&] { c.data(); }), "not today");
  EXPECT_EQ(named::cache_size(), 0);
  unregister_backend("failing");
  EXPECT_THAT(error_of([&] { c.data(); }), HasSubstr("there is no backend 'failing'"));
}

}  // namespace
}  // namespace tenon::test
