// Moves views to places where they cost nothing.
//
// Layers of models work on [batch, length, features], and their products on [batch * length, features]. The reshapes
// between them keep kernels apart. So:
//   - A reshape of leading dimensions moves behind the elementwise nodes that read it.
//   - A product whose result is only cut into parts (queries, keys, values) becomes one product for each part, with a
//     part of the weights.
//   - A convolution with one tap gets an image of one long row if it has few channels, because only pixels can fill
//     vectors; or if it multiplies many bytes, which need so few steps that transposing the sums of channels takes
//     longer. That reshape moves on likewise.
//   - A product that gives weights of a convolution as a matrix [channels, channels * taps], such as their gradient,
//     keeps the matrix through the update of the weights. Then the update is part of the product's kernel.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "graph/rewrite.h"
#include "machine/machine.h"
#include "passes/passes.h"

namespace tenon {
namespace {

bool is(const Node& node, std::string_view op) { return node.op->name.get() == op; }

class Arranger {
 public:
  explicit Arranger(const Graph& source) : source_(source), rewriter_(source), users_(users_of(source)) {
    for (ValueRef kept : kept_values(source)) users_[kept.id].push_back(kOutside);
  }

  Graph run() {
    for (const Node& node : source_.nodes()) {
      Value result;
      if (is_pointwise(node) && !widens_bytes(source_, node) && !widens_for_products(node))
        result = before_reshape(node);
      if (is(node, "slice")) result = part_of(node);
      if (is(node, "conv")) result = in_one_row(node);
      rewriter_.replace_or_copy(node, result);
    }
    return rewriter_.finish();
  }

 private:
  static constexpr uint32_t kOutside = ~0u;

  Graph& target() { return rewriter_.target(); }
  Value value(ValueRef ref) { return {target(), ref}; }

  // The operand of the reshape that made `ref`, if the reshape changes only dimensions before the last, joins rows of
  // pixels, or takes weights from a matrix. Else empty.
  Value before(ValueRef ref) {
    const NodeRef producer = ref ? target().producer(ref) : NodeRef();
    if (!producer || !is(target().node(producer), "reshape")) return {};
    const Value inner = value(target().node(producer).operands[0]);
    const Shape& shape = target().type(ref).shape;
    const bool keeps_last = !shape.empty() && inner.rank() > 0 && inner.shape().back() == shape.back();
    return keeps_last || inner.shape() == one_row_of(shape) || is_product_of(shape, inner) ? inner : Value();
  }

  // ---- weights as a matrix ----

  // [O, C, taps...] -> [O, C * taps]
  static Shape matrix_of(const Shape& shape) {
    if (shape.size() < 4) return shape;
    return {shape[0], std::accumulate(shape.begin() + 1, shape.end(), Expr(1), std::multiplies())};
  }

  bool is_product_of(const Shape& shape, const Value& inner) {
    if (inner.shape() != matrix_of(shape) || inner.shape() == shape) return false;
    const NodeRef producer = target().producer(inner.ref());
    return producer && (is(target().node(producer), "contract") || is_pointwise(target().node(producer)));
  }

  // An operand with the shape of weights, reshaped to their matrix: a leaf, a number, or an elementwise node of those.
  Value in_matrix(Builder& b, ValueRef operand, const Shape& from, const Shape& to) {
    const Shape& shape = target().type(operand).shape;
    // A tensor of one element keeps one dimension: tensors of rank 0 promote differently.
    if (std::ranges::all_of(shape, [](const Expr& size) { return size.is_constant(1); }))
      return shape.size() <= 1 ? value(operand) : b.reshape(value(operand), Shape{1});
    if (shape != from) return {};
    const auto found = as_matrix_.find(operand);
    return found != as_matrix_.end() ? found->second : as_matrix_[operand] = new_in_matrix(b, operand, from, to);
  }

  Value new_in_matrix(Builder& b, ValueRef operand, const Shape& from, const Shape& to) {
    if (const Value inner = before(operand); inner && inner.shape() == to) return inner;
    if (target().leaf(operand) != nullptr) return b.reshape(value(operand), to);
    const Node node = target().node(target().producer(operand));
    if (!is_pointwise(node)) return {};
    std::vector<ValueRef> operands;
    for (ValueRef each : node.operands) {
      const Value moved = in_matrix(b, each, from, to);
      if (!moved) return {};
      operands.push_back(moved.ref());
    }
    return b.repeat(node, std::move(operands));
  }

  // ---- images in one row ----

  // [N, C, H, W] -> [N, C, 1, H*W]
  static Shape one_row_of(const Shape& shape) {
    if (shape.size() < 4) return shape;
    Shape joined(shape.size(), 1);
    std::copy_n(shape.begin(), 2, joined.begin());
    joined.back() = std::accumulate(shape.begin() + 2, shape.end(), Expr(1), std::multiplies());
    return joined;
  }

