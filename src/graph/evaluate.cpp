#include "graph/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/builder.h"
#include "graph/reference.h"
#include "support/interrupt.h"

namespace tenon {
namespace {

using symbolic::Bindings;

class Evaluator {
 public:
  Evaluator(const Graph& graph, int64_t most_elements)
      : graph_(graph), values_(graph.value_count()), elements_left_(most_elements) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    bind_leaves(inputs);
    for (const Node& node : graph_.nodes()) {
      check_interrupt();
      located(node.location, [&] { run_node(node); });
    }
    std::vector<Tensor> outputs = take_outputs();
    apply_updates();
    return outputs;
  }

 private:
  void bind_leaves(std::span<const Tensor> inputs) {
    const std::vector<ValueRef> formal = graph_.inputs();
    if (formal.size() != inputs.size())
      fail("graph {} takes {} inputs, got {}", graph_.name(), formal.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) values_[formal[i].id] = inputs[i];
    for (const Leaf& leaf : graph_.leaves()) {
      if (leaf.kind == LeafKind::kInput) continue;
      if (!leaf.data.defined()) fail("{} '{}' has no data: bind it first", name_of(leaf.kind), leaf.name);
      values_[leaf.value.id] = leaf.data;
    }
    std::vector<symbolic::Equation> equations;
    for (const Leaf& leaf : graph_.leaves()) add_equations(leaf, equations);
    bindings_ = solve(equations, graph_.ranges()).value();
    check_update_targets();
  }

  void check_update_targets() const {
    const std::vector<Update>& updates = graph_.updates();
    for (size_t i = 0; i < updates.size(); ++i) {
      const Leaf& leaf = *graph_.leaf(updates[i].target);
      check_writable(leaf);
      for (size_t j = 0; j < i; ++j) {
        const Leaf& other = *graph_.leaf(updates[j].target);
        if (!values_[leaf.value.id].shares_memory_with(values_[other.value.id])) continue;
        fail("'{}' and '{}' are both updated by graph {}, but share memory: give copies", other.name, leaf.name,
             graph_.name());
      }
    }
  }

  void check_writable(const Leaf& leaf) const {
    const Tensor& tensor = values_[leaf.value.id];
    if (tensor.access() == Access::kReadOnly) {
      fail("{} '{}' is updated by graph {}, but its memory is read-only", name_of(leaf.kind), leaf.name, graph_.name());
    }
    if (tensor.overlaps_itself()) {
      fail("{} '{}' is updated by graph {}, but its elements share memory: give a copy", name_of(leaf.kind), leaf.name,
           graph_.name());
    }
  }

  void add_equations(const Leaf& leaf, std::vector<symbolic::Equation>& equations) const {
    if (leaf.kind == LeafKind::kConstant) return;
    const Tensor& tensor = values_[leaf.value.id];
    const TensorType& type = graph_.type(leaf.value);
    if (!tensor.defined() || tensor.dtype() != type.dtype || tensor.rank() != type.rank()) {
      fail("{} '{}' must be {}, got {}", name_of(leaf.kind), leaf.name, to_string(type),
           tensor.defined() ? to_string(type_of(tensor)) : "nothing");
    }
    for (int64_t dim = 0; dim < type.rank(); ++dim) {
      equations.push_back({type.size(dim), tensor.size(dim),
                           fmt::format("dimension {} of {} '{}'", dim, name_of(leaf.kind), leaf.name)});
    }
  }

  void run_node(const Node& node) {
    std::vector<Tensor> operands;
    std::vector<TensorType> types;
    types.reserve(node.operands.size());
    std::vector<const TensorType*> pointers;
    for (ValueRef operand : node.operands) {
      operands.push_back(operand ? values_[operand.id] : Tensor());
      types.push_back(operand ? type_of(operands.back()) : TensorType());
      pointers.push_back(operand ? &types.back() : nullptr);
    }
    const std::vector<Attr> attrs = concrete_attrs(node);
    require_bound(node, attrs);
    std::vector<Tensor> results =
        std::visit([&](const auto& semantics) { return run_op(semantics, node, attrs, pointers, operands); },
                   node.op->semantics.get());
    store_results(node, std::move(results));
  }

