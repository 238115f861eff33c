// Portable kernels that no compiler wrote: refused with a reason, or run without touching what is not theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/interpreter/portable_kernel.h"
#include "runtime/error.h"
#include "runtime/portable_kernel.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_ir.h"
#include "tests/runtime/support_portable.h"

namespace tenon::runtime {
namespace {

namespace portable = format::portable;
using format::DType;
using format::Expr;
using format::ExprOp;
using format::Instruction;
using loops::LoopTree;
using portable::Action;
using portable::Range;
using portable::SourceKind;
using test::Arguments;
using test::KernelParts;
using test::load;
using test::run;
using test::tree_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Loops: a fill's, its own nest. Steps: a fill, a gather with guards, a product, a fold, a write, ...
const LoopTree& victim() {
  static const LoopTree tree = tree_of(R"(
    symbol N in [1, 64]
    var i = N
    var c = 4
    var o = 5
    %x: f32[i, c] = read 0
    %idx: i64[o] = read 1
    %half: f32[] = constant 0.5
    %v: f32[o, c] = view %x[r, c - 1] where c - 1 in 4 else 1.5 with r = %idx in N for o, c
    %p: f32[o, c] = mul(%v, %half) for o, c
    %s: f32[o] = reduce add(%p) for o, c
    %t: f32[o] = scan add(%s) along o for o
    %b: i32[o] = bitcast(%t) for o
    %out: i32[o] = write 0 (%b) for o)");
  return tree;
}

size_t step_with(const KernelParts& parts, Action action) {
  for (size_t i = 0; i < parts.steps.size(); ++i) {
    if (parts.steps[i].action() == action) return i;
  }
  ADD_FAILURE() << "the kernel has no such step";
  return 0;
}

// A copy with some fields changed.
struct StepChange {
  std::optional<Action> action = {};
  std::optional<uint32_t> node = {}, op = {}, out = {}, carry = {};
  std::optional<Expr> at = {}, carry_at = {};
  std::optional<Range> sources = {}, lookups = {}, where = {};
};

void change(KernelParts& parts, Action which, const StepChange& to) {
  portable::Step& step = parts.steps[step_with(parts, which)];
  step = {
      to.action.value_or(step.action()),     to.node.value_or(step.node()),       to.op.value_or(step.op()),
      to.out.value_or(step.out()),           to.at.value_or(step.at()),           to.carry.value_or(step.carry()),
      to.carry_at.value_or(step.carry_at()), to.sources.value_or(step.sources()), to.lookups.value_or(step.lookups()),
      to.where.value_or(step.where())};
}

struct LoopChange {
  std::optional<portable::Order> order = {};
  std::optional<uint32_t> counter = {}, variable = {};
  std::optional<Range> steps = {};
  std::optional<int64_t> step = {};
};

void change_loop(KernelParts& parts, size_t which, const LoopChange& to) {
  portable::Loop& loop = parts.loops[which];
  loop = {to.order.value_or(loop.order()), to.counter.value_or(loop.counter()), to.variable.value_or(loop.variable()),
          to.steps.value_or(loop.steps()), to.step.value_or(loop.step())};
}

void add_loop(KernelParts& parts, size_t at, const Range& steps) {
  const auto place = parts.loops.begin() + static_cast<ptrdiff_t>(at);
  parts.loops.insert(place, {portable::Order::InOrder, parts.symbols++, 0, steps, 1});
}

void change_source(KernelParts& parts, size_t which, SourceKind kind, DType dtype, uint32_t item) {
  portable::Source& source = parts.sources[which];
  source = {kind, dtype, item, source.at(), source.where()};
}

// The first source of a step.
uint32_t source_of(const KernelParts& parts, Action action) {
  return parts.steps[step_with(parts, action)].sources().first();
}

struct Damage {
  const char* what;
  std::function<void(KernelParts&)> apply;
  const char* message;
};

const std::vector<Damage>& damages() {
  static const uint32_t kFar = 1000;
  static const Expr kFarExpr(kFar, 1);
  static const std::vector<Damage> list = {
      {"too many symbols", [](KernelParts& p) { p.symbols = 1u << 20; }, "symbols"},
      {"more sizes than symbols", [](KernelParts& p) { p.sizes = p.symbols + 1; }, "more symbols are sizes"},
      {"more arguments than buffers", [](KernelParts& p) { p.inputs = kFar; }, "arguments, but has"},
      {"arguments that overflow", [](KernelParts& p) { p.inputs = p.outputs = ~0u; }, "arguments, but has"},
      {"an unknown op", [](KernelParts& p) { p.ops[0] = "multiply"; }, "does not know the op multiply"},
      {"an op that is not there", [](KernelParts& p) { change(p, Action::Compute, {.op = kFar}); }, "names op 1000"},
      {"an op of another arity", [](KernelParts& p) { p.ops[0] = "neg"; }, "takes 1 operands, not 2"},
      {"an op without a meaning for floats", [](KernelParts& p) { p.ops[0] = "bitwise_xor"; }, "no meaning for floats"},
      {"an op that folds nothing", [](KernelParts& p) { p.ops[1] = "sub"; }, "sub folds nothing"},
      {"an action that is none", [](KernelParts& p) { change(p, Action::Scan, {.action = static_cast<Action>(9)}); },
       "9 is no action"},
      {"a node that is not there", [](KernelParts& p) { change(p, Action::Fold, {.node = kFar}); }, "names node 1000"},
      {"an output that is not there", [](KernelParts& p) { change(p, Action::Fold, {.out = kFar}); },
       "names buffer 1000"},
      {"a write to an input", [](KernelParts& p) { change(p, Action::Compute, {.out = 0}); }, "writes input 0"},
      {"a carry that is not there", [](KernelParts& p) { change(p, Action::Scan, {.carry = ~0u}); }, "names buffer"},
      {"a carry of integers", [](KernelParts& p) { change(p, Action::Scan, {.carry = p.inputs}); }, "a scan mixes"},
      {"a position outside of the code", [](KernelParts& p) { change(p, Action::Fold, {.at = kFarExpr}); },
       "does not fit the table"},
      {"a carry's position outside of the code",
       [](KernelParts& p) { change(p, Action::Scan, {.carry_at = kFarExpr}); }, "does not fit the table"},
      {"an empty position", [](KernelParts& p) { change(p, Action::Fold, {.at = Expr(0, 0)}); }, "leaves 0 numbers"},
      {"sources outside of the table", [](KernelParts& p) { change(p, Action::Compute, {.sources = Range(~0u, 2)}); },
       "sources from"},
      {"no sources", [](KernelParts& p) { change(p, Action::Compute, {.sources = Range(0, 0)}); }, "reads nothing"},
      {"lookups outside of the table", [](KernelParts& p) { change(p, Action::Fold, {.lookups = Range(0, kFar)}); },
       "lookups from"},
      {"guards outside of the table", [](KernelParts& p) { change(p, Action::Fold, {.where = Range(1, ~0u)}); },
       "guards from"},
      {"a bitcast to another size", [](KernelParts& p) { change(p, Action::Scan, {.action = Action::Bitcast}); },
       "changes the size"},
      {"a fold of two", [](KernelParts& p) { change(p, Action::Compute, {.action = Action::Fold, .op = 1}); },
       "a fold takes 1 operand"},
      {"a move from float to integer", [](KernelParts& p) { change(p, Action::Bitcast, {.action = Action::Move}); },
       "changes the kind"},
      {"a dtype that is none",
       [](KernelParts& p) {
         change_source(p, source_of(p, Action::Compute), SourceKind::Element, static_cast<DType>(77), 0);
       },
       "77 is no dtype"},
      {"a buffer's dtype that is none",
       [](KernelParts& p) { p.buffers[2] = {static_cast<DType>(10), 0, ~0u, p.buffers[2].elements()}; },
       "10 is no dtype"},
      {"a kind of source that is none",
       [](KernelParts& p) { change_source(p, 0, static_cast<SourceKind>(3), DType::F32, 0); }, "3 is no kind"},
      {"a source of another dtype",
       [](KernelParts& p) { change_source(p, source_of(p, Action::Compute), SourceKind::Element, DType::F32, 1); },
       "read as another dtype"},
      {"a buffer that is not there",
       [](KernelParts& p) { change_source(p, source_of(p, Action::Compute), SourceKind::Element, DType::F32, kFar); },
       "names buffer 1000"},
      {"a constant that is not there",
       [](KernelParts& p) { change_source(p, source_of(p, Action::Compute), SourceKind::Constant, DType::F32, kFar); },
       "names constant 1000"},
      {"a floating number",
       [](KernelParts& p) { change_source(p, source_of(p, Action::Compute), SourceKind::Number, DType::F32, 0); },
       "is not an i64"},
      {"a floating index",
       [](KernelParts& p) { change_source(p, p.lookups[0].source(), SourceKind::Constant, DType::F32, 0); },
       "an index is not an integer"},
      {"an index that is not there",
       [](KernelParts& p) { p.lookups[0] = {p.lookups[0].symbol(), kFar, p.lookups[0].bound()}; }, "names source 1000"},
      {"a lookup of a size", [](KernelParts& p) { p.lookups[0] = {0, p.lookups[0].source(), p.lookups[0].bound()}; },
       "has a value already"},
      {"a lookup that has no symbol",
       [](KernelParts& p) { p.lookups[0] = {kFar, p.lookups[0].source(), p.lookups[0].bound()}; }, "names symbol 1000"},
      {"a bound that is no size",
       [](KernelParts& p) {
         const Expr counter = p.add({{ExprOp::Symbol, p.loops[0].counter()}});
         p.guards[0] = {p.guards[0].value(), counter};
       },
       "which is no size"},
      {"a loop without steps", [](KernelParts& p) { change_loop(p, 0, {.steps = Range(0, 0)}); }, "a loop is empty"},
      {"a loop past the end", [](KernelParts& p) { change_loop(p, 0, {.steps = Range(0, kFar)}); }, "do not fit"},
      {"a loop whose end overflows", [](KernelParts& p) { change_loop(p, 0, {.steps = Range(0, ~0u)}); }, "do not fit"},
      {"a loop that starts nowhere", [](KernelParts& p) { add_loop(p, p.loops.size(), Range(kFar, 1)); },
       "starts at no step"},
      {"a loop that starts too early", [](KernelParts& p) { add_loop(p, p.loops.size(), Range(0, 1)); },
       "starts at no step"},
      {"loops that overlap",
       [](KernelParts& p) {
         const Range inner = p.loops[1].steps();
         add_loop(p, 2, Range(inner.first() + inner.count() - 1, 2));
       },
       "loops overlap"},
      {"a loop over nothing", [](KernelParts& p) { change_loop(p, 0, {.variable = kFar}); }, "names variable 1000"},
      {"a step of zero", [](KernelParts& p) { change_loop(p, 0, {.step = 0}); }, "has step 0"},
      {"a step backwards", [](KernelParts& p) { change_loop(p, 0, {.step = INT64_MIN}); }, "has step"},
      {"a counter of the loop around", [](KernelParts& p) { change_loop(p, 1, {.counter = p.loops[0].counter()}); },
       "has a value already"},
      {"a counter that is a size", [](KernelParts& p) { change_loop(p, 0, {.counter = 0}); }, "has a value already"},
      {"an order that is none", [](KernelParts& p) { change_loop(p, 0, {.order = static_cast<portable::Order>(5)}); },
       "is no order"},
      {"a nest without an end",
       [](KernelParts& p) {
         const portable::Loop loop = p.loops[0];
         for (uint32_t i = 0; i < 300; ++i) {
           p.loops.insert(p.loops.begin(), {loop.order(), p.symbols++, loop.variable(), Range(0, 1), 1});
         }
       },
       "nest deeper"},
      {"an operator that is none", [](KernelParts& p) { p.code.back() = {static_cast<ExprOp>(99), 0}; },
       "unknown operator"},
      {"a symbol that is not there",
       [](KernelParts& p) { change(p, Action::Fold, {.at = p.add({{ExprOp::Symbol, -1}})}); }, "names symbol -1"},
      {"a symbol out of its loop",
       [](KernelParts& p) { change(p, Action::Fold, {.at = p.add({{ExprOp::Symbol, p.lookups[0].symbol()}})}); },
       "where it has no value"},
      {"an operand that is missing", [](KernelParts& p) { change(p, Action::Fold, {.at = p.add({{ExprOp::Add, 0}})}); },
       "lacks an operand"},
      {"expressions without an end",
       [](KernelParts& p) {
         std::vector<Instruction> sum = {{ExprOp::Constant, 0}};
         for (int i = 0; i < 600000; ++i) sum.insert(sum.end(), {{ExprOp::Constant, 1}, {ExprOp::Add, 0}});
         change(p, Action::Fold, {.at = p.add(sum)});
       },
       "its expressions have more than"},
      {"a buffer of a loop that is not there",
       [](KernelParts& p) { p.buffers.back() = {DType::F64, 0, kFar, p.buffers.back().elements()}; },
       "names loop 1000"},
      {"a buffer of a node that is not there",
       [](KernelParts& p) { p.buffers.back() = {DType::F64, kFar, ~0u, p.buffers.back().elements()}; },
       "names node 1000"},
      {"a variable without a size", [](KernelParts& p) { p.variables[0] = kFarExpr; }, "does not fit the table"},
  };
  return list;
}

std::string why_refused(const std::string& bytes) {
  try {
    load(bytes);
  } catch (const StatusError& error) {
    EXPECT_TRUE(error.status() == TENON_BAD_FILE || error.status() == TENON_UNSUPPORTED);
    return error.message();
  }
  return "";
}

TEST(DamagedPortableKernel, IsRefusedWithAReason) {
  const KernelParts whole = test::parts_of(portable_kernel(victim()));
  ASSERT_EQ(why_refused(whole.bytes()), "");
  ASSERT_THAT(whole.ops, ElementsAre("mul", "add"));
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.what);
    KernelParts parts = whole;
    damage.apply(parts);
    const std::string reason = why_refused(parts.bytes());
    EXPECT_FALSE(reason.empty()) << "is accepted";
    EXPECT_THAT(reason, HasSubstr(damage.message));
  }
}

