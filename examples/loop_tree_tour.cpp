// A tour of what a backend sees: the snippets of docs/add-a-backend.md, in one program that checks itself.
#include <cstdio>

#include "backends/backend.h"
#include "loops/compiler.h"
#include "loops/schedule.h"

using namespace tenon;
using namespace tenon::loops;

namespace {

const char* const kKernel = R"(tenon loops 1
kernel padded {
  var i = 16
  var o = 16
  var t = 3
  %x: f32[i] = read 0
  %w: f32[t] = read 1
  %p: f32[o, t] = view %x[o + t - 1] where o + t - 1 in 16 for o, t
  %y: f32[o, t] = mul(%p, %w) for o, t
  %c: f32[o] = reduce add(%y) for o, t
  %out: f32[o] = write 0 (%c) for o
}
)";

void require(bool holds, const char* what) {
  if (!holds) fail("the tour is wrong about {}", what);
}

// [walk]
// Prints the program that a tree is, as a code generator would: one function for loops, one for nodes.
class Listing {
 public:
  explicit Listing(const LoopTree& tree) : tree_(tree), compiler_(tree) {}

  std::string run() {
    for (TreeRef root : tree_.roots()) visit(root, compiler_.root(), 0);
    return text_;
  }

 private:
  void visit(TreeRef ref, const Compiler::Scope& scope, int depth) {
    for (const Compiler::Fill& fill : compiler_.fills(ref)) {  // accumulators start right before their fold
      line(depth, "start %" + tree_.ir.node(fill.node).name);
    }
    if (tree_.kind(ref) == LoopTree::NODE) return visit_node(ref, scope, depth);
    for (const Compiler::Stretch& part : compiler_.stretches(ref, scope)) {  // without guards, with guards, the tail
      line(depth, fill_in("{} from {} to {}", compiler_.counter(ref).name(), part.begin, part.end));
      for (TreeRef child : tree_.children(ref)) visit(child, part.scope, depth + 1);
    }
  }

  void visit_node(TreeRef ref, const Compiler::Scope& scope, int depth) {
    const NodeRef node = tree_.node(ref);
    for (NodeRef input : tree_.ir.node(node).inputs) {
      const Compiler::Access access = compiler_.gen_access(input, ref);
      std::string text = fill_in("load %{}[{}]", tree_.ir.node(input).name, compiler_.get_scoped_expr(access));
      for (const Constraint& guard : compiler_.get_constraints(access, scope)) {
        text += fill_in(" if 0 <= {} < {}", guard.expr, guard.bound);
      }
      line(depth, text);
    }
    const Compiler::Access out = compiler_.gen_access(node, ref);
    line(depth, fill_in("store %{}[{}]", tree_.ir.node(node).name, compiler_.get_scoped_expr(out)));
  }

  void line(int depth, const std::string& text) {
    text_ += std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n";
  }

  const LoopTree& tree_;
  Compiler compiler_;
  std::string text_;
};
// [walk]

void tour_of_the_tree(const LoopTree& tree) {
  // [tree]
  const TreeRef outer = tree.roots().at(0);
  const TreeRef inner = tree.children(outer).at(0);
  require(tree.parent(inner) == outer && tree.depth(inner) == 1, "parents");
  require(tree.kind(outer) == LoopTree::LOOP, "kinds");

  const LoopTree::Loop& loop = tree.loop(inner);  // var, size, tail, step, annotation
  require(tree.ir.var(loop.var).name == "t" && loop.size == Expr(3) && loop.tail == Expr(0), "loops");

  const NodeRef sum = tree.ir.node_named("c").value();  // a node of the dataflow graph,
  const TreeRef leaf = tree.find(sum);                  // and where it is in the tree
  require(tree.kind(leaf) == LoopTree::NODE && tree.node(leaf) == sum, "nodes");
  require(tree.ir.node(sum).as<Reduce>()->op == &op_named("add"), "what a node does");
  require(tree.ir.folded_vars(sum) == std::vector{loop.var}, "what it folds");

  int nodes = 0;
  tree.walk([&](TreeRef ref, int) { nodes += tree.kind(ref) == LoopTree::NODE ? 1 : 0; });
  require(nodes == 4, "walking");
  // [tree]
}

void tour_of_the_compiler(const LoopTree& tree) {
  // [compiler]
  const Compiler compiler(tree);
  const NodeRef x = tree.ir.node_named("x").value(), sum = tree.ir.node_named("c").value();
  const TreeRef view = tree.find(tree.ir.node_named("p").value());

  const Compiler::Allocation& input = compiler.allocations.at(x);
  require(input.mem_idx == 0 && input.size() == Expr(16) && !input.scratch, "inputs");
  const Compiler::Allocation& accumulator = compiler.allocations.at(sum);
  require(accumulator.scratch && accumulator.size() == Expr(1), "scratch: one element is enough here");
  require(accumulator.lca == tree.roots().at(0), "where scratch lives");

  const Compiler::Access access = compiler.gen_access(x, view);  // how the view reads x
  require(to_string(compiler.get_scoped_expr(access)) == "o + t - 1", "index expressions");
  require(compiler.get_constraints(access).size() == 1, "the guard 0 <= o + t - 1 < 16");
  require(compiler.stride(access, tree.parent(view)) == Expr(1), "strides");

  const VarRef t = tree.ir.var_named("t").value();
  require(compiler.sym_to_var.at(compiler.var_to_sym.at(t)) == t, "variables and symbols");
  // [compiler]
}

}  // namespace

int main() {
  try {
    const LoopTree tree(parse(kKernel).value());
    std::fputs(tree.dump().c_str(), stdout);
    tour_of_the_tree(tree);
    tour_of_the_compiler(tree);
    const std::string listing = Listing(tree).run();
    std::fputs(listing.c_str(), stdout);
    require(listing.find("o from 1 to 15") != std::string::npos, "the stretch without guards");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
