#include "backends/cuda/products.h"

#include <algorithm>
#include <cmath>

#include "support/is_in.h"

namespace tenon {
namespace {

using namespace loops;
using loops::Compute;

// One dimension of a product: its size, and how far one step of it goes in each array.
struct Axis {
  Expr size = 1;
  Expr a = 0, b = 0, d = 0;
};

struct Element {
  Compiler::Access access;
  Expr position;  // over counters
  DType dtype;
  double scale = 1;  // what it is multiplied by
};

// The position of the factor among the inputs.
std::optional<size_t> known_factor(const IR& ir, NodeRef ref) {
  const Node& node = ir.node(ref);
  if (!node.computes("mul") || node.dtype != DType::kF32) return {};
  for (size_t i = 0; i < 2; ++i) {
    const auto* factor = ir.node(node.inputs[i]).as<Constant>();
    if (factor && std::isnormal(std::get<double>(factor->value))) return i;
  }
  return {};
}

class ProductMatcher {
 public:
  ProductMatcher(const Compiler& compiler, TreeRef root)
      : compiler_(compiler), tree_(compiler.tree()), ir_(tree_.ir), root_(root), ranges_(ir_.ranges()) {}

  std::optional<MatchedProduct> run() {
    if (!find_nodes() || !find_elements()) return {};
    std::vector<Axis> batch, m, n, k;
    for (TreeRef loop : tree_.path(tree_.find(sum_))) {
      const std::optional<Axis> axis = axis_of(loop);
      if (!axis) return {};
      if (axis->size.is_constant(1)) continue;
      const VarRef var = tree_.loop(loop).var;
      const bool in_a = depends(a_, loop), in_b = depends(b_, loop);
      if (ir_.folds(sum_, var) ? !(in_a && in_b) : !(in_a || in_b)) return {};
      add(*axis, ir_.folds(sum_, var) ? k : in_a && in_b ? batch : in_a ? m : n);
    }
    if (batch.size() > 1 || m.size() > 1 || n.size() > 1 || k.size() != 1) return {};
    const auto only = [](const std::vector<Axis>& axes) { return axes.empty() ? Axis() : axes[0]; };
    Axis rows = only(m), columns = only(n);
    // The columns of the result are contiguous.
    if (!columns.d.is_constant(1) && !columns.size.is_constant(1)) {
      if (!rows.d.is_constant(1)) return {};
      std::swap(a_, b_);
      std::swap(rows, columns);
      for (std::vector<Axis>* axes : {&batch, &k}) {
        for (Axis& axis : *axes) std::swap(axis.a, axis.b);
      }
      std::swap(rows.a, rows.b), std::swap(columns.a, columns.b);
    }
    return product(only(batch), rows, columns, k[0]);
  }

 private:
  // ---- what is there ----

  bool find_nodes() {
    const std::vector<NodeRef> nodes = tree_.nodes_below(root_);
    for (NodeRef ref : nodes) {
      if (ir_.node(ref).as<Reduce>()) {
        if (sum_ || !ir_.node(ref).sums()) return false;
        sum_ = ref;
      }
    }
    if (!sum_) return false;
    product_ = ir_.node(sum_).inputs[0];
    if (!is_in(nodes, product_) || !ir_.node(product_).computes("mul")) return false;
    if (tree_.parent(tree_.find(product_)) != tree_.parent(tree_.find(sum_))) return false;
    last_ = sum_;
    std::set<NodeRef> known = {sum_, product_};
    for (NodeRef operand : ir_.node(product_).inputs) {
      NodeRef source;
      for (NodeRef at = operand; is_in(nodes, at); at = source) {
        if (tree_.parent(tree_.find(at)) != tree_.parent(tree_.find(sum_))) return false;
        known.insert(at);
        source = ir_.node(at).inputs.size() == 1 ? ir_.node(at).inputs[0] : scaled_operand(ir_, at);
        if (!source) return false;
      }
    }
    if (!find_end(nodes, known)) return false;
    return std::ranges::all_of(nodes, [&](NodeRef ref) { return known.contains(ref); });
  }

  // What the tile does with the sum. Nothing else reads the values on the way.
  bool find_end(const std::vector<NodeRef>& nodes, std::set<NodeRef>& known) {
    while (true) {
      const std::vector<NodeRef> readers = ir_.consumers(last_);
      const bool goes_on = std::ranges::any_of(readers, [&](NodeRef ref) { return is_in(nodes, ref); });
      if (!goes_on) return true;
      const Node& next = ir_.node(readers[0]);
      if (readers.size() != 1 || ir_.node(last_).as<Write>()) return false;
      if (next.computes("add")) {
        if (last_ != sum_ || next.inputs[0] == next.inputs[1]) return false;
        add_ = readers[0];
        bias_ = next.inputs[next.inputs[0] == last_ ? 1 : 0];
        if (is_in(nodes, bias_)) {
          if (!ir_.node(bias_).computes("cast") || is_in(nodes, ir_.node(bias_).inputs[0])) return false;
          known.insert(bias_);
        }
      } else if (!next.as<Write>() && !next.computes("cast")) {
        return false;
      }
      known.insert(last_ = readers[0]);
    }
  }