TEST(DamagedPortableKernel, TruncatedIsRefused) {
  const std::string bytes = portable_kernel(victim());
  for (size_t length = 0; length < bytes.size(); length += 4) {
    EXPECT_NE(why_refused(bytes.substr(0, length)), "") << length << " of " << bytes.size() << " bytes";
  }
}

TEST(DamagedPortableKernel, MustBeAligned) {
  const std::string bytes = " " + portable_kernel(victim());
  EXPECT_THROW(PortableKernel::load(std::as_bytes(std::span(bytes)).subspan(1)), StatusError);
}

// A table may begin four bytes too late: of the code one instruction is left then, as its first word is 1 (a Symbol).
TEST(DamagedPortableKernel, TablesMustBeAligned) {
  std::string bytes = portable_kernel(victim());
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(portable::GetKernel(bytes.data()));
  const uint8_t* field = table->GetAddressOf(portable::Kernel::VT_CODE);
  bytes[static_cast<size_t>(field - reinterpret_cast<const uint8_t*>(bytes.data()))] += 4;
  EXPECT_THAT(why_refused(bytes), HasSubstr("a table is not aligned"));
}

// Sizes and positions are only known when it runs: there an access outside of an array is an error.
struct WildAccess {
  const char* what;
  std::function<void(KernelParts&)> apply;
};

