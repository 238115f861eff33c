// Absurd sizes are a user's mistake, never a bug: whatever an op's samples become with huge sizes and attributes, there
// is a result or a Diagnostic.
#include "graph/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fusion/fuse.h"
#include "graph/builder.h"
#include "graph/sample.h"
#include "loops/lower.h"
#include "passes/passes.h"

namespace tenon {
namespace {

constexpr int64_t kAbsurd[] = {int64_t{1} << 31, int64_t{1} << 62, kInt64Max, 0, -1};

// A node of a sample, to be changed.
struct Call {
  const OpDef* op;
  std::vector<std::optional<TensorType>> operands;
  std::vector<Attr> attrs;

  explicit Call(const Sample& sample) : op(sample.op) {
    const Node& node = sample.graph.nodes()[0];
    for (ValueRef operand : node.operands)
      operands.push_back(operand ? std::optional(sample.graph.type(operand)) : std::nullopt);
    attrs = node.attrs;
  }

  std::string text() const {
    std::string text(op->name.get());
    for (const auto& operand : operands) text += " " + (operand ? to_string(*operand) : "none");
    for (const Attr& attr : attrs) text += " " + to_string(attr);
    return text;
  }

  Graph graph() const {
    Graph graph;
    std::vector<ValueRef> inputs;
    for (size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(operands[i] ? graph.add_input("x" + std::to_string(i), *operands[i]) : ValueRef());
    const NodeRef node = graph.add_node(*op, std::move(inputs), attrs);
    graph.set_outputs(graph.node(node).results);
    return graph;
  }
};

// Calls `visit` with every integer of the call that a test may change.
template <class Visit>
void for_each_number(Call& call, const Visit& visit) {
  const auto visit_expr = [&](Expr& expr) {
    if (!expr.is_constant()) return;
    int64_t number = expr.constant();
    visit(number);
    expr = number;
  };
  for (auto& operand : call.operands) {
    if (operand) std::ranges::for_each(operand->shape, visit_expr);
  }
  for (Attr& attr : call.attrs) {
    if (auto* number = std::get_if<int64_t>(&attr)) visit(*number);
    if (auto* numbers = std::get_if<std::vector<int64_t>>(&attr)) std::ranges::for_each(*numbers, visit);
    if (auto* expr = std::get_if<Expr>(&attr)) visit_expr(*expr);
    if (auto* exprs = std::get_if<std::vector<Expr>>(&attr)) std::ranges::for_each(*exprs, visit_expr);
  }
}

size_t count_numbers(Call call) {
  size_t count = 0;
  for_each_number(call, [&](int64_t&) { ++count; });
  return count;
}

// One number of the call is another.
Call with_number(Call call, size_t position, int64_t number) {
  size_t next = 0;
  for_each_number(call, [&](int64_t& each) { each = next++ == position ? number : each; });
  return call;
}

// All numbers that are `from`, so that operands still fit each other.
Call with_all(Call call, int64_t from, int64_t number) {
  for_each_number(call, [&](int64_t& each) { each = each == from ? number : each; });
  return call;
}

class Limits : public testing::TestWithParam<const OpDef*> {
 protected:
  // A sample line each: sizes are the same for every dtype.
  static std::vector<Call> calls() {
    std::vector<Call> calls;
    std::set<std::string> seen;
    for (const Sample& sample : samples_of(*GetParam())) {
      if (seen.insert(sample.text).second) calls.emplace_back(sample);
    }
    return calls;
  }

  // Anything but an Error ends the test.
  template <class Work>
  static void expect_result_or_error(const Call& call, const Work& work) {
    try {
      work(call.graph());
    } catch (const Error&) {
    } catch (const std::exception& bug) {
      ADD_FAILURE() << call.text() << ": " << bug.what();
    }
  }
};

TEST_P(Limits, ShapeRulesTakeAnyNumber) {
  for (const Call& call : calls()) {
    for (size_t i = 0; i < count_numbers(call); ++i) {
      for (int64_t number : kAbsurd) expect_result_or_error(with_number(call, i, number), [](const Graph&) {});
    }
  }
}

TEST_P(Limits, PassesAndLoweringTakeAnySize) {
  for (const Call& call : calls()) {
    std::set<int64_t> numbers;
    Call copy = call;
    for_each_number(copy, [&](int64_t& each) { numbers.insert(each); });
    for (int64_t from : numbers) {
      for (int64_t number : {int64_t{1} << 31, int64_t{1} << 62}) {
        expect_result_or_error(with_all(call, from, number), [](const Graph& graph) {
          const Graph ready = expand_for_fusion(canonicalize(graph));
          fuse(ready);
          (void)lower(ready);
        });
      }
    }
  }
}

std::vector<const OpDef*> all_ops() { return {op_table().begin(), op_table().end()}; }

INSTANTIATE_TEST_SUITE_P(All, Limits, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return std::string(info.param->name.get()); });

// ---- messages -------------------------------------------------------------------------------------------------------

std::string error_of(const std::string& text) {
  const Result<Graph> graph = parse_graph(text);
  return graph.ok() ? "none" : graph.diagnostic().message;
}

std::string ones(int rank) {
  std::string text = "1";
  for (int i = 1; i < rank; ++i) text += ", 1";
  return "f32[" + text + "]";
}

TEST(LimitsMessages, NameTheTypeAndTheLimit) {
  EXPECT_EQ(error_of("graph g(%x: " + ones(64) + ") { return %x }"), "none");
  EXPECT_EQ(error_of("graph g(%x: " + ones(65) + ") { return %x }"),
            "input 'x' has 65 dimensions: at most 64 are supported");
  EXPECT_EQ(error_of("graph g(%x: f32[4611686018427387904]) { return %x }"),
            "input 'x' is too large: f32[4611686018427387904] has more than 2^63 - 1 bytes");
  EXPECT_EQ(error_of("graph g(%x: f32[2147483648]) { %y = expand(%x) {shape=[4294967296, 2147483648]} return %y }"),
            "expand: the result is too large: f32[4294967296, 2147483648] has more than 2^63 - 1 bytes");
  EXPECT_EQ(error_of("graph g(%x: f32[0, 4611686018427387904, 4]) { return %x }"),
            "input 'x' is too large: f32[0, 4611686018427387904, 4] has more than 2^63 - 1 bytes");
  EXPECT_EQ(error_of("graph g(%x: f32[100000]) { %a, %b = unbind(%x) return %a }"),
            "unbind: 100000 results are out of range: at most 65536 are supported");
}

TEST(LimitsMessages, AnUnsqueezeBeyondTheHighestRankIsAnError) {
  EXPECT_EQ(error_of("graph g(%x: " + ones(64) + ") { %y = unsqueeze(%x) {dim=0} return %y }").substr(0, 42),
            "unsqueeze: the result has 65 dimensions: a");
}

}  // namespace
}  // namespace tenon
