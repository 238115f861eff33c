// Simplifies each node as it is copied. Its operands are simple by then, so one walk is enough. Every rule is exact: it
// keeps each bit of the result, signed zeros included. NaN stays NaN; its payload is free.
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "graph/evaluate.h"
#include "graph/rewrite.h"
#include "passes/passes.h"

namespace tenon {
namespace {

// Folding stops where it would grow the program or take long.
constexpr int64_t kLargestFolded = 4096;     // elements of a result
constexpr int64_t kLargestOperands = 65536;  // elements of all operands
constexpr int64_t kMostComputed = 1 << 20;   // elements of all that a composite is made of

// A node before it is added to the new graph: its op, its simplified operands and its attributes.
class Candidate {
 public:
  Candidate(Graph& graph, const Node& node, std::vector<ValueRef> operands, const TensorType& type)
      : graph_(graph), node_(node), operands_(std::move(operands)), type_(type) {}

  Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  const TensorType& type() const { return type_; }  // of the first result
  const std::vector<ValueRef>& operands() const { return operands_; }
  ValueRef in(size_t i) const { return operands_[i]; }
  const TensorType& in_type(size_t i) const { return graph_.type(in(i)); }
  OpView view() const { return view_of(graph_, *node_.op, operands_, node_.attrs); }

  // The operand, if it has the type of the result.
  ValueRef pass_through(size_t i) const { return in_type(i) == type_ ? in(i) : ValueRef(); }

  // The node that makes operand i, when it is this op.
  const Node* producer(size_t i, std::string_view op) const {
    const NodeRef ref = graph_.producer(in(i));
    return ref && graph_.node(ref).op->name.get() == op ? &graph_.node(ref) : nullptr;
  }

  // True when operand i is a constant, or a fill, of exactly this value.
  bool is_all(size_t i, double value) const {
    if (const Node* fill = producer(i, "full")) {
      const DType dtype = in_type(i).dtype;  // the fill is what is left of its value in this dtype
      if (const auto* real = std::get_if<double>(&fill->attrs[0]))
        return same(Tensor::scalar(dtype, *real).real(0), value);
      const auto* expr = std::get_if<Expr>(&fill->attrs[0]);
      return expr && expr->is_constant() && same(Tensor::scalar(dtype, expr->constant()).real(0), value);
    }
    const Leaf* leaf = graph_.leaf(in(i));
    if (!leaf || leaf->kind != LeafKind::kConstant || leaf->data.numel() != 1) return false;
    return same(leaf->data.real(0), value);
  }

  ValueRef add(std::string_view op, std::vector<ValueRef> operands, NamedAttrs attrs) const {
    const OpDef& def = op_named(op);
    const NodeRef added =
        graph_.add_node(def, std::move(operands), complete_attrs(def, std::move(attrs)), node_.location);
    return graph_.node(added).results[0];
  }

