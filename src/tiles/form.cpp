#include "tiles/form.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/rewrite.h"
#include "graph/runtime_dtype.h"
#include "support/is_in.h"
#include "tiles/conv_window.h"
#include "tiles/form_integers.h"
#include "tiles/layer.h"
#include "tiles/pack.h"
#include "tiles/replace_layers.h"

namespace tenon {
namespace {

// Channels whose scale is smaller are 0 before they are scaled: a bias divided by it could overflow.
constexpr double kLeastScale = 1e-30;

// Layers of bytes are formed in form_integers.h.
bool multiplies_float(const tenon_tile_machine& machine, DType dtype) {
  return is_float(dtype) && multiplies(machine, dtype);
}

bool has_name(const Node& node, std::string_view name) { return node.op->name.get() == name; }

bool is_sized(const TensorType& type) {
  return std::ranges::all_of(type.shape, [](const Expr& size) { return size.is_constant() && size.constant() > 0; });
}

int64_t product_of(std::span<const Expr> sizes) {
  int64_t product = 1;
  for (const Expr& size : sizes) product *= size.constant();
  return product;
}

// "abik,abkj->abij" or "abik,abjk->abij": matrices of a batch, the right one perhaps transposed.
struct MatrixSpec {
  bool is_product = false;
  bool transposed = false;
};

MatrixSpec matrix_spec(std::string_view spec) {
  const size_t comma = spec.find(','), arrow = spec.find("->");
  const std::string_view a = spec.substr(0, comma), b = spec.substr(comma + 1, arrow - comma - 1);
  const std::string_view out = spec.substr(arrow + 2);
  if (a.size() < 2 || a.size() != b.size() || a.size() != out.size()) return {};
  const size_t batch = a.size() - 2;
  const std::string_view left = a.substr(batch), right = b.substr(batch), result = out.substr(batch);
  const bool same = a.substr(0, batch) == b.substr(0, batch) && a.substr(0, batch) == out.substr(0, batch);
  if (!same || result[0] != left[0]) return {};
  const bool plain = right[0] == left[1] && right[1] == result[1];
  const bool transposed = right[1] == left[1] && right[0] == result[1];
  return {plain || transposed, transposed};
}

// A layer that was found: the node that multiplies, and those behind it.
struct FoundLayer {
  const Node* anchor;
  const Node* norm = nullptr;
  ValueRef residual = {};
  std::optional<double> low = {}, high = {};
  std::vector<uint32_t> nodes = {};  // the anchor first
  ValueRef result = {};
};

class LayerFinder {
 public:
  LayerFinder(const Graph& graph, const tenon_tile_machine& machine)
      : graph_(graph),
        machine_(machine),
        users_(users_of(graph)),
        kept_(kept_values(graph)),
        is_taken_(graph.nodes().size()) {}

  // By their last nodes.
  std::map<uint32_t, FoundLayer> find() {
    std::map<uint32_t, FoundLayer> found;
    for (uint32_t id = 0; id < graph_.nodes().size(); ++id) {
      if (!is_anchor(graph_.nodes()[id])) continue;
      FoundLayer layer{.anchor = &graph_.nodes()[id], .nodes = {id}, .result = graph_.nodes()[id].results[0]};
      while (take_next(layer)) {
      }
      // One operand is rounded where the result is.
      if (wide_operands(*layer.anchor) == 1 && graph_.type(layer.result).dtype == DType::kF32) continue;
      for (uint32_t node : layer.nodes) is_taken_[node] = true;
      const uint32_t last = layer.nodes.back();
      found.emplace(last, std::move(layer));
    }
    return found;
  }

 private:
  bool are_operands(const Node& node) const {
    const auto is_ours = [&](ValueRef value) {
      return !value || (is_sized(graph_.type(value)) && multiplies_float(machine_, graph_.type(value).dtype));
    };
    return std::ranges::all_of(node.operands, is_ours) && is_sized(graph_.type(node.results[0]));
  }

  // What a value in f32 was cast from, through permutations and reshapes.
  bool is_narrow(ValueRef value) const {
    if (multiplies_float(machine_, graph_.type(value).dtype)) return true;
    const NodeRef producer = graph_.producer(value);
    if (!producer || graph_.type(value).dtype != DType::kF32) return false;
    const Node& node = graph_.node(producer);
    const bool passes = has_name(node, "cast") || has_name(node, "permute") || has_name(node, "reshape");
    return passes && is_narrow(node.operands[0]);
  }

  int64_t wide_operands(const Node& node) const {
    return std::ranges::count_if(node.operands, [&](ValueRef value) { return value && !is_narrow(value); });
  }

