// Every elementwise op, cast and bitcast of the op table in C++ and in machine code, one number at a time and in
// vectors, against the interpreter, which computes as the records say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "backends/cpu/cpu.h"
#include "graph/cpp_text.h"
#include "tests/backends/support_cpp.h"
#include "tests/backends/support_fenced.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_kernels.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using loops::Mark;
using loops::VarRef;

// Each against each, so that all lanes of a vector and what remains after it see all of them.
std::vector<double> real_values(DType dtype) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values = {0.0,    -0.0, 1,     -1,   0.5,  -0.5, 1.5, 2.5,  -2.5, 3.7,
                                -11.25, 0.9,  -0.99, 12.5, 1e-3, 70,   inf, -inf, nan};
  for (double large : {1e10, -3e9, 1e19, -1e19, 1e38, 1e-40}) values.push_back(round_to(dtype, large));
  if (dtype == DType::kF64) values.insert(values.end(), {1e300, 4.9e-324, 1 + 1e-15, 65519.999999, 1.00390625000001});
  return values;
}

std::vector<int64_t> integer_values(DType dtype) {
  std::set<int64_t> values;
  for (int64_t value :
       {0L, 1L, -1L, 2L, 3L, -7L, 63L, 64L, 100L, 200L, 40000L, 1L << 24, (1L << 24) + 1, (1L << 53) + 1,
        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), -(1L << 31), -32768L, -128L}) {
    values.insert(wrap_to(dtype, value));
  }
  return {values.begin(), values.end()};
}

Tensor as_tensor(DType dtype, const std::vector<size_t>& picks) {
  Tensor tensor = Tensor::zeros(dtype, {static_cast<int64_t>(picks.size())});
  for (size_t i = 0; i < picks.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    is_float(dtype) ? tensor.set_real(at, real_values(dtype)[picks[i]])
                    : tensor.set_integer(at, integer_values(dtype)[picks[i]]);
  }
  return tensor;
}

size_t value_count(DType dtype) { return is_float(dtype) ? real_values(dtype).size() : integer_values(dtype).size(); }

struct Case {
  std::string name;
  LoopTree tree;
  std::vector<Tensor> inputs;
  bool is_exact;
};

// The same op twice: in a vectorized loop, and in one that is not.
LoopTree both_ways(const OpDef& op, const std::vector<DType>& operands, int64_t size, std::optional<DType> result) {
  IR ir("op");
  const VarRef i = ir.add_var("i", size);
  std::vector<loops::NodeRef> reads;
  for (DType dtype : operands) reads.push_back(ir.add_read(dtype, {i}));
  for (const Mark mark : {Mark::kVectorize, Mark::kNone}) {
    const loops::NodeRef y = ir.add_compute(op, reads, {i}, result);
    const loops::NodeRef out = ir.add_write(y, {i});
    for (loops::NodeRef node : {y, out}) ir.set_loops(node, {{.var = i, .annotation = {mark}}});
  }
  return LoopTree(std::move(ir));
}

// All pairs of values, repeated as often as there are lanes.
std::vector<Tensor> all_pairs(const std::vector<DType>& operands, bool divides) {
  const DType dtype = operands.back();
  const size_t count = value_count(dtype);
  std::vector<std::vector<size_t>> picks(operands.size());
  for (size_t i = 0; i < count * count + 17; ++i) {
    const size_t b = i / count % count;
    if (divides && is_integral(dtype) && integer_values(dtype)[b] == 0) continue;
    if (operands.size() == 3) picks[0].push_back(i % 3 == 0 ? 1 : 0);
    picks[operands.size() == 3 ? 1 : 0].push_back(i % count);
    if (operands.size() > 1) picks.back().push_back(b);
  }
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs.push_back(as_tensor(operands[i], picks[i]));
  return inputs;
}

// Of the others, the last bits depend on the mathematical library.
bool is_exact(const OpDef& op) {
  static const std::set<std::string_view> exact = {
      "add",       "sub",   "mul",     "div",     "neg",     "abs",   "sign",     "sqrt", "reciprocal", "floor",
      "ceil",      "trunc", "rint",    "maximum", "minimum", "where", "copysign", "fmod", "remainder",  "floor_div",
      "trunc_div", "cast",  "bitcast", "eq",      "ne",      "lt",    "le",       "gt",   "ge"};
  return exact.contains(op.name);
}

