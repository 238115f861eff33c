// Keeps quantized tensors as bytes where a model dequantizes them, moves them, and quantizes them again.
//
//     quantize(view(dequantize(q)))   is view(q), where both have the same scale and zero point
//     quantize(pad(x))                is pad(quantize(x)): a padding of zeros becomes one of the zero point
//     max_pool(dequantize(q))         is dequantize(max_pool(q)): greater bytes stand for greater numbers
//     quantize(relu(x))               is quantize(x), where 0 is the least byte
//
// Each keeps every bit: a byte minus its zero point, times the scale, times 1 / scale, is off by less than a half.
// Scales and zero points are constants of one number; others are left alone.
#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/rewrite.h"
#include "passes/passes.h"

namespace tenon {
namespace {

constexpr double kLeastScale = 1e-30;  // 1 / scale is exact enough down to it
constexpr double kMostZero = 255;

bool has_name(const Node& node, std::string_view name) { return node.op->name.get() == name; }

class ByteKeeper {
 public:
  explicit ByteKeeper(const Graph& source) : rewriter_(source) {}

  Graph run() {
    for (const Node& node : rewriter_.source().nodes()) {
      if (has_name(node, "max_pool") && pool(node)) continue;
      rewriter_.replace_or_copy(node, has_name(node, "quantize") ? bytes(node) : Value());
    }
    return eliminate_dead_code(rewriter_.finish());
  }

 private:
  struct Scale {
    double scale, zero_point;
    bool operator==(const Scale&) const = default;
  };

  Graph& target() { return rewriter_.target(); }
  const Node* producer(ValueRef value) {
    const NodeRef ref = target().producer(value);
    return ref ? &target().node(ref) : nullptr;
  }

  std::optional<double> number(ValueRef value) {
    const Leaf* const leaf = target().leaf(value);
    if (leaf == nullptr || leaf->kind != LeafKind::kConstant || leaf->data.numel() != 1) return {};
    const Tensor& data = leaf->data;
    return is_float(data.dtype()) ? data.real(0) : static_cast<double>(data.integer(0));
  }

  // Of operands x, scale and zero point; none if they are not one number each, or unusual ones.
  std::optional<Scale> scale_of(std::span<const ValueRef> operands) {
    const std::optional<double> scale = number(operands[1]);
    const std::optional<double> zero = operands[2] ? number(operands[2]) : 0.0;
    if (!scale || !zero || !(*scale > kLeastScale && *scale < 1 / kLeastScale) || std::abs(*zero) > kMostZero)
      return {};
    return Scale{*scale, *zero};
  }

  // The node behind views, which are appended to `views` from the last to the first.
  const Node* behind_views(ValueRef value, std::vector<Node>& views) {
    const Node* node = producer(value);
    while (node != nullptr && (has_name(*node, "reshape") || has_name(*node, "permute"))) {
      views.push_back(*node);
      node = producer(node->operands[0]);
    }
    return node;
  }

  // What replaces a node `quantize`; empty: nothing does.
  Value bytes(const Node& node) {
    const std::vector<ValueRef> operands = rewriter_.map(node.operands);
    const std::optional<Scale> scale = scale_of(operands);
    const OpView view = view_of(target(), *node.op, operands, node.attrs);
    const DType dtype = view.dtype("dtype");
    const int64_t low = dtype == DType::kI8 ? -128 : 0;
    const bool is_byte = dtype == DType::kI8 || dtype == DType::kU8;
    if (!scale || !is_byte || view.integer("quant_min") != low || view.integer("quant_max") != low + 255) return {};
    Builder b(target(), node.location);
    return again(b, node, operands, *scale);
  }

  Value again(Builder& b, const Node& node, const std::vector<ValueRef>& operands, const Scale& scale) {
    std::vector<Node> views;
    const Node* const inner = behind_views(operands[0], views);
    if (inner == nullptr) return {};
    if (has_name(*inner, "dequantize")) return through(b, node, *inner, views, scale);
    if (views.empty() && has_name(*inner, "pad")) return padded(b, node, *inner, operands, scale);
    if (views.empty() && has_name(*inner, "relu")) return cut_off(b, node, *inner, operands, scale);
    return {};
  }

  Value cut_off(Builder& b, const Node& node, const Node& relu, std::vector<ValueRef> operands, const Scale& scale) {
    const int64_t low = view_of(target(), *node.op, operands, node.attrs).integer("quant_min");
    if (scale.zero_point != static_cast<double>(low)) return {};
    operands[0] = relu.operands[0];
    const Value y = again(b, node, operands, scale);
    return y ? y : b.repeat(node, operands);
  }

  Value through(Builder& b, const Node& node, const Node& dequantize, const std::vector<Node>& views,
                const Scale& scale) {
    const ValueRef q = dequantize.operands[0];
    const bool is_same = target().type(q).dtype == std::get<DType>(node.attrs.back()) &&
                         target().type(dequantize.results[0]).dtype == DType::kF32 &&
                         scale_of(dequantize.operands) == scale;
    if (!is_same) return {};
    Value y = b.value(q);
    for (size_t i = views.size(); i-- > 0;) y = b.repeat(views[i], {y.ref()});
    return y;
  }

  Value padded(Builder& b, const Node& node, const Node& given, std::vector<ValueRef> operands, const Scale& scale) {
    const Node pad = given;
    const OpView view = view_of(target(), *pad.op, pad.operands, pad.attrs);
    const auto* const fill = std::get_if<double>(&view.attr("value"));
    const auto* const integer = std::get_if<Expr>(&view.attr("value"));
    if (!(fill != nullptr && *fill == 0) && !(integer != nullptr && integer->is_constant(0))) return {};
    const std::vector<Expr> low(view.exprs("low").begin(), view.exprs("low").end());
    const std::vector<Expr> high(view.exprs("high").begin(), view.exprs("high").end());
    operands[0] = pad.operands[0];
    Value y = again(b, node, operands, scale);
    if (!y) y = b.repeat(node, operands);
    const bool is_signed = y.dtype() == DType::kI8;
    const double zero = std::clamp(scale.zero_point, is_signed ? -128.0 : 0.0, is_signed ? 127.0 : 255.0);
    return b.pad(y, low, high, zero);
  }

  bool pool(const Node& node) {
    const std::vector<ValueRef> operands = rewriter_.map(node.operands);
    const Node* const found = producer(operands[0]);
    if (found == nullptr || !has_name(*found, "dequantize") || !scale_of(found->operands)) return false;
    const Node dequantize = *found;
    const NodeRef pooled = target().add_node(*node.op, {dequantize.operands[0]}, node.attrs, node.location);
    const std::vector<ValueRef> results = target().node(pooled).results;
    Builder b(target(), dequantize.location);
    std::vector<ValueRef> again = dequantize.operands;
    again[0] = results[0];
    rewriter_.replace(node, {b.repeat(dequantize, again).ref(), results[1]});
    return true;
  }

  Rewriter rewriter_;
};

}  // namespace

Graph keep_bytes(const Graph& graph) {
  return eliminate_common_subexpressions(ByteKeeper(eliminate_common_subexpressions(graph)).run());
}

}  // namespace tenon
