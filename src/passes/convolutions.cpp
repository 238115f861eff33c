// Rewrites convolutions whose weights change on every run (training), where another form is faster.
//
// The loops of a convolution have output channels as lanes, and pack the weights of a block of channels. That pays if
// each weight meets many pixels. For small images (the last layers of a network) and for gradients of large weights it
// is cheaper to lay out the windows of all images side by side. Then a convolution is one matrix product, which reads
// the weights, or writes their gradient, in place.
//
// A transposed convolution with a stride has zeros between the elements that it spreads. With these zeros written out
// it is a convolution without a stride, whose loops have no conditions.
#include <algorithm>
#include <numeric>

#include "graph/rewrite.h"
#include "ops/spatial.h"
#include "passes/passes.h"
#include "symbolic/typical_size.h"

namespace tenon {
namespace {

int64_t about(std::span<const Expr> sizes) {
  int64_t product = 1;
  for (const Expr& size : sizes) product *= size.is_constant() ? size.constant() : symbolic::kTypicalBatch;
  return product;
}

class ConvolutionRewrite {
 public:
  ConvolutionRewrite(Rewriter& rewriter, const Node& node)
      : b_(rewriter.target(), node.location),
        view_(view_of(rewriter.source(), *node.op, node.operands, node.attrs)),
        x_(b_.value(rewriter.map(node.operands[0]))),
        weight_(b_.value(rewriter.map(node.operands[1]))),
        bias_(node.operands[2] ? b_.value(rewriter.map(node.operands[2])) : Value()),
        result_(rewriter.source().type(node.results[0]).shape) {
    n_ = result_.size() - 2;
    stride_ = ops::per_dimension(view_.ints("stride"), n_, "stride", 1);
    padding_ = ops::per_dimension(view_.ints("padding"), n_, "padding", 0);
    dilation_ = ops::per_dimension(view_.ints("dilation"), n_, "dilation", 1);
    is_transposed_ = view_.flag("transposed");
  }

  // Empty if the convolution stays as it is.
  Value run() {
    const bool was_spread = spread();
    if (is_small()) return with_bias(as_product());
    return was_spread ? as_convolution() : Value();
  }

 private:
  // ---- zeros ----

  bool spread() {
    if (!is_transposed_ || std::ranges::all_of(stride_, [](int64_t s) { return s == 1; })) return false;
    const std::vector<Expr> more = ops::per_dimension(view_.exprs("output_padding"), n_, "output_padding", 0);
    for (size_t i = 0; i < n_; ++i) {
      if (stride_[i] == 1 && more[i].is_constant(0)) continue;
      x_ = with_zeros(x_, static_cast<int64_t>(i) + 2, stride_[i], more[i]);
      stride_[i] = 1;
    }
    return true;
  }

  // Adds stride - 1 zeros after each element but the last, and `more` zeros at the end.
  Value with_zeros(Value x, int64_t dim, int64_t stride, const Expr& more) {
    const auto at = static_cast<size_t>(dim);
    Shape shape = x.shape();
    shape.insert(shape.begin() + dim + 1, 1);
    std::vector<Expr> none(shape.size(), 0), after(shape.size(), 0);
    after[at + 1] = stride - 1;
    const Value apart = b_.pad(b_.reshape(x, shape), none, after);
    shape = x.shape();
    shape[at] = shape[at] * stride;
    const Expr length = shape[at] - (stride - 1) + more;
    if (length.is_constant()) return b_.slice(b_.reshape(apart, shape), dim, 0, length);
    none.pop_back();
    std::vector<Expr> rest = none;  // not a slice: the size of one from an empty x is no polynomial
    rest[at] = length - shape[at];
    return b_.pad(b_.reshape(apart, shape), none, rest);
  }

  Value as_convolution() {
    return b_.op("conv", {x_, weight_, bias_},
                 {{"stride", stride_},
                  {"padding", padding_},
                  {"dilation", dilation_},
                  {"groups", view_.integer("groups")},
                  {"transposed", is_transposed_},
                  {"output_padding", Shape(n_, 0)}});
  }

  // ---- products ----

  Shape spatial(const Shape& shape) const { return {shape.begin() + 2, shape.end()}; }