  // A contraction or product of matrices of one batch. Operands in f32 are what bf16 was cast to.
  bool is_contraction(const Node& node, const OpView& view) const {
    const TensorType& type = graph_.type(node.results[0]);
    const bool is_ours =
        type.dtype == DType::kF32 ? stores(machine_, DType::kF32) : multiplies_float(machine_, type.dtype);
    return is_ours && is_sized(view.type(0)) && is_sized(view.type(1)) && wide_operands(node) <= 1 &&
           (has_name(node, "contract")
                ? matrix_spec(view.string("spec")).is_product
                : view.type(0).rank() == view.type(1).rank() && is_product(view.type(0), view.type(1)));
  }

  bool is_anchor(const Node& node) const {
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    if (has_name(node, "linear")) return are_operands(node);
    if (has_name(node, "contract")) return is_contraction(node, view);
    if (has_name(node, "conv")) return are_operands(node) && no_window(view, machine_).empty();
    if (has_name(node, "addmm")) {
      const auto is_one = [&](std::string_view name) {
        const auto* const number = std::get_if<Expr>(&view.attr(name));
        return number != nullptr && number->is_constant(1);
      };
      return are_operands(node) && view.type(0).rank() == 1 && view.type(0).size(0) == view.type(2).size(1) &&
             is_one("alpha") && is_one("beta");
    }
    if (!has_name(node, "matmul")) return false;
    return is_contraction(node, view) || (are_operands(node) && is_product(view.type(0), view.type(1)));
  }

  // Matrices of the same batch, or one matrix for all.
  static bool is_product(const TensorType& a, const TensorType& b) {
    if (a.rank() < 2 || b.rank() < 2) return false;
    if (b.rank() == 2) return true;
    return std::ranges::equal(std::span(a.shape).first(a.shape.size() - 2),
                              std::span(b.shape).first(b.shape.size() - 2));
  }

  // The only node that reads the result so far, if it is part of the layer.
  bool take_next(FoundLayer& layer) {
    const ValueRef result = layer.result;
    if (users_[result.id].size() != 1 || is_in(kept_, result)) return false;
    const uint32_t id = users_[result.id][0];
    const Node& node = graph_.nodes()[id];
    if (graph_.type(result).dtype == DType::kF32) {
      const bool rounds = has_name(node, "cast") && multiplies_float(machine_, graph_.type(node.results[0]).dtype);
      if (layer.nodes.size() > 1 || !rounds) return false;
    }
    if (is_taken_[id] || !takes(layer, node)) return false;
    layer.nodes.push_back(id);
    layer.result = node.results[0];
    return true;
  }

  bool takes(FoundLayer& layer, const Node& node) const {
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    const bool is_clamped = layer.low || layer.high;
    if (has_name(node, "batch_norm_inference") && has_name(*layer.anchor, "conv") && layer.nodes.size() == 1 &&
        node.operands[0] == layer.result && (machine_.epilogues & TENON_TILE_SCALE) != 0) {
      layer.norm = &node;
      return true;
    }
    if (has_name(node, "add") && !is_clamped && !layer.residual && (machine_.epilogues & TENON_TILE_RESIDUAL) != 0) {
      if (!(graph_.type(node.operands[0]) == graph_.type(node.operands[1]))) return false;
      layer.residual = node.operands[0] == layer.result ? node.operands[1] : node.operands[0];
      return true;
    }
    if (has_name(node, "cast")) return is_float(view.dtype("dtype")) && stores(machine_, view.dtype("dtype"));
    if (is_clamped || (machine_.epilogues & TENON_TILE_CLAMP) == 0) return false;
    return takes_clamp(layer, node, view);
  }

  static bool takes_clamp(FoundLayer& layer, const Node& node, const OpView& view) {
    if (has_name(node, "relu") || has_name(node, "relu6")) layer.low = 0;
    if (has_name(node, "relu6")) layer.high = 6;
    if (has_name(node, "hardtanh")) layer.low = view.real("min_val"), layer.high = view.real("max_val");
    return layer.low.has_value();
  }

  const Graph& graph_;
  const tenon_tile_machine& machine_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<ValueRef> kept_;
  std::vector<bool> is_taken_;  // by node: part of a layer
};

// Attention is two products with a softmax between them: as a whole it would stay on the CPU.
bool are_attentions_ours(const Graph& graph, const tenon_tile_machine& machine) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    if (role_of(*node.op) != Role::kAttention) return true;
    const TensorType& type = graph.type(node.operands[0]);
    return multiplies_float(machine, type.dtype) && is_sized(type);
  });
}

class LayerFormer {
 public:
  LayerFormer(Graph graph, const tenon_tile_machine& machine)
      : graph_(std::move(graph)), machine_(machine), rewriter_(graph_), layers_(LayerFinder(graph_, machine).find()) {}

