// Products of quantized tensors, in integers.
//
// A quantized tensor is (q - zero_point) * scale. The products of two of them, of dtypes i8 or u8, become sums of
// products of the integers, which are exact in i32. For a linear layer or a convolution the normal form is
//
//     acc: i32 = contract(cast(xq), cast(wq)) or conv(cast(xq), cast(wq), none)       both casts to i32
//     sum: i32 = sub(acc, correction)               correction: zero_point of x * sums of wq, one for each channel
//     y: f32   = mul(cast(sum), scale)              scale of x * scale of w, one for each channel or one for all
//     y: f32   = add(y, bias)                       then whatever the model does: a residual, relu, quantize
//
// Each step but the first is left out where it does nothing. Scale and correction depend on weights alone, if the model
// was quantized ahead: they are computed at compile time. The padding of a convolution is written out with the zero
// point of x, pad(xq), so that the correction is equal for all pixels; the convolution has padding 0. If the zero point
// is only known at run time (dynamic quantization), the correction is one for each pixel: the sums of those weights
// that meet no padding.
//
// Weights with a zero point other than 0 take another term: zero_point of w * (sums of xq - count * zero_point of x).
//
// Not rewritten, and hence computed in f32 after dequantization: transposed convolutions, sums of more than kMostTerms
// products, scales that differ along a summed dimension, and quantized numbers of 16 and 32 bits.
#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/rewrite.h"
#include "ops/spatial.h"
#include "passes/passes.h"
#include "support/is_in.h"

namespace tenon {
namespace {

// With it, the sum of each term of the expanded product fits 31 bits: 255 * 255 * 2^15 < 2^31.
constexpr int64_t kMostTerms = 1 << 15;

// A tensor as integers. Scale and zero point have its rank; sizes are 1 where they do not differ.
struct Quantized {
  Value q;
  Value scale;
  Value zero_point;                        // empty: 0
  std::optional<int64_t> known_zero = {};  // the zero point, if it is one number that is known now
};

bool is_byte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

bool is_one_element(const Value& x) { return element_count(x.shape()).is_constant(1); }

class QuantizedProducts {
 public:
  QuantizedProducts(const Graph& source, bool freeze) : source_(source), freeze_(freeze), rewriter_(source) {}

  Graph run() {
    for (const Node& node : source_.nodes()) rewriter_.replace_or_copy(node, in_integers(node));
    return eliminate_dead_code(rewriter_.finish());
  }

 private:
  using Letters = std::string;

  // A contraction, and where each operand of the node is in it.
  struct Product {
    Value a;
    Value b;
    Letters a_letters;
    Letters b_letters;
    Letters out;
  };

  Value in_integers(const Node& node) {
    const std::string_view op = node.op->name.get();
    if (op != "linear" && op != "addmm" && op != "matmul" && op != "contract" && op != "conv") return {};
    const size_t first = op == "addmm" ? 1 : 0;
    if (!may_be_quantized(node.operands[first]) || !may_be_quantized(node.operands[first + 1])) return {};
    Builder b(rewriter_.target(), node.location);
    const std::optional<Quantized> x = quantized(b, node.operands[first]);
    const std::optional<Quantized> w = quantized(b, node.operands[first + 1]);
    if (!x || !w) return {};
    const Value product = op == "conv" ? convolution(b, node, *x, *w) : contraction(b, node, *x, *w);
    if (!product) return {};
    return b.cast(with_bias(b, node, product), source_.type(node.results[0]).dtype);
  }

  // ---- what is quantized ----

  const Node* producer(ValueRef value) const {
    const NodeRef ref = source_.producer(value);
    return ref ? &source_.node(ref) : nullptr;
  }

  static bool is_widening(const Graph& graph, const Node& node) {
    return node.op->name.get() == "cast" && is_float(graph.type(node.operands[0]).dtype) &&
           is_float(graph.type(node.results[0]).dtype);
  }

  // Before anything is built for it.
  bool may_be_quantized(ValueRef value) const {
    const Node* node = producer(value);
    while (node && (is_any_view(*node) || is_widening(source_, *node))) node = producer(node->operands[0]);
    return node && node->op->name.get() == "dequantize" && is_byte(source_.type(node->operands[0]).dtype);
  }

  static bool is_any_view(const Node& node) {
    constexpr std::string_view kViews[] = {"reshape", "permute", "expand", "slice", "select"};
    return std::ranges::find(kViews, node.op->name.get()) != std::end(kViews);
  }