  // A product reads bytes and widens them by itself. Nothing comes between it and its cast.
  static bool widens_bytes(const Graph& graph, const Node& node) {
    return is(node, "cast") && is_integral(graph.type(node.results[0]).dtype) &&
           size_of(graph.type(node.operands[0]).dtype) == 1;
  }

  // Nor between it and the cast of a narrow float that nothing else reads: the wide tensor would be in memory.
  bool widens_for_products(const Node& node) const {
    if (!is(node, "cast") || !is_narrow_float(source_.type(node.operands[0]).dtype)) return false;
    const auto& users = users_[node.results[0].id];
    const auto multiplies = [&](uint32_t user) { return user != kOutside && is(source_.nodes()[user], "contract"); };
    return !users.empty() && source_.type(node.results[0]).dtype == DType::kF32 &&
           std::ranges::all_of(users, multiplies);
  }

  Value as_one_row(Builder& b, ValueRef image) {
    const Shape row = one_row_of(target().type(image).shape);
    if (const Value inner = before(image); inner && inner.shape() == row) return inner;
    const NodeRef producer = target().producer(image);
    if (!producer || !widens_bytes(target(), target().node(producer))) return b.reshape(value(image), row);
    const Node cast = target().node(producer);
    return b.repeat(cast, {as_one_row(b, cast.operands[0]).ref()});
  }

  static bool is_large(const Expr& pixels) { return pixels.is_constant() && pixels.constant() >= Machine().row_pixels; }

  Value in_one_row(const Node& node) {
    const OpView view = view_of(source_, *node.op, node.operands, node.attrs);
    const auto all_are = [&](std::string_view attr, int64_t wanted) {
      return std::ranges::all_of(view.ints(attr), [&](int64_t each) { return each == wanted; });
    };
    const Shape& kernel = view.type(1).shape;
    const bool is_of_one_pixel =
        std::all_of(kernel.begin() + 2, kernel.end(), [](const Expr& size) { return size.is_constant(1); });
    if (!is_of_one_pixel || view.flag("transposed") || !all_are("stride", 1) || !all_are("padding", 0)) return {};
    const Shape& shape = view.type(0).shape;
    const auto are_few = [](const Expr& channels) {
      return channels.is_constant() && channels.constant() < Machine().pack_channels;
    };
    const bool is_of_bytes = is_integral(view.type(0).dtype) && is_large(one_row_of(shape).back());
    if (one_row_of(shape) == shape || (!are_few(kernel[0]) && !are_few(kernel[1]) && !is_of_bytes)) return {};
    std::vector<ValueRef> operands = rewriter_.map(node.operands);
    Builder b(target(), node.location);
    operands[0] = as_one_row(b, operands[0]).ref();
    return b.reshape(b.repeat(node, std::move(operands)), source_.type(node.results[0]).shape);
  }

  // ---- reshapes behind what is computed of them ----

  Value before_reshape(const Node& node) {
    const std::vector<ValueRef> operands = rewriter_.map(node.operands);
    Value inner;
    for (ValueRef operand : operands) {
      if (!inner && operand && source_.type(node.results[0]).shape == target().type(operand).shape)
        inner = before(operand);
    }
    if (!inner) return {};
    const Shape& shape = source_.type(node.results[0]).shape;
    if (inner.rank() == std::ssize(shape) && inner.shape() != one_row_of(shape)) return {};
    Builder b(target(), node.location);
    std::vector<ValueRef> moved;
    for (ValueRef operand : operands) {
      moved.push_back(in_shape_of(b, operand, shape, inner.shape()).ref());
      if (!moved.back()) return {};
    }
    return b.reshape(b.repeat(node, std::move(moved)), shape);
  }

  // The operand of a node of shape `from`, for the same node in shape `to`. Empty if that takes more than a reshape.
  Value in_shape_of(Builder& b, ValueRef operand, const Shape& from, const Shape& to) {
    if (to == matrix_of(from) && to.back() != from.back()) return in_matrix(b, operand, from, to);
    const Shape& shape = target().type(operand).shape;
    if (shape == from) {
      const Value inner = before(operand);
      return inner && inner.shape() == to ? inner : b.reshape(value(operand), to);
    }
    if (to == one_row_of(from)) return is_per_channel(shape, from.size()) ? value(operand) : Value();
    const bool is_one_row = std::ranges::all_of(shape.begin(), shape.end() - (shape.empty() ? 0 : 1),
                                                [](const Expr& size) { return size.is_constant(1); });
    if (!is_one_row) return {};
    return shape.size() <= 1 ? value(operand) : b.reshape(value(operand), {shape.back()});
  }