const WildAccess kWildAccesses[] = {
    {"a write far away",
     [](KernelParts& p) { change(p, Action::Bitcast, {.at = p.add({{ExprOp::Constant, 1 << 30}})}); }},
    {"a write in front", [](KernelParts& p) { change(p, Action::Bitcast, {.at = p.add({{ExprOp::Constant, -1}})}); }},
    {"a fold far away",
     [](KernelParts& p) { change(p, Action::Fold, {.at = p.add({{ExprOp::Constant, INT64_MAX}})}); }},
    {"a carry far away",
     [](KernelParts& p) { change(p, Action::Scan, {.carry_at = p.add({{ExprOp::Constant, INT64_MIN}})}); }},
    {"a stride that overflows",
     [](KernelParts& p) {
       const portable::Loop& loop = p.loops[0];
       change(p, Action::Scan,
              {.at = p.add({{ExprOp::Symbol, loop.counter()}, {ExprOp::Constant, INT64_MAX / 2}, {ExprOp::Mul, 0}})});
     }},
    {"a product that is no multiple",
     [](KernelParts& p) {
       const uint32_t counter = p.loops[0].counter();
       change(p, Action::Scan,
              {.at = p.add({{ExprOp::Symbol, counter},
                            {ExprOp::Symbol, counter},
                            {ExprOp::Mul, 0},
                            {ExprOp::Constant, 7},
                            {ExprOp::Mul, 0}})});
     }},
    {"an output that is too small",
     [](KernelParts& p) {
       p.buffers[p.inputs] = {p.buffers[p.inputs].dtype(), 0, ~0u, p.add({{ExprOp::Constant, 1}})};
     }},
    {"scratch that is too small",
     [](KernelParts& p) {
       for (size_t i = p.inputs + p.outputs; i < p.buffers.size(); ++i) {
         p.buffers[i] = {p.buffers[i].dtype(), 0, ~0u, p.add({{ExprOp::Constant, 0}})};
       }
     }},
    {"an input that is too small",
     [](KernelParts& p) { p.buffers[0] = {DType::F32, 0, ~0u, p.add({{ExprOp::Constant, 2}})}; }},
    {"a lookup without a bound",
     [](KernelParts& p) {
       p.lookups[0] = {p.lookups[0].symbol(), p.lookups[0].source(), p.add({{ExprOp::Constant, INT64_MAX}})};
     }},
};