  // The integers behind a value, through views of it. Empty if a view mixes elements of different scales.
  std::optional<Quantized> quantized(Builder& b, ValueRef value) {
    const Node& node = *producer(value);
    if (node.op->name.get() == "dequantize") return dequantized(b, node);
    std::optional<Quantized> x = quantized(b, node.operands[0]);
    if (!x || is_widening(source_, node)) return x;
    const bool is_permuted = node.op->name.get() == "permute";
    const bool is_plain = is_one_element(x->scale) && (!x->zero_point || is_one_element(x->zero_point));
    if (!is_permuted && !is_plain) return {};
    x->q = b.repeat(node, {x->q.ref()});
    for (Value* each : {&x->scale, &x->zero_point}) {
      if (!*each) continue;
      *each = is_permuted ? b.repeat(node, {each->ref()}) : full_rank(b, b.reshape(*each, {}), x->q.rank());
    }
    return x;
  }

  Quantized dequantized(Builder& b, const Node& node) {
    const auto operand = [&](size_t i) { return b.value(rewriter_.map(node.operands[i])); };
    Quantized x{.q = operand(0)};
    x.scale = full_rank(b, b.cast(operand(1), DType::kF32), x.q.rank());
    if (!node.operands[2]) return x;
    x.known_zero = only_element(node.operands[2]);
    if (x.known_zero == 0) return x;
    x.zero_point = full_rank(b, b.cast(operand(2), DType::kI32), x.q.rank());
    return x;
  }

  static Value full_rank(Builder& b, Value x, int64_t rank) {
    Shape shape(static_cast<size_t>(rank - x.rank()), 1);
    shape.insert(shape.end(), x.shape().begin(), x.shape().end());
    return b.reshape(x, shape);
  }

  // The number that all elements of a tensor are, if it is known now.
  std::optional<int64_t> only_element(ValueRef value) const {
    const Node* node = producer(value);
    if (node) {
      const bool keeps = is_any_view(*node) || node->op->name.get() == "cast";
      return keeps ? only_element(node->operands[0]) : std::nullopt;
    }
    const Leaf& leaf = *source_.leaf(value);
    const bool is_fixed =
        leaf.kind == LeafKind::kConstant || (freeze_ && leaf.kind != LeafKind::kInput && !is_updated(source_, leaf));
    if (!is_fixed || !leaf.data.defined() || leaf.data.numel() == 0) return {};
    const int64_t first = leaf.data.integer(0);
    for (int64_t i = 1; i < leaf.data.numel(); ++i) {
      if (leaf.data.integer(leaf.data.offset(i)) != first) return {};
    }
    return first;
  }

  static Value wide(Builder& b, Value q) { return b.cast(q, DType::kI32); }
  static Value total(Builder& b, Value q, std::vector<int64_t> dims) {
    return b.cast(b.sum(q, std::move(dims)), DType::kI32);
  }

  // ---- contractions ----

  static std::string numbered(size_t count) {
    std::string letters;
    for (size_t i = 0; i < count; ++i) letters += static_cast<char>('a' + i);
    return letters;
  }

  std::optional<Product> product_of(const Node& node, const Quantized& x, const Quantized& w) const {
    const std::string_view op = node.op->name.get();
    const auto rank = static_cast<size_t>(x.q.rank());
    if (op == "linear") return Product{x.q, w.q, numbered(rank - 1) + "K", "CK", numbered(rank - 1) + "C"};
    if (op == "addmm") return Product{x.q, w.q, "RK", "KC", "RC"};
    if (op == "matmul") return matmul_of(x, w, source_.type(node.results[0]).rank());
    const std::string spec = view_of(source_, *node.op, node.operands, node.attrs).string("spec");
    const size_t comma = spec.find(','), arrow = spec.find("->");
    return Product{x.q, w.q, spec.substr(0, comma), spec.substr(comma + 1, arrow - comma - 1), spec.substr(arrow + 2)};
  }

  // Batches that broadcast are left to PyTorch's rule for f32 tensors.
  static std::optional<Product> matmul_of(const Quantized& x, const Quantized& w, int64_t rank) {
    if (x.q.rank() < 2 || w.q.rank() < 2) return {};
    const auto batch = static_cast<size_t>(rank - 2);
    const auto letters = [&](const Quantized& v, std::string_view matrix) {
      return numbered(batch).substr(batch - static_cast<size_t>(v.q.rank() - 2)) + std::string(matrix);
    };
    Product p{x.q, w.q, letters(x, "RK"), letters(w, "KC"), numbered(batch) + "RC"};
    for (size_t i = 0; i < p.a_letters.size(); ++i) {
      const size_t j = p.b_letters.find(p.a_letters[i]);
      if (j != Letters::npos && x.q.shape()[i] != w.q.shape()[j]) return {};
    }
    return p;
  }