  // Whether the value is the same for all pixels.
  static bool is_per_channel(const Shape& shape, size_t rank) {
    const size_t pixels = std::min(rank - 2, shape.size());
    return std::all_of(shape.end() - static_cast<std::ptrdiff_t>(pixels), shape.end(),
                       [](const Expr& size) { return size.is_constant(1); });
  }

  // ---- parts of products ----

  struct Part {
    Expr start;
    Expr end;
  };

  // Whether the node is a slice of the last dimension with step 1.
  bool cuts_last(const Node& node) const {
    if (!is(node, "slice")) return false;
    const OpView view = view_of(source_, *node.op, node.operands, node.attrs);
    return view.dim("dim") == view.type(0).rank() - 1 && view.integer("step") == 1;
  }

  bool is_only_cut(ValueRef value) const {
    return std::ranges::all_of(users_[value.id],
                               [&](uint32_t user) { return user != kOutside && cuts_last(source_.nodes()[user]); });
  }

  Value part_of(const Node& node) {
    if (!cuts_last(node)) return {};
    ValueRef whole = node.operands[0];
    if (!is_only_cut(whole)) return {};
    const OpView view = view_of(source_, *node.op, node.operands, node.attrs);
    const Shape shape = source_.type(node.results[0]).shape;
    const Expr start = view.given("start") ? view.expr("start") : Expr(0);
    const Part part{start, start + shape.back()};
    if (const NodeRef reshape = source_.producer(whole); reshape && is(source_.node(reshape), "reshape")) {
      const ValueRef inner = source_.node(reshape).operands[0];
      if (source_.type(inner).shape.empty() || source_.type(inner).shape.back() != source_.type(whole).shape.back())
        return {};
      if (users_[inner.id].size() != 1) return {};
      whole = inner;
    }
    if (!can_cut(whole)) return {};
    Builder b(target(), node.location);
    return b.reshape(cut(b, whole, part), shape);
  }

  // Whether a part of the value costs a part of the work: a product with weights, and elementwise nodes on it.
  bool can_cut(ValueRef ref) const {
    const NodeRef producer = source_.producer(ref);
    if (!producer) return false;
    const Node& node = source_.node(producer);
    if (is(node, "contract")) return cut_dim(node).has_value();
    if (!is_pointwise(node)) return false;
    bool any = false;
    for (ValueRef operand : node.operands) {
      if (!operand || !has_columns_of(operand, ref)) continue;
      if (is_weight(operand)) continue;
      if (users_[operand.id].size() != 1 || !can_cut(operand)) return false;
      any = true;
    }
    return any;
  }

  bool has_columns_of(ValueRef operand, ValueRef result) const {
    const Shape& shape = source_.type(operand).shape;
    return !shape.empty() && shape.back() == source_.type(result).shape.back();
  }

  bool is_weight(ValueRef ref) const {
    const Leaf* leaf = source_.leaf(ref);
    return leaf != nullptr && leaf->kind != LeafKind::kInput;
  }

  // The dimension of the second operand that is the last dimension of the result.
  std::optional<int64_t> cut_dim(const Node& node) const {
    const std::string& spec = view_of(source_, *node.op, node.operands, node.attrs).string("spec");
    const size_t comma = spec.find(','), arrow = spec.find("->");
    const std::string a = spec.substr(0, comma), b = spec.substr(comma + 1, arrow - comma - 1);
    const size_t place = b.find(spec.back());
    if (place == std::string::npos || a.find(spec.back()) != std::string::npos || !is_weight(node.operands[1]))
      return {};
    return static_cast<int64_t>(place);
  }

  Value cut(Builder& b, ValueRef ref, const Part& part) {
    const Node& node = source_.node(source_.producer(ref));
    if (is(node, "contract")) {
      const Value weights = b.slice(value(rewriter_.map(node.operands[1])), *cut_dim(node), part.start, part.end);
      return b.repeat(node, {rewriter_.map(node.operands[0]), weights.ref()});
    }
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) {
      if (!operand || !has_columns_of(operand, ref)) {
        operands.push_back(rewriter_.map(operand));
      } else if (is_weight(operand)) {
        operands.push_back(b.slice(value(rewriter_.map(operand)), -1, part.start, part.end).ref());
      } else {
        operands.push_back(cut(b, operand, part).ref());
      }
    }
    return b.repeat(node, std::move(operands));
  }

  const Graph& source_;
  Rewriter rewriter_;
  std::map<ValueRef, Value> as_matrix_;       // of what has the shape of weights; empty where it cannot be one
  std::vector<std::vector<uint32_t>> users_;  // of each value of the source: nodes, and kOutside
};

}  // namespace

Graph arrange_views(const Graph& graph) { return Arranger(graph).run(); }

}  // namespace tenon
