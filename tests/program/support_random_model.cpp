#include "tests/program/support_random_model.h"

#include "graph/builder.h"

namespace tenon::test {
namespace {

class ModelGenerator {
 public:
  ModelGenerator(Random& random, bool symbolic) : random_(random), builder_(graph_) {
    const Expr first = symbolic ? Expr(Symbol("N")) : Expr(5);
    if (symbolic) graph_.declare_symbol(Symbol("N"), {1, 64});
    values_.push_back(builder_.value(graph_.add_input("x", {DType::kF32, {first, 4, 6}})));
    values_.push_back(builder_.value(graph_.add_input("y", {DType::kF32, {first, 6}})));
    values_.push_back(builder_.value(graph_.add_parameter("w", {DType::kF32, {6, 6}}, filled({6, 6}))));
    values_.push_back(builder_.value(graph_.add_parameter("b", {DType::kF32, {6}}, filled({6}))));
    image_ = builder_.value(graph_.add_input("image", {DType::kF32, {first, 3, 7, 6}}));
    places_ = builder_.value(graph_.add_input("places", {DType::kI64, {first, 4}}));
    filter_ = builder_.value(graph_.add_parameter("filter", {DType::kF32, {4, 3, 3, 3}}, filled({4, 3, 3, 3})));
  }

  Graph run(int nodes) {
    for (int i = 0; i < nodes; ++i) add_node();
    std::vector<ValueRef> outputs = {values_.back().ref()};
    for (int i = below(3); i > 0; --i) outputs.push_back(any().ref());
    graph_.set_outputs(std::move(outputs));
    return std::move(graph_);
  }

 private:
  int below(size_t limit) { return std::uniform_int_distribution<int>(0, static_cast<int>(limit) - 1)(random_); }
  Value any() {
    const bool recent = below(3) > 0 && values_.size() > 6;
    return recent ? values_[values_.size() - 1 - static_cast<size_t>(below(4))]
                  : values_[static_cast<size_t>(below(values_.size()))];
  }
  Tensor filled(Sizes shape) { return random_tensor({DType::kF32, to_shape(shape)}, {}, {-1, 1}, random_); }

  Value unary(Value x) {
    static const char* const kOps[] = {"tanh", "sigmoid", "relu", "neg", "abs", "gelu", "cos"};
    return builder_.op(kOps[below(std::size(kOps))], {x});
  }

  Value binary(Value x) {
    static const char* const kOps[] = {"add", "mul", "sub", "maximum"};
    for (int trial = 0; trial < 6; ++trial) {
      const Value y = any();
      const auto shape = attempt([&] { return broadcast(x.shape(), y.shape()); });
      if (shape.ok() && shape->size() < 5) return builder_.op(kOps[below(std::size(kOps))], {x, y});
    }
    return unary(x);
  }

  Value fold(Value x) {
    if (x.rank() == 0) return unary(x);
    const int64_t dim = below(static_cast<size_t>(x.rank()));
    switch (below(6)) {
      case 0:
        return builder_.op("softmax", {x}, {{"dim", dim}});
      case 1:
        return builder_.op("softmax", {x}, {{"dim", int64_t{-1}}});
      case 2:
        return builder_.results("layer_norm", {x, Value(), Value()}, {{"normalized_rank", int64_t{1}}})[0];
      case 3:
        return builder_.amax(x, {dim}, below(2) == 0);
      case 4:
        return builder_.op("cumsum", {x}, {{"dim", dim}});
      default:
        return builder_.mean(x, {dim}, below(2) == 0);
    }
  }

  Value moved(Value x) {
    if (x.rank() == 0) return unary(x);
    const int64_t dim = below(static_cast<size_t>(x.rank()));
    switch (below(6)) {
      case 0:
        return builder_.transpose(x, dim, 0);
      case 1:
        return builder_.reshape(x, {element_count(x.shape())});
      case 2:
        return builder_.slice(x, dim, 0, x.size(dim).is_constant() ? floordiv(x.size(dim) + 1, 2) : Expr(1));
      case 3:
        return builder_.concat({x, unary(x)}, dim);
      case 4:
        return builder_.unsqueeze(x, dim);
      default:
        return builder_.op("flip", {x}, {{"dims", std::vector<int64_t>{dim}}});
    }
  }

  Value product(Value x) {
    if (x.rank() == 0 || !x.size(-1 + x.rank()).is_constant(6)) return unary(x);
    return below(2) == 0 ? builder_.op("linear", {x, values_[2], values_[3]}) : builder_.matmul(x, values_[2]);
  }

  // What shares a kernel with few others, or with none.
  Value special(Value x) {
    switch (below(8)) {
      case 0:
        return builder_.op("conv", {image_, filter_, Value()}, {{"padding", std::vector<int64_t>{1, below(2)}}});
      case 1:
        return builder_.results("max_pool", {image_}, {{"kernel", std::vector<int64_t>{2, 3}}})[0];
      case 2:
        return builder_.op("scaled_dot_product_attention", {values_[0], unary(values_[0]), values_[0], Value()});
      case 3:
        return builder_.op("index", {values_[2], builder_.op("remainder", {places_, builder_.integer(6)})});
      case 4:
        return builder_.where(builder_.compare("gt", x, 0.1), x, unary(x));
      case 5:
        return padded(x);
      case 6:
        return x.rank() == 0 ? unary(x) : builder_.results("sort", {x}, {{"dim", int64_t{0}}})[0];
      default:
        return x.rank() == 0 ? unary(x)
                             : builder_.cos(builder_.cast(builder_.iota_along(0, x.shape()), DType::kF32)) * x;
    }
  }

  Value padded(Value x) {
    if (x.rank() == 0) return unary(x);
    std::vector<Expr> low(static_cast<size_t>(x.rank()), 0), high = low;
    low[0] = below(3);
    high.back() = below(3);
    return builder_.pad(x, low, high, 0.5);
  }

  void add_node() {
    const Value x = any();
    Value next;
    switch (below(10)) {
      case 0:
      case 1:
        next = unary(x);
        break;
      case 2:
      case 3:
        next = binary(x);
        break;
      case 4:
      case 5:
        next = fold(x);
        break;
      case 6:
        next = moved(x);
        break;
      case 7:
      case 8:
        next = special(x);
        break;
      default:
        next = product(x);
        break;
    }
    if (next.rank() < 5) values_.push_back(next);
  }

  Random& random_;
  Graph graph_;
  Builder builder_;
  std::vector<Value> values_;
  Value image_;
  Value places_;
  Value filter_;
};

}  // namespace

Graph random_model(Random& random, int nodes, bool symbolic) { return ModelGenerator(random, symbolic).run(nodes); }

}  // namespace tenon::test