  std::optional<Element> bias_element() const {
    const bool casts = !ir_.node(bias_).is_leaf() && tree_.contains(root_, tree_.find(bias_));
    const NodeRef source = casts ? ir_.node(bias_).inputs[0] : bias_;
    const Compiler::Access access = compiler_.gen_access(source, tree_.find(casts ? bias_ : add_));
    if (access.memory == nullptr) return {};
    return Element{access, compiler_.get_scoped_expr(access), ir_.node(source).dtype};
  }

  // The bias of a column. False if the element that is added is anything else.
  bool set_bias(MatchedProduct& result) const {
    const std::optional<Element> bias = bias_element();
    if (!bias || bias->dtype != d_.dtype) return false;
    symbolic::Substitution first;
    for (TreeRef loop : tree_.path(tree_.find(add_))) {
      first.emplace(compiler_.counter(loop), 0);
      if (tree_.loop(loop).size.is_constant(1)) continue;
      const bool is_column = depends(b_, loop) && !depends(a_, loop);
      const std::optional<Expr> step = slope(*bias, loop), of_result = slope(d_, loop);
      if (!step || !of_result || !provably_equal(*step, is_column ? *of_result : Expr(0), ranges_)) return false;
    }
    result.step.bias = CudaAddress{.offset = substitute(bias->position, first) * size_of(bias->dtype)};
    result.bias = bias->access.memory->mem_idx;
    return true;
  }

  // The element of memory that an operand is: behind casts from f16 and bf16, views of one piece, and known factors.
  std::optional<Element> source_of(NodeRef operand) const {
    TreeRef reader = tree_.find(product_);
    DType dtype = ir_.node(operand).dtype;
    double scale = 1;
    Compiler::Access access = compiler_.gen_access(operand, reader);
    while (access.node && !ir_.node(access.node).is_leaf() && tree_.contains(root_, tree_.find(access.node))) {
      const TreeRef leaf = tree_.find(access.node);
      const Node& node = ir_.node(access.node);
      if (access.index != ir_.own_index(access.node)) return {};
      if (node.computes("cast")) {
        dtype = ir_.node(node.inputs[0]).dtype;
        if (dtype != DType::kF16 && dtype != DType::kBF16) return {};
        access = compiler_.gen_access(node.inputs[0], leaf);
      } else if (const auto* view = node.as<View>()) {
        const Piece* const piece = view->only_piece();
        if (!piece || dtype != node.dtype) return {};
        access = compiler_.gen_access(*piece, leaf);
        if (!compiler_.get_constraints(access).empty()) return {};
      } else if (const std::optional<size_t> factor = known_factor(ir_, access.node)) {
        scale *= std::get<double>(ir_.node(node.inputs[*factor]).as<Constant>()->value);
        access = compiler_.gen_access(node.inputs[1 - *factor], leaf);
      } else {
        return {};
      }
    }
    if (access.memory == nullptr) return {};
    return Element{access, compiler_.get_scoped_expr(access), dtype, scale};
  }

  // The result may have dimensions of size 1 that the sum lacks.
  std::optional<Expr> without_units(const Expr& position) const {
    symbolic::Substitution first;
    for (TreeRef loop : tree_.path(tree_.find(last_))) {
      const VarRef var = tree_.loop(loop).var;
      if (ir_.node(sum_).has(var) || ir_.folds(sum_, var)) continue;
      if (!tree_.loop(loop).size.is_constant(1)) return {};
      first.emplace(compiler_.counter(loop), 0);
    }
    return substitute(position, first);
  }

  bool find_elements() {
    const std::optional<Element> a = source_of(ir_.node(product_).inputs[0]);
    const std::optional<Element> b = source_of(ir_.node(product_).inputs[1]);
    if (!a || !b || a->dtype != b->dtype || !is_float(a->dtype)) return false;
    a_ = *a, b_ = *b;
    const Compiler::Access result = compiler_.gen_access(last_, tree_.find(last_));
    const std::optional<Expr> position = without_units(compiler_.get_scoped_expr(result));
    if (!position) return false;
    d_ = {result, *position, ir_.node(last_).dtype};
    const DType sums = ir_.node(sum_).dtype;
    if (sums != (a_.dtype == DType::kF64 ? DType::kF64 : DType::kF32)) return false;
    return d_.dtype == a_.dtype || d_.dtype == sums;
  }

  // ---- how it lies in memory ----

  bool depends(const Element& element, TreeRef loop) const {
    // A variable of the array, even where its stride is 0.
    return depends_on(element.position, compiler_.counter(loop));
  }

