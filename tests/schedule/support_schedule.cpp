#include "tests/schedule/support_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/bound.h"
#include "graph/evaluate.h"
#include "loops/lower.h"
#include "schedule/default_schedule.h"
#include "tests/backends/support_fenced.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_lowered.h"

namespace tenon::test {
namespace {

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], wanted[i])) << "output " << i;
}

}  // namespace

loops::LoopTree scheduled(std::string_view graph_text, const std::vector<TileIntrinsic>& tiles) {
  const Machine machine{.vector_bytes = 64,
                        .vector_registers = 32,
                        .l1_bytes = 32 << 10,
                        .l2_bytes = 1 << 20,
                        .threads = 2,
                        .tiles = tiles};
  return default_schedule(lower(parse_graph(graph_text).value()).value(), machine);
}

void expect_schedule_agrees(std::string_view graph_text, int64_t n) {
  if (const std::string why = cannot_run("native"); !why.empty()) GTEST_SKIP() << why;  // $TENON_CPU may say another
  Random random(7);
  std::vector<Tensor> inputs;
  const Graph graph = with_data(parse_graph(graph_text).value(), random, inputs, n);
  const std::vector<Tensor> wanted = evaluate(graph, inputs).value();
  const std::vector<Tensor> arguments = kernel_arguments(graph, inputs);
  const auto backend = fenced_cpu();
  const loops::LoopTree tree = backend->schedule(lower(graph).value());
  SCOPED_TRACE(fmt::format("{}with N = {}\n{}", graph_text, n, tree.dump()));
  expect_close(run(*backend->compile(tree).value(), tree.ir, arguments).value(), wanted);
  std::map<int64_t, Tensor> constants;
  for (size_t slot = inputs.size(); slot < arguments.size(); ++slot) {
    constants.emplace(static_cast<int64_t>(slot), arguments[slot]);
  }
  expect_close(run(*compile_bound(*backend, tree, constants), tree.ir, arguments).value(), wanted);
}

}  // namespace tenon::test
