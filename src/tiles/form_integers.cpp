#include "tiles/form_integers.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/rewrite.h"
#include "support/is_in.h"
#include "tiles/conv_window.h"
#include "tiles/pack.h"
#include "tiles/replace_layers.h"

namespace tenon {
namespace {

constexpr int64_t kShift = 128;  // from u8 to i8

bool has_name(const Node& node, std::string_view name) { return node.op->name.get() == name; }

bool is_sized(const TensorType& type) {
  return std::ranges::all_of(type.shape, [](const Expr& size) { return size.is_constant() && size.constant() > 0; });
}

// The one number that a tensor consists of, if no run changes it.
std::optional<double> number_of(const Graph& graph, ValueRef value) {
  const Leaf* const leaf = graph.leaf(value);
  const bool is_known = leaf != nullptr && leaf->data.defined() && leaf->data.numel() == 1 && !is_updated(graph, *leaf);
  if (!is_known) return {};
  return is_float(leaf->data.dtype()) ? leaf->data.real(0) : static_cast<double>(leaf->data.integer(0));
}

bool is_byte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// What makes a layer, in the order of its nodes. Null: it is left out.
struct IntegerLayer {
  const Node* anchor;             // conv or contract, in i32
  ValueRef x = {}, weights = {};  // bytes; before padding
  const Node* padding = nullptr;  // of x, with its zero point
  ValueRef correction = {}, scale = {}, bias = {};
  const Node* residual = nullptr;  // its `dequantize`
  std::optional<double> low = {}, high = {};
  const Node* quantize = nullptr;
  std::vector<uint32_t> nodes = {};  // that it replaces
  ValueRef result = {};
};

class IntegerFinder {
 public:
  IntegerFinder(const Graph& graph, const tenon_tile_machine& machine)
      : graph_(graph), machine_(machine), users_(users_of(graph)), kept_(kept_values(graph)) {}

  std::map<uint32_t, IntegerLayer> find() const {
    std::map<uint32_t, IntegerLayer> found;
    for (uint32_t id = 0; id < graph_.nodes().size(); ++id) {
      IntegerLayer layer{.anchor = &graph_.nodes()[id], .nodes = {id}, .result = graph_.nodes()[id].results[0]};
      if (!takes_anchor(layer)) continue;
      take_epilogue(layer);
      const uint32_t last = layer.nodes.back();
      found.emplace(last, std::move(layer));
    }
    return found;
  }

 private:
  const Node* producer(ValueRef value, std::string_view op) const {
    const NodeRef ref = graph_.producer(value);
    return ref && has_name(graph_.node(ref), op) ? &graph_.node(ref) : nullptr;
  }

  // The bytes that a value in i32 was cast from; empty: none.
  ValueRef bytes_of(ValueRef value) const {
    const Node* const cast = producer(value, "cast");
    return cast != nullptr && is_byte(graph_.type(cast->operands[0]).dtype) ? cast->operands[0] : ValueRef();
  }

  bool takes_anchor(IntegerLayer& layer) const {
    const Node& node = *layer.anchor;
    const bool is_conv = has_name(node, "conv");
    if ((!is_conv && !has_name(node, "contract")) || graph_.type(layer.result).dtype != DType::kI32) return false;
    layer.x = bytes_of(node.operands[0]);
    layer.weights = bytes_of(node.operands[1]);
    if (!layer.x || !layer.weights || graph_.type(layer.weights).dtype != DType::kI8) return false;
    if (!is_sized(graph_.type(layer.x)) || !is_sized(graph_.type(layer.weights))) return false;
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    if (!is_conv) return is_rows(view.string("spec"));
    if (!no_window(view, machine_).empty()) return false;
    take_padding(layer);
    return true;
  }

  // "abK,CK->abC": rows times the transposed weights.
  static bool is_rows(std::string_view spec) {
    const size_t comma = spec.find(','), arrow = spec.find("->");
    const std::string_view a = spec.substr(0, comma), b = spec.substr(comma + 1, arrow - comma - 1);
    const std::string_view out = spec.substr(arrow + 2);
    return a.size() >= 1 && b.size() == 2 && out.size() == a.size() && b[1] == a.back() && b[0] == out.back() &&
           a.substr(0, a.size() - 1) == out.substr(0, out.size() - 1);
  }