 private:
  static bool same(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

  Graph& graph_;
  const Node& node_;
  std::vector<ValueRef> operands_;
  const TensorType& type_;
};

// A rule gives the value that a node can be replaced by, or nothing.
using Rule = ValueRef (*)(const Candidate&);

ValueRef drop_neutral_operand(const Candidate& c, double neutral, bool either_side) {
  if (c.is_all(1, neutral)) return c.pass_through(0);
  if (either_side && c.is_all(0, neutral)) return c.pass_through(1);
  return {};
}

// x + 0 is not x when x is -0: only -0 is neutral for floats.
ValueRef simplify_add(const Candidate& c) {
  return drop_neutral_operand(c, is_float(c.type().dtype) ? -0.0 : 0.0, true);
}
ValueRef simplify_sub(const Candidate& c) { return drop_neutral_operand(c, 0.0, false); }
ValueRef simplify_mul(const Candidate& c) { return drop_neutral_operand(c, 1.0, true); }
ValueRef simplify_div(const Candidate& c) { return drop_neutral_operand(c, 1.0, false); }

ValueRef undo_itself(const Candidate& c) {
  const Node* inner = c.producer(0, c.node().op->name.get());
  return inner && c.graph().type(inner->operands[0]) == c.type() ? inner->operands[0] : ValueRef();
}

bool holds_exactly(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::kBool) return true;
  if (is_float(narrow)) return is_float(wide) && promote(wide, narrow) == wide;
  if (is_float(wide))
    return (wide == DType::kF64 && narrow != DType::kI64) || (wide == DType::kF32 && size_of(narrow) <= 2);
  return promote(wide, narrow) == wide;
}

// A cast through a dtype that holds everything is one cast.
ValueRef simplify_cast(const Candidate& c) {
  if (ValueRef same = c.pass_through(0)) return same;
  const Node* inner = c.producer(0, "cast");
  if (!inner) return {};
  const ValueRef source = inner->operands[0];
  if (!holds_exactly(c.in_type(0).dtype, c.graph().type(source).dtype)) return {};
  if (c.graph().type(source) == c.type()) return source;
  return c.add("cast", {source}, {{"dtype", c.type().dtype}});
}

ValueRef simplify_reshape(const Candidate& c) {
  if (ValueRef same = c.pass_through(0)) return same;
  const Node* inner = c.producer(0, "reshape");
  if (!inner) return {};
  if (c.graph().type(inner->operands[0]) == c.type()) return inner->operands[0];
  return c.add("reshape", {inner->operands[0]}, {{"shape", c.type().shape}});
}

std::vector<int64_t> normalized(std::span<const int64_t> dims) {
  std::vector<int64_t> result;
  for (int64_t dim : dims) result.push_back(normalize_dim(dim, static_cast<int64_t>(dims.size())));
  return result;
}

ValueRef simplify_permute(const Candidate& c) {
  std::vector<int64_t> dims = normalized(c.view().ints("dims"));
  if (std::ranges::is_sorted(dims)) return c.in(0);
  const Node* inner = c.producer(0, "permute");
  if (!inner) return {};
  const std::vector<int64_t> first = normalized(std::get<std::vector<int64_t>>(inner->attrs[0]));
  for (int64_t& dim : dims) dim = first[static_cast<size_t>(dim)];
  if (std::ranges::is_sorted(dims)) return inner->operands[0];
  return c.add("permute", {inner->operands[0]}, {{"dims", std::move(dims)}});
}

ValueRef simplify_expand(const Candidate& c) {
  if (ValueRef same = c.pass_through(0)) return same;
  const Node* inner = c.producer(0, "expand");
  return inner ? c.add("expand", {inner->operands[0]}, {{"shape", c.type().shape}}) : ValueRef();
}

// A slice that keeps every element has the operand's shape: with a step of 1 it starts at 0.
ValueRef simplify_slice(const Candidate& c) { return c.view().integer("step") == 1 ? c.pass_through(0) : ValueRef(); }

ValueRef simplify_pad(const Candidate& c) {
  const auto is_zero = [](const Expr& amount) { return amount.is_constant(0); };
  const OpView view = c.view();
  return std::ranges::all_of(view.exprs("low"), is_zero) ? c.pass_through(0) : ValueRef();
}

ValueRef simplify_concat(const Candidate& c) { return c.operands().size() == 1 ? c.pass_through(0) : ValueRef(); }

ValueRef simplify_where(const Candidate& c) {
  if (c.in(1) == c.in(2)) return c.pass_through(1);
  if (c.is_all(0, 1.0)) return c.pass_through(1);
  if (c.is_all(0, 0.0)) return c.pass_through(2);
  return {};
}

// Reads the matrices of the groups as they lie.
ValueRef simplify_grouped_matmul(const Candidate& c) {
  const Node* inner = c.producer(1, "permute");
  if (!inner) return {};
  const std::vector<int64_t> dims = normalized(std::get<std::vector<int64_t>>(inner->attrs[0]));
  if (dims != std::vector<int64_t>{0, 2, 1}) return {};
  return c.add("grouped_matmul", {c.in(0), inner->operands[0], c.in(2)},
               {{"transposed", !c.view().flag("transposed")}});
}

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> table = {
      {"add", simplify_add},         {"sub", simplify_sub},
      {"mul", simplify_mul},         {"div", simplify_div},
      {"neg", undo_itself},          {"bitwise_not", undo_itself},
      {"logical_not", undo_itself},  {"cast", simplify_cast},
      {"reshape", simplify_reshape}, {"permute", simplify_permute},
      {"expand", simplify_expand},   {"slice", simplify_slice},
      {"pad", simplify_pad},         {"concat", simplify_concat},
      {"where", simplify_where},     {"grouped_matmul", simplify_grouped_matmul}};
  return table;
}

bool is_symbolic(const Attr& attr) {
  bool symbolic = false;
  for_each_expr(attr, [&](const Expr& expr) { symbolic = symbolic || !expr.is_constant(); });
  return symbolic;
}

bool all_constant(const Graph& graph, const std::vector<ValueRef>& operands) {
  int64_t elements = 0;
  for (ValueRef operand : operands) {
    if (!operand) continue;
    const Leaf* leaf = graph.leaf(operand);
    if (!leaf || leaf->kind != LeafKind::kConstant) return false;
    elements += leaf->data.numel();
  }
  return !operands.empty() && elements <= kLargestOperands;  // without operands it is a fill: it stays small
}

// The results of a node whose operands are all constants. Empty if they are large, or if evaluation fails: then the run
// fails.
std::optional<std::vector<Tensor>> fold(const Graph& graph, const Node& node, const std::vector<ValueRef>& operands) {
  if (!all_constant(graph, operands) || std::ranges::any_of(node.attrs, is_symbolic)) return std::nullopt;
  Graph single;
  std::vector<ValueRef> copied;
  for (ValueRef operand : operands)
    copied.push_back(operand ? single.add_constant(graph.leaf(operand)->data) : operand);
  const std::vector<ValueRef> outputs = single.node(single.add_node(*node.op, std::move(copied), node.attrs)).results;
  single.set_outputs(outputs);
  const auto is_large = [&](ValueRef result) {
    const Shape& shape = single.type(result).shape;
    return !is_static(shape) || element_count(evaluate(shape, {})) > kLargestFolded;
  };
  const auto folded = attempt([&]() -> std::optional<std::vector<Tensor>> {
    if (std::ranges::any_of(outputs, is_large)) return std::nullopt;
    return evaluate(single, {}, kMostComputed).value();
  });
  return folded.ok() ? *folded : std::nullopt;
}

void canonicalize_node(Rewriter& rewriter, const Node& node) {
  Graph& target = rewriter.target();
  std::vector<ValueRef> operands = rewriter.map(node.operands);
  if (const auto folded = fold(target, node, operands)) {
    std::vector<ValueRef> results;
    for (const Tensor& tensor : *folded) results.push_back(target.add_constant(tensor));
    return rewriter.replace(node, results);
  }
  const auto rule = rules().find(node.op->name.get());
  if (rule != rules().end()) {
    const Candidate candidate(target, node, std::move(operands), rewriter.source().type(node.results[0]));
    if (const ValueRef simpler = rule->second(candidate)) return rewriter.replace(node, {simpler});
  }
  rewriter.copy(node);
}

// A constant that holds one element for all of a large shape: as a fill, it needs no memory.
void replace_splats(Rewriter& rewriter) {
  Builder builder(rewriter.target());
  for (const Leaf& leaf : rewriter.source().leaves()) {
    const Tensor& data = leaf.data;
    const auto is_zero = [](int64_t stride) { return stride == 0; };
    if (leaf.kind != LeafKind::kConstant || data.numel() <= kLargestFolded) continue;
    if (!std::ranges::all_of(data.strides(), is_zero)) continue;
    const Attr number = is_float(data.dtype()) ? Attr(data.real(0)) : Attr(Expr(data.integer(0)));
    const Value fill = builder.full(number, rewriter.source().type(leaf.value).shape, data.dtype());
    rewriter.replace(leaf.value, fill.ref());
  }
}

}  // namespace

Graph canonicalize(const Graph& graph) {
  Rewriter rewriter(graph);
  replace_splats(rewriter);
  for (const Node& node : graph.nodes()) canonicalize_node(rewriter, node);
  return rewriter.finish();
}

}  // namespace tenon