TEST(DamagedPortableKernel, ReachesNothingOutsideOfItsArrays) {
  const KernelParts whole = test::parts_of(portable_kernel(victim()));
  for (const WildAccess& access : kWildAccesses) {
    SCOPED_TRACE(access.what);
    KernelParts parts = whole;
    access.apply(parts);
    const std::string bytes = parts.bytes();
    const PortableKernel kernel = load(bytes);
    Arguments arguments(kernel, {3});
    arguments.set<int64_t>(1, {0, 1, 2, 1 << 20, 1});
    if (std::string_view(access.what) != "a lookup without a bound") arguments.set<int64_t>(1, {0, 1, 2, 2, 1});
    EXPECT_THAT(run(kernel, arguments, {3}), HasSubstr("a portable kernel is damaged"));
  }
}

TEST(DamagedPortableKernel, StripsEndInsideOfTheirArrays) {
  const KernelParts whole = test::parts_of(portable_kernel(LoopTree(loops::testing::negate(5))));
  for (const size_t argument : {0, 1}) {
    KernelParts parts = whole;
    parts.buffers[argument] = {DType::F32, 0, ~0u, parts.add({{ExprOp::Constant, 4}})};
    const std::string bytes = parts.bytes();
    const PortableKernel kernel = load(bytes);
    EXPECT_THAT(run(kernel, Arguments(kernel, {})), HasSubstr("element 4 of %x, which has 4"));
  }
}