  // Equal padding on both sides of an image, by its zero point.
  void take_padding(IntegerLayer& layer) const {
    const Node* const pad = producer(layer.x, "pad");
    const OpView conv = view_of(graph_, *layer.anchor->op, layer.anchor->operands, layer.anchor->attrs);
    const bool pads = std::ranges::any_of(conv.ints("padding"), [](int64_t size) { return size != 0; });
    if (pad == nullptr || pads) return;
    const OpView view = view_of(graph_, *pad->op, pad->operands, pad->attrs);
    const std::span<const Expr> low = view.exprs("low"), high = view.exprs("high");
    const auto is_amount = [](const Expr& size) { return size.is_constant() && size.constant() >= 0; };
    const bool is_border = std::ranges::equal(low, high) && low[0].is_constant(0) && low[1].is_constant(0) &&
                           std::ranges::all_of(low, is_amount);
    if (!is_border) return;
    layer.padding = pad;
    layer.x = pad->operands[0];
  }

  // ---- the nodes behind the sums ----

  const Node* only_user(ValueRef value) const {
    if (users_[value.id].size() != 1 || is_in(kept_, value)) return nullptr;
    return &graph_.nodes()[users_[value.id][0]];
  }

  // One number for each output, or one for all.
  bool is_vector(ValueRef value, const IntegerLayer& layer) const {
    const Shape& shape = graph_.type(value).shape;
    const bool is_conv = has_name(*layer.anchor, "conv");
    const size_t channel = is_conv ? graph_.type(layer.result).shape.size() - 1 : 1;  // from the end
    for (size_t i = 1; i <= shape.size(); ++i) {
      if (i != channel && !shape[shape.size() - i].is_constant(1)) return false;
    }
    return true;
  }

  void advance(IntegerLayer& layer, const Node& node) const {
    layer.result = node.results[0];
    layer.nodes.push_back(graph_.producer(layer.result).id);
  }

  // The other operand of a node `op` that is the only one to read the result so far.
  ValueRef take(IntegerLayer& layer, std::string_view op) const {
    const Node* const node = only_user(layer.result);
    if (node == nullptr || !has_name(*node, op)) return {};
    const bool is_first = node->operands[0] == layer.result;
    const ValueRef other = node->operands[is_first ? 1 : 0];
    if ((op == "sub" && !is_first) || !is_vector(other, layer)) return {};
    advance(layer, *node);
    return other;
  }

  void take_epilogue(IntegerLayer& layer) const {
    const IntegerLayer sums = layer;
    layer.correction = take(layer, "sub");
    const Node* const cast = only_user(layer.result);
    if (cast == nullptr || !has_name(*cast, "cast") || graph_.type(cast->results[0]).dtype != DType::kF32) {
      layer = sums;
      return;
    }
    advance(layer, *cast);
    layer.scale = take(layer, "mul");
    if (!layer.scale) {
      layer = sums;
      return;
    }
    const IntegerLayer scaled = layer;
    layer.bias = take(layer, "add");
    take_residual(layer);
    take_clamp(layer);
    const Node* const quantize = only_user(layer.result);
    if (quantize == nullptr || !is_requantization(*quantize)) {
      layer = scaled;
      return;
    }
    layer.quantize = quantize;
    advance(layer, *quantize);
  }

  void take_residual(IntegerLayer& layer) const {
    const Node* const add = only_user(layer.result);
    if (add == nullptr || !has_name(*add, "add") || (machine_.epilogues & TENON_TILE_RESIDUAL) == 0) return;
    const bool is_first = add->operands[0] == layer.result;
    const Node* const residual = producer(add->operands[is_first ? 1 : 0], "dequantize");
    const bool fits = residual != nullptr && is_byte(graph_.type(residual->operands[0]).dtype) &&
                      graph_.type(residual->results[0]) == graph_.type(layer.result) &&
                      number_of(graph_, residual->operands[1]) &&
                      (!residual->operands[2] || number_of(graph_, residual->operands[2]));
    if (!fits) return;
    layer.residual = residual;
    advance(layer, *add);
  }

  void take_clamp(IntegerLayer& layer) const {
    const Node* const node = only_user(layer.result);
    if (node == nullptr || (machine_.epilogues & TENON_TILE_CLAMP) == 0) return;
    const OpView view = view_of(graph_, *node->op, node->operands, node->attrs);
    if (has_name(*node, "relu") || has_name(*node, "relu6")) layer.low = 0;
    if (has_name(*node, "relu6")) layer.high = 6;
    if (has_name(*node, "hardtanh")) layer.low = view.real("min_val"), layer.high = view.real("max_val");
    if (layer.low) advance(layer, *node);
  }