std::vector<Case> cases_of(const OpDef& op) {
  const auto* elementwise = std::get_if<Elementwise>(&op.semantics.get());
  if (!elementwise || op.name.get() == "cast") return {};
  std::vector<Case> cases;
  for (DType dtype :
       {DType::kF64, DType::kF32, DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kBool}) {
    const bool has_domain = static_cast<bool>(is_float(dtype) ? elementwise->real : elementwise->integer);
    if (!has_domain || !op.operands.get().back().dtypes.contains(dtype)) continue;
    std::vector<DType> operands(op.operands.get().size(), dtype);
    if (elementwise->compute == tenon::Compute::kSelect) operands[0] = DType::kBool;
    std::vector<Tensor> inputs = all_pairs(operands, divides_integers(op, dtype));
    cases.push_back({fmt::format("{} of {}", op.name.get(), name_of(dtype)),
                     both_ways(op, operands, inputs[0].numel(), {}), std::move(inputs),
                     is_exact(op) || is_integral(dtype)});
  }
  return cases;
}

std::vector<Case> conversions(const OpDef& op) {
  std::vector<Case> cases;
  for (DType from : kAllDTypes) {
    for (DType to : kAllDTypes) {
      const bool is_bits = op.name.get() == "bitcast";
      if (is_bits && (size_of(from) != size_of(to) || (to == DType::kBool && from != to))) continue;
      std::vector<Tensor> inputs = all_pairs({from}, false);
      cases.push_back({fmt::format("{} of {} to {}", op.name.get(), name_of(from), name_of(to)),
                       both_ways(op, {from}, inputs[0].numel(), to), std::move(inputs), true});
    }
  }
  return cases;
}

// Cut off between two numbers and cast, as `quantize` does, in a vectorized loop and in one that is not.
struct Clamp {
  double low, high, zero_point;
  bool is_rounded;
  DType result;
};

LoopTree clamped_both_ways(const Clamp& clamp, int64_t size) {
  IR ir("clamp");
  const VarRef i = ir.add_var("i", size);
  const loops::NodeRef x = ir.add_read(DType::kF32, {i});
  const auto constant = [&](double value) { return ir.add_constant(DType::kF32, value); };
  const loops::NodeRef low = constant(clamp.low), high = constant(clamp.high), zero_point = constant(clamp.zero_point);
  for (const Mark mark : {Mark::kVectorize, Mark::kNone}) {
    const auto in_loop = [&](loops::NodeRef node) {
      ir.set_loops(node, {{.var = i, .annotation = {mark}}});
      return node;
    };
    const auto compute = [&](std::string_view op, const std::vector<loops::NodeRef>& of, std::optional<DType> to = {}) {
      return in_loop(ir.add_compute(op_named(op), of, {i}, to));
    };
    loops::NodeRef y = clamp.is_rounded ? compute("rint", {x}) : x;
    y = compute("add", {y, zero_point});
    y = compute("minimum", {compute("maximum", {y, low}), high});
    in_loop(ir.add_write(compute("cast", {y}, clamp.result), {i}));
  }
  return LoopTree(std::move(ir));
}

std::vector<Case> clamps() {
  constexpr std::pair<double, double> kLimits[] = {{0, 255}, {-128, 127}, {1, 5}, {-5, -2}, {-3, 1e38}};
  std::vector<Case> cases;
  const std::vector<Tensor> inputs = all_pairs({DType::kF32}, false);
  for (DType result : {DType::kU8, DType::kI8}) {
    for (const auto& [low, high] : kLimits) {
      for (double zero_point : {0.0, 3.0, 0.25}) {
        for (bool is_rounded : {false, true}) {
          const Clamp clamp{low, high, zero_point, is_rounded, result};
          cases.push_back({fmt::format("{}x + {}, {} to {}, as {}", is_rounded ? "rounded " : "", zero_point, low, high,
                                       name_of(result)),
                           clamped_both_ways(clamp, inputs[0].numel()), inputs, true});
        }
      }
    }
  }
  return cases;
}

testing::AssertionResult agrees(const Case& c, const Tensor& got, const Tensor& wanted) {
  if (is_integral(wanted.dtype()) && identical(got, wanted)) return testing::AssertionSuccess();
  if (is_integral(wanted.dtype())) return testing::AssertionFailure() << "the integers differ";
  return c.is_exact ? test::same_bits_or_nan(got, wanted) : test::close(got, wanted);
}

using Kernels = std::vector<std::unique_ptr<Compiled>>;

struct Maker {
  const char* name;  // for tests
  const char* compiler_or_cpu;
  Kernels (*compile)(const std::vector<LoopTree>& trees, const char* compiler_or_cpu);
};