TEST(DamagedPortableKernel, ScratchThatIsTooLargeIsAnError) {
  KernelParts parts = test::parts_of(portable_kernel(victim()));
  const DType dtype = parts.buffers.back().dtype();
  parts.buffers.back() = {dtype, 0, ~0u, parts.add({{ExprOp::Constant, int64_t{1} << 50}})};
  const std::string bytes = parts.bytes();
  const PortableKernel kernel = load(bytes);
  EXPECT_THAT(run(kernel, Arguments(kernel, {3}), {3}), HasSubstr("out of memory"));
  parts.buffers.back() = {dtype, 0, ~0u, parts.add({{ExprOp::Constant, INT64_MAX}})};
  const std::string more = parts.bytes();
  const PortableKernel larger = load(more);
  EXPECT_THROW(run(larger, Arguments(larger, {3}), {3}), StatusError);
}

TEST(DamagedPortableKernel, EndlessLoopsEndWithTheirSteps) {
  KernelParts parts = test::parts_of(portable_kernel(victim()));
  for (Expr& size : parts.variables) size = parts.add({{ExprOp::Constant, INT64_MAX}});
  const std::string bytes = parts.bytes();
  const PortableKernel kernel = load(bytes);
  EXPECT_NE(run(kernel, Arguments(kernel, {3}), {3}, 10000), "");
}

// Whatever one byte is, a kernel is refused, or runs to an end or an error without touching what is not its own: which
// AddressSanitizer sees.
TEST(DamagedPortableKernel, SurvivesEveryFlippedBit) {
  std::mt19937 random(7);
  constexpr int64_t kMostElements = 1 << 16;
  int refused = 0, ran = 0, failed = 0;
  for (uint64_t seed = 0; refused + ran + failed < 2500; ++seed) {
    std::string bytes = seed % 4 == 0 ? portable_kernel(victim()) : portable_kernel(LoopTree(test::random_ir(seed)));
    const size_t sizes = test::parts_of(bytes).sizes;
    for (uint32_t flips = 1 + random() % 2; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
    }
    std::optional<PortableKernel> kernel;
    try {
      kernel = load(bytes);
    } catch (const StatusError&) {
      ++refused;
      continue;
    }
    const std::vector<int64_t> values(std::max(sizes, kernel->sizes()), 3);
    try {
      bool fits = true;
      for (size_t i = 0; i < kernel->inputs() + kernel->outputs(); ++i) {
        fits = fits && kernel->argument_elements(i, values.data()) <= kMostElements;
      }
      if (!fits) continue;
      ++(run(*kernel, Arguments(*kernel, values), values, 100000).empty() ? ran : failed);
    } catch (const StatusError&) {
      ++failed;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(ran, 100);
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace tenon::runtime
