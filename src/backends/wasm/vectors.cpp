#include "backends/wasm/vectors.h"

#include <algorithm>

#include "backends/wasm/arithmetic.h"

namespace tenon::wasm {
namespace {

using namespace loops;
using loops::Compute;
using loops::Node;
using Access = Compiler::Access;

class Vectorizer {
 public:
  Vectorizer(const Compiler& compiler, TreeRef loop, const Compiler::Scope& scope)
      : compiler_(compiler), tree_(compiler.tree()), ir_(tree_.ir), loop_(loop), scope_(scope) {}

  int64_t lanes() const {
    int64_t lanes = 0;
    for (TreeRef leaf : tree_.children(loop_)) {
      for (DType dtype : dtypes_of(ir_.node(tree_.node(leaf)))) {
        if (lanes != 0 && lanes != lanes_for(dtype)) return 1;
        lanes = lanes_for(dtype);
      }
      if (!has_vector_form(leaf)) return 1;
    }
    return lanes;
  }

 private:
  std::vector<DType> dtypes_of(const Node& node) const {
    std::vector<DType> dtypes = {node.dtype};
    for (NodeRef input : node.inputs) dtypes.push_back(ir_.node(input).dtype);
    return dtypes;
  }

  bool has_vector_form(TreeRef leaf) const {
    const Node& node = ir_.node(tree_.node(leaf));
    if (node.as<Scan>() || node.as<Scatter>() || !node.lookups().empty()) return false;
    const auto* compute = node.as<Compute>();
    if (compute && divides_integers(*compute->op, ir_.node(node.inputs[0]).dtype)) return false;
    if (compute && compute->op->name.get() == "bitcast" && size_of(node.dtype) != 4) return false;
    const bool by_lane = ir_.folds(tree_.node(leaf), tree_.loop(loop_).var);
    const Access own = compiler_.gen_access(tree_.node(leaf), leaf);
    if (!by_lane && (own.memory->dtype != node.dtype || !reaches(own))) return false;
    if (const auto* view = node.as<View>()) {
      return std::ranges::all_of(view->pieces, [&](const Piece& piece) { return reaches(piece, leaf); });
    }
    return std::ranges::all_of(node.inputs, [&](NodeRef input) {
      return compiler_.is_fused(input) || reaches(compiler_.gen_access(input, leaf));
    });
  }

  // All lanes have the same guards.
  bool reaches(const Piece& piece, TreeRef leaf) const {
    const Access access = compiler_.gen_access(piece, leaf);
    const auto varies = [&](const Constraint& guard) { return changes(guard.expr) || changes(guard.bound); };
    return std::ranges::none_of(compiler_.get_constraints(access, scope_), varies) && reaches(access);
  }

  bool reaches(const Access& access) const {
    if (!access.memory || (access.memory->scratch && access.memory->lca == loop_)) return true;
    const std::optional<Expr> stride = compiler_.stride(access, loop_);
    if (!stride || changes(*stride)) return false;
    if (stride->is_constant(0)) return true;
    if (access.memory->dtype != ir_.node(access.node).dtype) return false;
    return stride->is_constant(1) || size_of(access.memory->dtype) >= 4;
  }

  bool changes(const Expr& expr) const { return depends_on(expr, compiler_.counter(loop_)); }

  const Compiler& compiler_;
  const LoopTree& tree_;
  const IR& ir_;
  TreeRef loop_;
  const Compiler::Scope& scope_;
};

}  // namespace

int64_t vector_lanes(const Compiler& compiler, TreeRef loop, const Compiler::Scope& scope) {
  return Vectorizer(compiler, loop, scope).lanes();
}

}  // namespace tenon::wasm
