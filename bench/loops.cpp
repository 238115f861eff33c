// How long a kernel takes to become loops. The bar: a fused kernel of 40 nodes, from graph to LoopTree and all that the
// Compiler can say of it, in 2 ms.
#include <chrono>
#include <cstdio>

#include "bench/bench.h"
#include "graph/builder.h"
#include "loops/compiler.h"
#include "loops/lower.h"
#include "passes/passes.h"

namespace tenon {
namespace {

using loops::Compiler;
using loops::LoopTree;
using loops::TreeRef;

constexpr int kRounds = 31;

// A row of layers: scale, shift, activation, normalization. Primitive ops only.
Graph chain(int nodes) {
  Graph graph("chain");
  Builder b(graph);
  Value x = b.value(graph.add_input("x", {DType::kF32, {64, 256}}));
  const Value scale = b.value(graph.add_input("scale", {DType::kF32, {256}}));
  while (static_cast<int>(graph.nodes().size()) + 6 <= nodes) {
    x = b.tanh(x * scale + scale);
    x = x - b.op("amax", {x}, {{"dims", std::vector<int64_t>{-1}}, {"keepdim", true}});
    x = b.exp(x);
  }
  while (static_cast<int>(graph.nodes().size()) < nodes) x = b.abs(x);
  graph.set_outputs({x.ref()});
  return graph;
}

// Everything that a code generator asks for.
size_t analyze(const LoopTree& tree) {
  const Compiler compiler(tree);
  size_t found = 0;
  const std::function<void(TreeRef, const Compiler::Scope&)> visit = [&](TreeRef ref, const Compiler::Scope& scope) {
    if (tree.kind(ref) == LoopTree::NODE) {
      std::vector<loops::NodeRef> read = tree.ir.node(tree.node(ref)).inputs;
      read.push_back(tree.node(ref));
      for (loops::NodeRef node : read) {
        const Compiler::Access access = compiler.gen_access(node, ref);
        if (access.memory) found += symbols_of(compiler.get_scoped_expr(access)).size();
        found += compiler.get_constraints(access, scope).size();
      }
      return;
    }
    found += compiler.fills(ref).size();
    for (const Compiler::Stretch& part : compiler.stretches(ref, scope)) {
      for (TreeRef child : tree.children(ref)) visit(child, part.scope);
    }
  };
  for (TreeRef root : tree.roots()) visit(root, compiler.root());
  return found;
}

template <class Body>
double median_milliseconds(Body body) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    rounds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return bench::median(rounds);
}

void print_table() {
  std::printf("graph -> loops, median of %d rounds, in ms\n  nodes  lower  LoopTree  Compiler   total\n", kRounds);
  for (const int nodes : {10, 40, 160}) {
    const Graph graph = chain(nodes);
    const loops::IR ir = lower(graph).value();
    const LoopTree tree(ir);
    check(analyze(tree) > 0, "nothing was analyzed");
    const double lowering = median_milliseconds([&] { (void)lower(graph).value(); });
    const double building = median_milliseconds([&] { (void)LoopTree(ir); });
    const double analysis = median_milliseconds([&] { (void)analyze(tree); });
    std::printf("%7d %6.3f %9.3f %9.3f %7.3f\n", nodes, lowering, building, analysis, lowering + building + analysis);
  }
}

}  // namespace
}  // namespace tenon

int main() { return tenon::bench::run(tenon::print_table); }