  // Whether the windows take no more memory than the weights or the result.
  bool is_small() const {
    const Shape taps = spatial(weight_.shape());
    const bool is_plain = view_.integer("groups") == 1 && is_float(x_.dtype()) &&
                          std::ranges::all_of(taps, [](const Expr& size) { return size.is_constant(); });
    if (!is_plain || std::ranges::any_of(stride_, [&](int64_t s) { return is_transposed_ && s != 1; })) return false;
    const int64_t folded = about(std::span(&x_.shape()[1], 1)) * about(taps);
    const int64_t places = about(std::span(&result_[0], 1)) * about(spatial(result_));
    const int64_t channels = about(std::span(&result_[1], 1));
    return folded * places <= channels * std::max(folded, places);
  }

  // [C * taps, N * places] times the weights.
  Value as_product() {
    const Shape taps = spatial(weight_.shape()), places = spatial(result_);
    const Expr columns = result_[0] * element_count(places);
    const Value windows = b_.reshape(taps_first(unfolded(taps)), {x_.size(1), element_count(taps), columns});
    const Value weight = b_.reshape(weight_, {weight_.size(0), weight_.size(1), element_count(taps)});
    const Value product = b_.contract(weight, windows, is_transposed_ ? "cok,ckp->op" : "ock,ckp->op");
    Shape split = {result_[1], result_[0]};
    split.insert(split.end(), places.begin(), places.end());
    return b_.transpose(b_.reshape(product, split), 0, 1);
  }

  // [N, C, places..., taps...]
  Value unfolded(const Shape& taps) {
    std::vector<int64_t> kernel;
    for (const Expr& tap : taps) kernel.push_back(tap.constant());
    Value x = x_;
    std::vector<int64_t> padding = padding_;
    if (is_transposed_) {
      // An element spreads to the places behind it: so each place reads a window before it, in reverse order.
      std::vector<Expr> around(x.shape().size(), 0);
      for (size_t i = 0; i < n_; ++i) around[i + 2] = dilation_[i] * (kernel[i] - 1) - padding_[i];
      x = b_.pad(x, around, around);
      padding.assign(n_, 0);
    }
    const Value windows =
        ops::unfold_spatial(b_, x, ops::slide(x.shape(), kernel, stride_, padding, dilation_, false), 0.0);
    if (!is_transposed_) return windows;
    std::vector<int64_t> dims(n_);
    std::iota(dims.begin(), dims.end(), static_cast<int64_t>(n_) + 2);
    return b_.op("flip", {windows}, {{"dims", dims}});
  }

  // [N, C, places..., taps...] -> [C, taps..., N, places...]
  Value taps_first(Value windows) {
    const auto n = static_cast<int64_t>(n_);
    std::vector<int64_t> order = {1};
    for (int64_t i = 0; i < n; ++i) order.push_back(2 + n + i);
    order.push_back(0);
    for (int64_t i = 0; i < n; ++i) order.push_back(2 + i);
    return b_.permute(windows, order);
  }

  Value with_bias(Value product) {
    if (!bias_) return product;
    Shape aligned(n_ + 1, 1);
    aligned[0] = bias_.size(0);
    return product + b_.reshape(bias_, aligned);
  }

  Builder b_;
  OpView view_;
  Value x_, weight_, bias_;
  Shape result_;
  size_t n_ = 0;  // spatial dimensions
  std::vector<int64_t> stride_, padding_, dilation_;
  bool is_transposed_ = false;
};

// The values that may differ from run to run: they depend on inputs, on updated leaves or on leaves that are not
// frozen.
std::vector<bool> changing_values(const Graph& graph, bool freeze) {
  std::vector<bool> changes(graph.value_count());
  for (const Leaf& leaf : graph.leaves()) {
    changes[leaf.value.id] = leaf.kind == LeafKind::kInput || (leaf.kind != LeafKind::kConstant && !freeze);
  }
  for (const Update& update : graph.updates()) changes[update.target.id] = true;
  for (const Node& node : graph.nodes()) {
    const bool depends = std::ranges::any_of(node.operands, [&](ValueRef v) { return v && changes[v.id]; });
    for (ValueRef result : node.results) changes[result.id] = depends;
  }
  return changes;
}

}  // namespace

Graph rewrite_convolutions(const Graph& graph, bool freeze) {
  Rewriter rewriter(graph);
  const std::vector<bool> changes = changing_values(graph, freeze);
  for (const Node& node : graph.nodes()) {
    const bool is_conv = node.op->name.get() == "conv" && changes[node.operands[1].id];
    rewriter.replace_or_copy(node, is_conv ? ConvolutionRewrite(rewriter, node).run() : Value());
  }
  return rewriter.finish();
}

}  // namespace tenon