  Graph run() {
    return replace_layers(graph_, rewriter_, layers_, [&](const FoundLayer& layer) { return formed(layer); });
  }

 private:
  Value in(const Node& node, size_t operand) {
    const bool is_there = operand < node.operands.size() && node.operands[operand];
    return is_there ? Value(rewriter_.target(), rewriter_.map(node.operands[operand])) : Value();
  }

  Value formed(const FoundLayer& layer) {
    Builder b(rewriter_.target(), layer.anchor->location);
    if (has_name(*layer.anchor, "conv")) return convolution(b, layer);
    if (has_name(*layer.anchor, "linear")) return rows_of(b, layer, 0, in(*layer.anchor, 1), in(*layer.anchor, 2));
    if (has_name(*layer.anchor, "contract")) return contraction(b, layer);
    const bool adds = has_name(*layer.anchor, "addmm");
    const Value weights = in(*layer.anchor, adds ? 2 : 1);
    if (adds) return rows_of(b, layer, 1, b.transpose(weights, 0, 1), in(*layer.anchor, 0));
    if (weights.rank() == 2 && is_constant(weights)) return rows_of(b, layer, 0, b.transpose(weights, 0, 1), Value());
    return matrices(b, layer, narrowed(b, in(*layer.anchor, 0)), narrowed(b, weights), false);
  }

  // A weight: known before the model runs, or at least the same for all of its layers.
  bool is_constant(Value value) const {
    const Leaf* const leaf = rewriter_target().leaf(value.ref());
    return leaf != nullptr && leaf->kind != LeafKind::kInput;
  }
  const Graph& rewriter_target() const { return const_cast<Rewriter&>(rewriter_).target(); }

  // ---- the parts of a layer ----

  Value vectors(Builder& b, int64_t outputs, Value bias, Value scale, int64_t groups = 1) const {
    return packed_vectors(b, outputs, bias ? b.cast(bias, DType::kF32) : bias, scale, machine_, groups);
  }

  NamedAttrs attrs(const FoundLayer& layer, std::vector<int64_t> image, int64_t outputs, const Shape& shape) const {
    std::vector<int64_t> sizes;
    for (const Expr& size : shape) sizes.push_back(size.constant());
    NamedAttrs all{{"image", std::move(image)}, {"outputs", outputs}, {"shape", std::move(sizes)}};
    add_epilogue(layer, all);
    return all;
  }

  void add_epilogue(const FoundLayer& layer, NamedAttrs& all) const {
    all.emplace_back("dtype", graph_.type(layer.result).dtype);
    if (layer.low) all.emplace_back("low", *layer.low);
    if (layer.high) all.emplace_back("high", *layer.high);
  }

  Value residual(const FoundLayer& layer) {
    return layer.residual ? Value(rewriter_.target(), rewriter_.map(layer.residual)) : Value();
  }

  // ---- layers ----

  // x [..., channels] times the transposed weights [outputs, channels].
  Value rows_of(Builder& b, const FoundLayer& layer, size_t x_operand, Value weights, Value bias) {
    const Value x = in(*layer.anchor, x_operand);
    const int64_t channels = weights.size(1).constant(), outputs = weights.size(0).constant();
    const int64_t rows = product_of(std::span(x.shape()).first(x.shape().size() - 1));
    const Value tiles = packed_weights(b, b.reshape(weights, {outputs, channels, 1, 1}), machine_);
    return b.op("tile_layer", {x, tiles, vectors(b, outputs, bias, {}), residual(layer)},
                attrs(layer, {1, rows, 1, channels}, outputs, graph_.type(layer.result).shape));
  }

  Value contraction(Builder& b, const FoundLayer& layer) {
    const OpView view = view_of(graph_, *layer.anchor->op, layer.anchor->operands, layer.anchor->attrs);
    return matrices(b, layer, narrowed(b, in(*layer.anchor, 0)), narrowed(b, in(*layer.anchor, 1)),
                    matrix_spec(view.string("spec")).transposed);
  }

  // The value in bf16: what it was cast from, or rounded.
  Value narrowed(Builder& b, Value x) {
    if (multiplies_float(machine_, x.dtype())) return x;
    if (const NodeRef producer = rewriter_.target().producer(x.ref())) {
      const Node node = rewriter_.target().node(producer);
      const Value source(rewriter_.target(), node.operands.empty() ? ValueRef() : node.operands[0]);
      if (has_name(node, "cast") && multiplies_float(machine_, source.dtype())) return source;
      if (has_name(node, "permute") || has_name(node, "reshape")) return b.repeat(node, {narrowed(b, source).ref()});
    }
    return b.cast(x, DType::kBF16);
  }