  // Symbols that no earlier shape binds (a count that this node finds out) stay as they are.
  Expr concrete(const Expr& expr) const {
    if (expr.is_constant()) return expr;
    symbolic::Substitution known;
    for (const Symbol& symbol : symbols_of(expr)) {
      if (const auto found = bindings_.find(symbol); found != bindings_.end()) known.emplace(symbol, found->second);
    }
    return substitute(expr, known);
  }

  Shape concrete(std::span<const Expr> shape) const {
    Shape result;
    for (const Expr& size : shape) result.push_back(concrete(size));
    return result;
  }

  std::vector<Attr> concrete_attrs(const Node& node) const {
    std::vector<Attr> attrs = node.attrs;
    for (Attr& attr : attrs) for_each_expr(attr, [&](Expr& expr) { expr = concrete(expr); });
    return attrs;
  }

  // Only a symbol that the node itself defines may still be open.
  static void require_bound(const Node& node, const std::vector<Attr>& attrs) {
    const auto require = [&](const Expr& expr) {
      if (expr.is_constant()) return;
      fail("{}: no input binds the symbol {}", node.op->name.get(), symbols_of(expr)[0].name());
    };
    for (size_t i = 0; i < attrs.size(); ++i) {
      if (node.op->attrs[i].kind != AttrKind::kSymbol) for_each_expr(attrs[i], require);
    }
  }

  std::vector<Tensor> allocate_results(const Node& node) {
    std::vector<Tensor> results;
    for (ValueRef result : node.results) {
      const TensorType& type = graph_.type(result);
      const Shape shape = concrete(type.shape);
      results.push_back(is_static(shape) ? allocate(type.dtype, tenon::evaluate(shape, {})) : Tensor());
    }
    return results;
  }

  Tensor allocate(DType dtype, Sizes shape) {
    const int64_t elements = element_count(shape);
    if (elements > elements_left_) fail("{} elements are more than may be computed", elements);
    elements_left_ -= elements;
    return Tensor::zeros(dtype, std::move(shape));
  }

  using Types = std::vector<const TensorType*>;

  std::vector<Tensor> run_op(const Reference& reference, const Node& node, const std::vector<Attr>& attrs,
                             const Types& types, const std::vector<Tensor>& operands) {
    ReferenceContext context(*node.op, types, attrs, operands, allocate_results(node));
    reference.run(context);
    return std::move(context).take_outputs();
  }

  std::vector<Tensor> run_op(const Expansion&, const Node& node, const std::vector<Attr>& attrs, const Types& types,
                             const std::vector<Tensor>& operands) {
    Graph body;
    Node concrete_node = node;
    concrete_node.attrs = attrs;
    body.set_outputs(expand(body, concrete_node, types));
    std::vector<Tensor> actual;
    std::ranges::copy_if(operands, std::back_inserter(actual), [](const Tensor& tensor) { return tensor.defined(); });
    Evaluator inner(body, elements_left_);
    std::vector<Tensor> results = inner.run(actual);
    elements_left_ = inner.elements_left_;
    return results;
  }

  std::vector<Tensor> run_op(const Elementwise& elementwise, const Node& node, const std::vector<Attr>& attrs,
                             const Types& types, const std::vector<Tensor>& operands) {
    const DType compute = compute_dtype(elementwise, OpView(*node.op, types, attrs));
    std::vector<Tensor> results = allocate_results(node);
    Tensor& out = results[0];
    const std::vector<Tensor> aligned = broadcast_all(operands, out.shape());
    const ScalarFn& fn = scalar_fn(*node.op, compute);
    const size_t first = elementwise.compute == Compute::kSelect ? 1 : 0;
    std::vector<double> reals(operands.size());
    std::vector<int64_t> integers(operands.size());
    for_each_element(out.shape(), [&](const Sizes& index) {
      for (size_t i = 0; i < operands.size(); ++i) {
        const int64_t at = aligned[i].offset(index);
        if (is_float(compute)) {
          reals[i] = i < first ? aligned[i].real(at) : round_to(compute, aligned[i].real(at));
        } else {
          integers[i] = i < first ? aligned[i].integer(at) : wrap_to(compute, aligned[i].integer(at));
        }
      }
      const int64_t to = out.offset(index);
      is_float(compute) ? out.set_real(to, fn(reals.data())) : out.set_integer(to, fn(integers.data(), compute));
    });
    return results;
  }