Kernels by_compiler(const std::vector<LoopTree>& trees, const char* compiler) {
  const test::Environment environment("TENON_CXX", compiler);
  return test::compile_all(trees, {});
}

std::vector<const LoopTree*> pointers_to(const std::vector<LoopTree>& trees) {
  std::vector<const LoopTree*> pointers;
  for (const LoopTree& tree : trees) pointers.push_back(&tree);
  return pointers;
}

Kernels for_cpu(const std::vector<LoopTree>& trees, const char* cpu) {
  return compile_cpu(pointers_to(trees), {.cpu = cpu, .use_cache = false});
}

Kernels in_emulator(const std::vector<LoopTree>& trees, const char* cpu) {
  return test::compile_fenced(pointers_to(trees), {.cpu = cpu, .use_cache = false});
}

constexpr Maker kMakers[] = {{"gcc", test::kCompilers[0], by_compiler},
                             {"clang", test::kCompilers[1], by_compiler},
                             {"native", "native", for_cpu},
                             {"v4", "x86-64-v4", for_cpu},
                             {"v3", "x86-64-v3", for_cpu},
                             {"v2", "x86-64-v2", for_cpu},
                             {"aarch64", "aarch64", in_emulator},
                             {"neoverse_v2", "neoverse-v2", in_emulator},
                             {"sve256", "neoverse-v1+sve256", in_emulator},
                             {"sve512", "a64fx+sve512", in_emulator}};

class NativeOps : public testing::TestWithParam<Maker> {
 protected:
  void SetUp() override {
    if (GetParam().compile == by_compiler) return;
    if (const std::string why = test::cannot_run(GetParam().compiler_or_cpu); !why.empty()) GTEST_SKIP() << why;
  }

  void expect_agreement(const std::vector<Case>& cases) const {
    std::vector<LoopTree> trees;
    for (const Case& c : cases) trees.push_back(c.tree);
    const Kernels kernels = GetParam().compile(trees, GetParam().compiler_or_cpu);
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(cases[i].name);
      const std::vector<Tensor> wanted = loops::testing::run_on("interpreter", cases[i].tree, cases[i].inputs);
      const std::vector<Tensor> got = run(*kernels[i], cases[i].tree.ir, cases[i].inputs).value();
      EXPECT_TRUE(agrees(cases[i], got[0], wanted[0])) << "in vectors\n" << kernels[i]->dump();
      EXPECT_TRUE(agrees(cases[i], got[1], wanted[1])) << "one by one\n" << kernels[i]->dump();
    }
  }
};

TEST_P(NativeOps, EveryOpOfTheTableDoesWhatItsRecordSays) {
  std::vector<Case> cases;
  for (const OpDef* op : op_table()) {
    for (Case& c : cases_of(*op)) cases.push_back(std::move(c));
  }
  ASSERT_GT(cases.size(), 150u);
  expect_agreement(cases);
}

TEST_P(NativeOps, NumbersThatAreCutOffBecomeBytes) { expect_agreement(clamps()); }

TEST_P(NativeOps, EveryDtypeConvertsToEveryOther) {
  expect_agreement(conversions(op_named("cast")));
  expect_agreement(conversions(op_named("bitcast")));
}

INSTANTIATE_TEST_SUITE_P(Makers, NativeOps, testing::ValuesIn(kMakers),
                         [](const auto& info) { return info.param.name; });

TEST(CppText, LiteralsKeepTheirValueAndSign) {
  EXPECT_EQ(cpp::literal({DType::kF32}, 0.1), "f32(0.1f)");
  EXPECT_EQ(cpp::literal({DType::kF32}, 1.0), "f32(1.0f)");
  EXPECT_EQ(cpp::literal({DType::kF64}, -0.0), "f64(-0.0)");
  EXPECT_EQ(cpp::literal({DType::kF32}, 1e300), "f32(INFINITY)");
  EXPECT_EQ(cpp::literal({DType::kF16}, 1.0), "f16(0x3c00)");
  EXPECT_EQ(cpp::literal({DType::kBF16}, -1.0), "bf16(0xbf80)");
  EXPECT_EQ(cpp::literal({DType::kI8, 16}, int64_t{-1}), "splat<i8x16>(i8(-1))");
  EXPECT_EQ(cpp::literal({DType::kI64}, std::numeric_limits<int64_t>::min()), "INT64_MIN");
}

}  // namespace
}  // namespace tenon