  // Matrices times matrices, both of which are computed. A transposed right side is read as it is.
  Value matrices(Builder& b, const FoundLayer& layer, Value a, Value w, bool transposed) {
    const int64_t batch = product_of(std::span(w.shape()).first(w.shape().size() - 2));
    const int64_t channels = a.shape().back().constant();
    const int64_t outputs = w.shape()[w.shape().size() - (transposed ? 2 : 1)].constant();
    const int64_t rows = product_of(std::span(a.shape()).first(a.shape().size() - 1)) / batch;
    NamedAttrs all = attrs(layer, {batch, rows, 1, channels}, outputs, graph_.type(layer.result).shape);
    all.emplace_back("packed", false);
    if (const Value source = untransposed(w)) {
      w = source;
      transposed = !transposed;
    }
    all.emplace_back("transposed", transposed);
    return b.op("tile_layer", {a, w, Value(), residual(layer)}, std::move(all));
  }

  // What a permutation of the last two dimensions was applied to.
  Value untransposed(Value w) {
    const NodeRef producer = rewriter_.target().producer(w.ref());
    if (!producer) return {};
    const Node& node = rewriter_.target().node(producer);
    if (!has_name(node, "permute")) return {};
    const OpView view = view_of(rewriter_.target(), *node.op, node.operands, node.attrs);
    const std::vector<int64_t> dims = view.dims("dims");
    const int64_t rank = w.rank();
    for (int64_t dim = 0; dim < rank; ++dim) {
      const int64_t wanted = dim < rank - 2 ? dim : dim == rank - 2 ? rank - 1 : rank - 2;
      if (dims[static_cast<size_t>(dim)] != wanted) return {};
    }
    return {rewriter_.target(), node.operands[0]};
  }

  // A norm's y = (x - mean) * scale + shift as (x + bias) * scale. Channels with a scale of 0 have no weights.
  struct Normed {
    Value weights, bias, scale;
  };
  Normed normed(Builder& b, const FoundLayer& layer, Value weights, Value bias) {
    if (layer.norm == nullptr) return {weights, bias, {}};
    const auto wide = [&](const Node& node, size_t operand) {
      const Value x = in(node, operand);
      return x ? b.cast(x, DType::kF32) : x;
    };
    const double eps = view_of(graph_, *layer.norm->op, layer.norm->operands, layer.norm->attrs).real("eps");
    Value scale = b.rsqrt(wide(*layer.norm, 4) + eps);
    if (const Value weight = wide(*layer.norm, 1)) scale = scale * weight;
    const Value is_small = b.compare("lt", b.abs(scale), kLeastScale);
    const Value one = b.full_like(scale, 1), shift = wide(*layer.norm, 2);
    scale = b.where(is_small, one, scale);
    Value added = -wide(*layer.norm, 3);
    if (bias) added = added + b.cast(bias, DType::kF32);
    added = b.where(is_small, b.full_like(scale, 0), added);
    if (shift) added = added + shift / scale;
    const Value mask = b.reshape(is_small, {weights.size(0), 1, 1, 1});
    weights = b.where(mask, b.full(0.0, {}, weights.dtype()), weights);
    return {weights, added, scale};
  }

  Value convolution(Builder& b, const FoundLayer& layer) {
    const OpView view = view_of(graph_, *layer.anchor->op, layer.anchor->operands, layer.anchor->attrs);
    const Normed parts = normed(b, layer, window_weights(b, in(*layer.anchor, 1)), in(*layer.anchor, 2));
    const auto [window, x, weights] =
        with_runs(b, {window_of(view, view.type(0), view.type(1)), by_channel(b, in(*layer.anchor, 0)), parts.weights},
                  0, machine_);
    NamedAttrs all = window_attrs(window, graph_.type(layer.result).shape);
    add_epilogue(layer, all);
    const Value added = residual(layer);
    const Value y =
        b.op("tile_layer",
             {x, packed_weights(b, weights, machine_, window.groups),
              vectors(b, window.outputs, parts.bias, parts.scale, window.groups), added ? by_channel(b, added) : added},
             std::move(all));
    return by_image(b, y);
  }

  const Graph graph_;
  const tenon_tile_machine& machine_;
  Rewriter rewriter_;
  std::map<uint32_t, FoundLayer> layers_;
};

}  // namespace

Graph form_layers(const Graph& graph, const tenon_tile_machine& machine) {
  const bool looks_into = are_attentions_ours(graph, machine);
  const auto is_attention = [&](const OpDef& op) { return looks_into && role_of(op) == Role::kAttention; };
  const Graph expanded = expand_where(graph, is_attention);
  return LayerFormer(form_integer_layers(expanded, machine), machine).run();
}

}  // namespace tenon