  bool is_requantization(const Node& node) const {
    if (!has_name(node, "quantize")) return false;
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    const DType dtype = view.dtype("dtype");
    const int64_t low = dtype == DType::kI8 ? -128 : 0;
    const std::optional<double> zero = number_of(graph_, node.operands[2]), scale = number_of(graph_, node.operands[1]);
    return is_byte(dtype) && view.integer("quant_min") == low && view.integer("quant_max") == low + 255 && zero &&
           *zero >= static_cast<double>(low) && *zero <= static_cast<double>(low + 255) && scale && *scale > 0;
  }

  const Graph& graph_;
  const tenon_tile_machine& machine_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<ValueRef> kept_;
};

class IntegerFormer {
 public:
  IntegerFormer(const Graph& graph, const tenon_tile_machine& machine)
      : graph_(graph), machine_(machine), rewriter_(graph), layers_(IntegerFinder(graph, machine).find()) {}

  Graph run() {
    return replace_layers(graph_, rewriter_, layers_, [&](const IntegerLayer& layer) { return formed(layer); });
  }

 private:
  Value mapped(ValueRef value) { return value ? Value(rewriter_.target(), rewriter_.map(value)) : Value(); }

  // Bytes with a sign.
  Value with_sign(Builder& b, Value x) {
    if (x.dtype() == DType::kI8) return x;
    const auto known = signed_.find(x.ref());
    if (known != signed_.end()) return known->second;
    const Value wide = b.cast(x, DType::kI16) - b.integer(kShift, DType::kI16);
    return signed_[x.ref()] = b.cast(wide, DType::kI8);
  }

  // Of a node `quantize` or `dequantize`, for bytes with a sign.
  int64_t zero_point(const Node& node, ValueRef bytes) const {
    const double zero = node.operands[2] ? number_of(graph_, node.operands[2]).value() : 0;
    return static_cast<int64_t>(zero) - (graph_.type(bytes).dtype == DType::kU8 ? kShift : 0);
  }

  // What the epilogue does in steps of the result.
  void add_quantization(const IntegerLayer& layer, NamedAttrs& all) const {
    if (layer.quantize == nullptr) return;
    const double step = number_of(graph_, layer.quantize->operands[1]).value();
    all.emplace_back("zero_point", zero_point(*layer.quantize, layer.result));
    if (layer.low) all.emplace_back("low", *layer.low / step);
    if (layer.high) all.emplace_back("high", *layer.high / step);
    if (layer.residual == nullptr) return;
    all.emplace_back("residual_scale", number_of(graph_, layer.residual->operands[1]).value() / step);
    all.emplace_back("residual_zero_point", zero_point(*layer.residual, layer.residual->operands[0]));
  }

  Value formed(const IntegerLayer& layer) {
    Builder b(rewriter_.target(), layer.anchor->location);
    const bool is_conv = has_name(*layer.anchor, "conv");
    Value weights = mapped(layer.weights), x = with_sign(b, mapped(layer.x));
    weights = is_conv ? window_weights(b, weights) : b.reshape(weights, {weights.size(0), weights.size(1), 1, 1});
    Value tiles = weights;
    NamedAttrs all = is_conv ? add_window(b, layer, x, tiles) : row_attrs(layer, weights);
    all.emplace_back("dtype", dtype_of(layer));
    add_quantization(layer, all);
    const bool is_shifted = graph_.type(layer.x).dtype == DType::kU8;
    Value residual = layer.residual ? with_sign(b, mapped(layer.residual->operands[0])) : Value();
    if (is_conv && residual) residual = by_channel(b, residual);
    const Value vectors = dtype_of(layer) == DType::kI32 ? Value() : vectors_of(b, layer, weights, is_shifted);
    tiles = packed_weights(b, tiles, machine_, groups_of(layer));
    Value y = b.op("tile_layer", {x, tiles, vectors, residual}, std::move(all));
    if (is_conv) y = by_image(b, y);
    return finished(b, layer, y, weights, is_shifted);
  }

  DType dtype_of(const IntegerLayer& layer) const {
    return layer.quantize != nullptr ? DType::kI8 : layer.scale ? DType::kF32 : DType::kI32;
  }

  // The results as the model has them: without a sign, or with the shift added to sums.
  Value finished(Builder& b, const IntegerLayer& layer, Value y, Value weights, bool is_shifted) {
    if (dtype_of(layer) == DType::kI32 && is_shifted) {
      const Value sums = weight_sums(b, weights) * b.integer(kShift, DType::kI32);
      const bool is_conv = has_name(*layer.anchor, "conv");
      Shape shape(is_conv ? static_cast<size_t>(y.rank() - 1) : 1, 1);
      shape[0] = weights.size(0);
      return y + b.reshape(sums, shape);
    }
    if (layer.quantize == nullptr || graph_.type(layer.result).dtype == DType::kI8) return y;
    const Value wide = b.cast(y, DType::kI16) + b.integer(kShift, DType::kI16);
    const Value unsigned_y = b.cast(wide, DType::kU8);
    signed_[unsigned_y.ref()] = y;
    return unsigned_y;
  }