  template <class Body>
  static void for_each_element(const Sizes& shape, const Body& body) {
    constexpr int64_t kBetweenChecks = 4096;
    int64_t done = 0;
    for_each_index(shape, [&](const Sizes& index) {
      if (++done % kBetweenChecks == 0) check_interrupt();
      body(index);
    });
  }

  // The operands as views of the result's shape: a stretched dimension has stride 0.
  static std::vector<Tensor> broadcast_all(const std::vector<Tensor>& operands, const Sizes& shape) {
    std::vector<Tensor> aligned;
    for (const Tensor& tensor : operands) {
      const size_t added = shape.size() - tensor.shape().size();
      Sizes strides(shape.size(), 0);
      for (size_t dim = added; dim < shape.size(); ++dim) {
        if (tensor.shape()[dim - added] != 1) strides[dim] = tensor.strides()[dim - added];
      }
      aligned.push_back(Tensor::borrow(tensor.dtype(), shape, std::move(strides), tensor.data(), tensor.owner()));
    }
    return aligned;
  }

  void store_results(const Node& node, std::vector<Tensor> results) {
    check(results.size() == node.results.size(), "{} gave {} results", node.op->name.get(), results.size());
    std::vector<symbolic::Equation> equations;
    for (size_t i = 0; i < results.size(); ++i) {
      const TensorType& type = graph_.type(node.results[i]);
      check(results[i].defined() && results[i].dtype() == type.dtype && results[i].rank() == type.rank(),
            "{} gave {} where {} was inferred", node.op->name.get(),
            results[i].defined() ? to_string(type_of(results[i])) : "nothing", to_string(type));
      for (int64_t dim = 0; dim < type.rank(); ++dim) {
        const Expr size = concrete(type.size(dim));
        check(!size.is_constant() || size.constant() == results[i].size(dim), "{} gave {} where {} was inferred",
              node.op->name.get(), to_string(type_of(results[i])), to_string(type));
        if (size.is_constant()) continue;
        equations.push_back({size, results[i].size(dim), fmt::format("result {} of {}", i, node.op->name.get())});
      }
      values_[node.results[i].id] = results[i];
    }
    if (!equations.empty()) bindings_.merge(solve(equations, graph_.ranges()).value());
  }

  // Copies a result that is a leaf or that two outputs name: the caller may write into the outputs.
  std::vector<Tensor> take_outputs() const {
    std::set<const void*> taken;
    for (const Leaf& leaf : graph_.leaves()) taken.insert(values_[leaf.value.id].owner().get());
    std::vector<Tensor> outputs;
    for (ValueRef output : graph_.outputs()) {
      const Tensor& value = values_[output.id];
      const bool is_fresh = value.owner() && taken.insert(value.owner().get()).second;
      outputs.push_back(is_fresh ? value : value.copy());
    }
    return outputs;
  }

  void apply_updates() {
    // A new value may be the very memory that another update overwrites: take the copies first.
    std::vector<Tensor> updated;
    for (const Update& update : graph_.updates()) updated.push_back(values_[update.value.id].copy());
    for (size_t i = 0; i < updated.size(); ++i) values_[graph_.updates()[i].target.id].copy_from(updated[i]);
  }

  const Graph& graph_;
  std::vector<Tensor> values_;
  Bindings bindings_;
  int64_t elements_left_;
};

}  // namespace

Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs, int64_t most_elements) {
  return attempt([&] { return Evaluator(graph, most_elements).run(inputs); });
}

}  // namespace tenon