  static std::vector<int64_t> dims_not_in(const Letters& letters, const Letters& out) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (out.find(letters[i]) == Letters::npos) dims.push_back(static_cast<int64_t>(i));
    }
    return dims;
  }

  // Whether each summed letter is in both operands, and how many terms there are.
  static bool sums_in_i32(const Product& p) {
    if (dims_not_in(p.a_letters, p.b_letters + p.out).size() + dims_not_in(p.b_letters, p.a_letters + p.out).size() > 0)
      return false;
    Expr terms = 1;
    for (int64_t dim : dims_not_in(p.a_letters, p.out)) terms *= p.a.size(dim);
    return terms.is_constant() && terms.constant() <= kMostTerms;
  }

  static bool is_equal_along(const Value& x, const std::vector<int64_t>& dims) {
    return !x || std::ranges::all_of(dims, [&](int64_t dim) { return x.size(dim).is_constant(1); });
  }

  // A tensor over letters (sizes of summed ones are 1), so that it broadcasts over the result.
  static Value over_result(Builder& b, Value x, const Letters& letters, const Letters& out) {
    std::vector<int64_t> order;
    Shape shape;
    for (char letter : out) {
      const size_t dim = letters.find(letter);
      shape.push_back(dim == Letters::npos ? Expr(1) : x.size(static_cast<int64_t>(dim)));
      if (dim != Letters::npos) order.push_back(static_cast<int64_t>(dim));
    }
    for (int64_t dim : dims_not_in(letters, out)) order.push_back(dim);
    while (!shape.empty() && shape.front().is_constant(1)) shape.erase(shape.begin());
    return b.reshape(b.permute(x, order), shape);
  }

  Value contraction(Builder& b, const Node& node, const Quantized& x, const Quantized& w) {
    const std::optional<Product> p = product_of(node, x, w);
    if (!p || !sums_in_i32(*p)) return {};
    const std::vector<int64_t> a_summed = dims_not_in(p->a_letters, p->out),
                               b_summed = dims_not_in(p->b_letters, p->out);
    for (const Value& each : {x.scale, x.zero_point}) {
      if (!is_equal_along(each, a_summed)) return {};
    }
    for (const Value& each : {w.scale, w.zero_point}) {
      if (!is_equal_along(each, b_summed)) return {};
    }
    const Value wide_a = wide(b, p->a), wide_b = wide(b, p->b);
    Value sum = b.contract(wide_a, wide_b, p->a_letters + "," + p->b_letters + "->" + p->out);
    const auto of_x = [&](Value v) { return over_result(b, v, p->a_letters, p->out); };
    const auto of_w = [&](Value v) { return over_result(b, v, p->b_letters, p->out); };
    const auto sums = [&](Value q, std::vector<int64_t> dims) {
      return b.cast(b.sum(q, std::move(dims), true), DType::kI32);
    };
    if (x.zero_point) sum = sum - of_x(x.zero_point) * of_w(sums(p->b, b_summed));
    if (w.zero_point) {
      Value rest = of_x(sums(p->a, a_summed));
      Expr count = 1;
      for (int64_t dim : a_summed) count *= p->a.size(dim);
      if (x.zero_point) rest = rest - of_x(x.zero_point) * b.full(count, {}, DType::kI32);
      sum = sum - of_w(w.zero_point) * rest;
    }
    const Value real = b.cast(sum, DType::kF32), x_scale = of_x(x.scale), w_scale = of_w(w.scale);
    return real * (x_scale * w_scale);
  }

  // ---- convolutions ----

  struct Window {
    std::vector<int64_t> stride;
    std::vector<int64_t> padding;
    std::vector<int64_t> dilation;
    int64_t groups;
  };

  static Value conv(Builder& b, Value x, Value w, const Window& window) {
    return b.op("conv", {wide(b, x), wide(b, w), Value()},
                {{"stride", window.stride},
                 {"padding", window.padding},
                 {"dilation", window.dilation},
                 {"groups", window.groups}});
  }

  // For each pixel of the result, one sum of a window for each group.
  static Value window_sums(Builder& b, Value x, Value w, const Window& window) {
    Shape ones = w.shape();
    ones[0] = window.groups;
    const Value sums = conv(b, x, b.full(Expr(1), ones, DType::kI8), window);
    Shape split = sums.shape(), joined = sums.shape();
    split.insert(split.begin() + 2, 1);
    joined[1] = w.size(0);
    Shape stretched = split;
    stretched[2] = floordiv(w.size(0), window.groups);
    return b.reshape(b.expand(b.reshape(sums, split), stretched), joined);
  }