  static Value weight_sums(Builder& b, Value weights) {
    return b.cast(b.sum(b.cast(weights, DType::kI32), {1, 2, 3}), DType::kI32);
  }

  // (sums + bias) * scale, with a bias in i32.
  Value vectors_of(Builder& b, const IntegerLayer& layer, Value weights, bool is_shifted) {
    const int64_t outputs = weights.size(0).constant();
    const auto flat = [&](ValueRef value) { return b.expand(b.reshape(mapped(value), {-1}), {outputs}); };
    Value scale = b.cast(flat(layer.scale), DType::kF32), bias = b.full(Expr(0), {outputs}, DType::kI32);
    if (layer.correction) bias = bias - b.cast(flat(layer.correction), DType::kI32);
    if (is_shifted) bias = bias + weight_sums(b, weights) * b.integer(kShift, DType::kI32);
    if (layer.bias) {
      const Value steps = b.unary("rint", b.cast(flat(layer.bias), DType::kF32) / scale);
      bias = bias + b.cast(steps, DType::kI32);
    }
    if (layer.quantize != nullptr) scale = scale / b.cast(mapped(layer.quantize->operands[1]), DType::kF32);
    return packed_vectors(b, outputs, b.op("bitcast", {bias}, {{"dtype", DType::kF32}}), scale, machine_,
                          groups_of(layer));
  }

  int64_t groups_of(const IntegerLayer& layer) const {
    if (!has_name(*layer.anchor, "conv")) return 1;
    return view_of(graph_, *layer.anchor->op, layer.anchor->operands, layer.anchor->attrs).integer("groups");
  }

  NamedAttrs row_attrs(const IntegerLayer& layer, Value weights) const {
    std::vector<int64_t> shape;
    int64_t rows = 1;
    for (const Expr& size : graph_.type(layer.result).shape) shape.push_back(size.constant());
    for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    const int64_t channels = weights.size(1).constant();
    return {{"image", std::vector<int64_t>{1, rows, 1, channels}},
            {"outputs", weights.size(0).constant()},
            {"shape", std::move(shape)}};
  }

  // The attributes of a convolution; x and weights as its layer takes them.
  NamedAttrs add_window(Builder& b, const IntegerLayer& layer, Value& x, Value& weights) const {
    const OpView view = view_of(graph_, *layer.anchor->op, layer.anchor->operands, layer.anchor->attrs);
    ConvWindow window = window_of(view, graph_.type(layer.x), graph_.type(layer.weights));
    int64_t pad = graph_.type(layer.x).dtype == DType::kU8 ? -kShift : 0;
    if (layer.padding != nullptr) {
      const OpView border = view_of(graph_, *layer.padding->op, layer.padding->operands, layer.padding->attrs);
      const std::span<const Expr> low = border.exprs("low");
      window.padding[1] += low.back().constant();
      if (low.size() == 4) window.padding[0] += low[2].constant();
      pad += static_cast<int64_t>(number_in(border.attr("value")));
    }
    const WindowOperands operands =
        with_runs(b, {window, by_channel(b, x), weights}, static_cast<double>(pad), machine_);
    x = operands.x, weights = operands.weights;
    NamedAttrs all = window_attrs(operands.window, graph_.type(layer.result).shape);
    if (!window.is_pixel()) all.emplace_back("pad", pad);
    return all;
  }

  static double number_in(const Attr& attr) {
    if (const auto* const real = std::get_if<double>(&attr)) return *real;
    return static_cast<double>(std::get<Expr>(attr).constant());
  }

  const Graph& graph_;
  const tenon_tile_machine& machine_;
  Rewriter rewriter_;
  std::map<uint32_t, IntegerLayer> layers_;
  std::map<ValueRef, Value> signed_;  // of bytes without a sign: the same with one
};

}  // namespace

Graph form_integer_layers(const Graph& graph, const tenon_tile_machine& machine) {
  const bool is_ours = multiplies(machine, DType::kI8) && stores(machine, DType::kI8) && stores(machine, DType::kI32);
  return is_ours ? IntegerFormer(graph, machine).run() : graph;
}

}  // namespace tenon
