// Puts batch norms into the weights of the convolutions before them.
//
// A norm with given statistics multiplies each channel by one number and adds another. A convolution with scaled
// weights and a shifted bias computes the same, except for rounding.
#include "graph/rewrite.h"
#include "passes/passes.h"
#include "support/is_in.h"

namespace tenon {
namespace {

class NormFolder {
 public:
  explicit NormFolder(const Graph& source) : source_(source), rewriter_(source), users_(users_of(source)) {}

  Graph run() {
    for (const Node& node : source_.nodes()) {
      const Node* conv = folded_into(node);
      rewriter_.replace_or_copy(node, conv ? scaled(*conv, node) : Value());
    }
    return eliminate_dead_code(rewriter_.finish());
  }

 private:
  enum Operand : uint8_t { kX, kWeight, kBias, kMean, kVar };  // of a norm; the first three of a convolution

  // The convolution whose result nothing but this norm reads.
  const Node* folded_into(const Node& norm) const {
    if (norm.op->name.get() != "batch_norm_inference") return nullptr;
    const ValueRef x = norm.operands[kX];
    const NodeRef producer = source_.producer(x);
    if (!producer || users_[x.id].size() != 1 || is_in(kept_values(source_), x)) return nullptr;
    const Node& conv = source_.node(producer);
    if (conv.op->name.get() != "conv") return nullptr;
    const bool is_transposed = view_of(source_, *conv.op, conv.operands, conv.attrs).flag("transposed");
    if (is_transposed || !are_weights(conv.operands, x) || !are_weights(norm.operands, x)) return nullptr;
    return &conv;
  }

  // All but the first operand: known before the program runs, and no narrower than the result.
  bool are_weights(const std::vector<ValueRef>& operands, ValueRef result) const {
    for (size_t i = kWeight; i < operands.size(); ++i) {
      if (!operands[i]) continue;
      const Leaf* leaf = source_.leaf(operands[i]);
      if (!leaf || leaf->kind == LeafKind::kInput || is_updated(source_, *leaf)) return false;
      const DType dtype = source_.type(operands[i]).dtype;
      if (dtype != source_.type(result).dtype || size_of(dtype) < size_of(DType::kF32)) return false;
    }
    return true;
  }

  Value scaled(const Node& conv, const Node& norm) {
    Builder b(rewriter_.target(), conv.location);
    const auto of = [&](const Node& node, Operand which) {
      const ValueRef operand = which < node.operands.size() ? node.operands[which] : ValueRef();
      return operand ? Value(rewriter_.target(), rewriter_.map(operand)) : Value();
    };
    const double eps = view_of(source_, *norm.op, norm.operands, norm.attrs).real("eps");
    Value scale = b.rsqrt(of(norm, kVar) + eps);
    if (const Value weight = of(norm, kWeight)) scale = scale * weight;
    Value shift = of(norm, kMean);
    shift = (of(conv, kBias) ? of(conv, kBias) - shift : -shift) * scale;
    if (const Value bias = of(norm, kBias)) shift = shift + bias;
    const Value weight = of(conv, kWeight);
    Shape per_channel(static_cast<size_t>(weight.rank()), 1);
    per_channel[0] = weight.size(0);
    const Value weights = weight * b.reshape(scale, per_channel);
    return b.repeat(conv, {of(conv, kX).ref(), weights.ref(), shift.ref()});
  }

  const Graph& source_;
  Rewriter rewriter_;
  std::vector<std::vector<uint32_t>> users_;  // of each value of the source
};

}  // namespace

Graph fold_norms(const Graph& graph) { return NormFolder(graph).run(); }

}  // namespace tenon