  static Value padded(Builder& b, Value x, Window& window, int64_t with) {
    std::vector<Expr> amounts(2, 0);
    amounts.insert(amounts.end(), window.padding.begin(), window.padding.end());
    window.padding.assign(window.padding.size(), 0);
    return b.pad(x, amounts, amounts, static_cast<double>(with));
  }

  Value convolution(Builder& b, const Node& node, const Quantized& x, const Quantized& w) {
    const OpView view = view_of(source_, *node.op, node.operands, node.attrs);
    const auto n = static_cast<size_t>(x.q.rank() - 2);
    Window window{.stride = ops::per_dimension(view.ints("stride"), n, "stride", 1),
                  .padding = ops::per_dimension(view.ints("padding"), n, "padding", 0),
                  .dilation = ops::per_dimension(view.ints("dilation"), n, "dilation", 1),
                  .groups = view.integer("groups")};
    const Expr terms = element_count(std::span(w.q.shape()).subspan(1));
    if (view.flag("transposed") || !terms.is_constant() || terms.constant() > kMostTerms) return {};
    const bool has_one_x = is_one_element(x.scale) && (!x.zero_point || is_one_element(x.zero_point));
    std::vector<int64_t> summed(static_cast<size_t>(w.q.rank() - 1));
    std::iota(summed.begin(), summed.end(), 1);
    if (!has_one_x || !is_equal_along(w.scale, summed) || !is_equal_along(w.zero_point, summed)) return {};

    const bool pads = std::ranges::any_of(window.padding, [](int64_t amount) { return amount != 0; });
    Value image = x.q;
    if (x.zero_point && pads && x.known_zero) image = padded(b, x.q, window, *x.known_zero);
    const bool counts_pixels = x.zero_point && pads && !x.known_zero;  // a window meets fewer of them at the border
    Shape one_image = x.q.shape();
    one_image[0] = 1;
    const Value ones = b.full(Expr(1), one_image, DType::kI8);
    const auto per_channel = [&](Value v) {
      Shape shape(n + 1, 1);
      shape[0] = element_count(v.shape());
      return b.reshape(v, shape);
    };
    const auto number = [&](Value v) { return b.reshape(v, {}); };

    Value sum = conv(b, image, w.q, window);
    if (x.zero_point) {
      const Value weights = counts_pixels ? conv(b, ones, w.q, window) : per_channel(total(b, w.q, summed));
      sum = sum - number(x.zero_point) * weights;
    }
    if (w.zero_point) {
      Value rest = window_sums(b, image, w.q, window);
      if (counts_pixels) rest = rest - number(x.zero_point) * window_sums(b, ones, w.q, window);
      if (x.zero_point && !counts_pixels) rest = rest - number(x.zero_point) * b.full(terms, {}, DType::kI32);
      sum = sum - per_channel(w.zero_point) * rest;
    }
    const Value scale = number(x.scale) * (is_one_element(w.scale) ? number(w.scale) : per_channel(w.scale));
    return b.cast(sum, DType::kF32) * scale;
  }

  // ---- bias ----

  Value with_bias(Builder& b, const Node& node, Value product) {
    const std::string_view op = node.op->name.get();
    if (op == "addmm") return scaled_sum(b, node, product);
    if ((op != "linear" && op != "conv") || !node.operands[2]) return product;
    Value bias = b.cast(b.value(rewriter_.map(node.operands[2])), DType::kF32);
    if (op == "conv") {
      Shape shape(static_cast<size_t>(product.rank() - 1), 1);
      shape[0] = bias.size(0);
      bias = b.reshape(bias, shape);
    }
    return product + bias;
  }

  // beta * input + alpha * product.
  Value scaled_sum(Builder& b, const Node& node, Value product) {
    const OpView view = view_of(source_, *node.op, node.operands, node.attrs);
    const auto number = [&](std::string_view name) { return b.full(view.attr(name), {}, DType::kF32); };
    const auto is = [&](std::string_view name, int64_t value) {
      const auto* real = std::get_if<double>(&view.attr(name));
      return real ? *real == static_cast<double>(value) : std::get<Expr>(view.attr(name)).is_constant(value);
    };
    if (!is("alpha", 1)) product = product * number("alpha");
    if (is("beta", 0)) return product;
    const Value input = b.cast(b.value(rewriter_.map(node.operands[0])), DType::kF32);
    return product + (is("beta", 1) ? input : input * number("beta"));
  }

  const Graph& source_;
  const bool freeze_;
  Rewriter rewriter_;
};

}  // namespace

Graph multiply_in_integers(const Graph& graph, bool freeze) { return QuantizedProducts(graph, freeze).run(); }

}  // namespace tenon