  std::optional<Expr> slope(const Element& element, TreeRef loop) const {
    const Result<Expr> slope = differentiate(element.position, compiler_.counter(loop));
    if (!slope) return {};
    for (TreeRef other : tree_.path(tree_.find(sum_))) {
      if (depends_on(*slope, compiler_.counter(other))) return {};
    }
    return *slope;
  }

  std::optional<Axis> axis_of(TreeRef loop) const {
    const LoopTree::Loop& at = tree_.loop(loop);
    if (at.step != 1 || !at.tail.is_constant(0)) return {};
    const std::optional<Expr> a = slope(a_, loop), b = slope(b_, loop);
    const bool is_folded = ir_.folds(sum_, at.var);
    const std::optional<Expr> d = is_folded ? Expr(0) : slope(d_, loop);
    if (!a || !b || !d) return {};
    for (const Expr& stride : {*a, *b, *d}) {
      if (bounds(stride, ranges_).low < 0) return {};
    }
    return Axis{at.size, *a, *b, *d};
  }

  // Joins the axis with the one around it where both are one run through memory.
  void add(const Axis& axis, std::vector<Axis>& axes) const {
    const auto continues = [&](const Expr& outer, const Expr& inner) {
      return provably_equal(outer, inner * axis.size, ranges_);
    };
    if (!axes.empty()) {
      Axis& outer = axes.back();
      if (continues(outer.a, axis.a) && continues(outer.b, axis.b) && continues(outer.d, axis.d)) {
        outer = {outer.size * axis.size, axis.a, axis.b, axis.d};
        return;
      }
    }
    axes.push_back(axis);
  }

  // A matrix whose element (row, column) is row * rows + column * columns away from its first.
  std::optional<CudaMatmul::Matrix> matrix(const Element& element, const Expr& row_count, const Expr& rows,
                                           const Expr& column_count, const Expr& columns, const Expr& batch) const {
    symbolic::Substitution first;
    for (TreeRef loop : tree_.path(tree_.find(sum_))) first.emplace(compiler_.counter(loop), 0);
    CudaMatmul::Matrix matrix{.batch = batch};
    const Expr start = substitute(element.position, first);
    if (bounds(start, ranges_).low < 0) return {};
    matrix.address.offset = start * size_of(element.access.memory->dtype);
    const auto is_row = [&](const Expr& stride, const Expr& count) {
      return count.is_constant(1) || bounds(stride - count, ranges_).low >= 0;
    };
    if ((columns.is_constant(1) || column_count.is_constant(1)) &&
        (row_count.is_constant(1) || is_row(rows, column_count))) {
      matrix.row = row_count.is_constant(1) ? column_count : rows;
      return matrix;
    }
    if ((rows.is_constant(1) || row_count.is_constant(1)) &&
        (column_count.is_constant(1) || is_row(columns, row_count))) {
      matrix.is_transposed = true;
      matrix.row = column_count.is_constant(1) ? row_count : columns;
      return matrix;
    }
    return {};
  }

  std::optional<MatchedProduct> product(const Axis& batch, const Axis& m, const Axis& n, const Axis& k) const {
    MatchedProduct result;
    CudaMatmul& step = result.step;
    step.m = max(m.size, 0), step.n = max(n.size, 0), step.k = max(k.size, 0), step.batch = max(batch.size, 0);
    step.operand = a_.dtype;
    step.result = d_.dtype;
    step.alpha = a_.scale * b_.scale;
    const auto a = matrix(a_, m.size, m.a, k.size, k.a, batch.a);
    const auto b = matrix(b_, k.size, k.b, n.size, n.b, batch.b);
    const auto d = matrix(d_, m.size, m.d, n.size, n.d, batch.d);
    if (!a || !b || !d || d->is_transposed) return {};
    step.a = *a, step.b = *b, step.d = *d;
    result.a = a_.access.memory->mem_idx;
    result.b = b_.access.memory->mem_idx;
    result.d = d_.access.memory->mem_idx;
    if (add_ && !set_bias(result)) return {};
    return result;
  }

  const Compiler& compiler_;
  const LoopTree& tree_;
  const IR& ir_;
  const TreeRef root_;
  const symbolic::Ranges ranges_;
  NodeRef sum_, product_, last_, add_, bias_;
  Element a_, b_, d_;
};

}  // namespace

bool is_product_root(const LoopTree& tree, TreeRef root) {
  return tree.kind(root) == LoopTree::LOOP && tree.loop(root).annotation == Annotation{Mark::kTile, kProductTile};
}

NodeRef scaled_operand(const IR& ir, NodeRef ref) {
  const std::optional<size_t> factor = known_factor(ir, ref);
  return factor ? ir.node(ref).inputs[1 - *factor] : NodeRef();
}

std::optional<MatchedProduct> match_product(const Compiler& compiler, TreeRef root) {
  return ProductMatcher(compiler, root).run();
}

}  // namespace tenon
