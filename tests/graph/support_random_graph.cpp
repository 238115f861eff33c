#include "tests/graph/support_random_graph.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/builder.h"

namespace tenon::test {
namespace {

class Generator {
 public:
  explicit Generator(Random& random) : random_(random), graph_(pick({"main", "model", "a.b_1"})) {}

  Graph run(int nodes) {
    if (chance(0.3)) graph_.declare_symbol(Symbol("N"), {pick({0, 1}), pick({64, 1 << 20})});
    if (chance(0.5)) add_symbolic_part();
    for (int i = 0; i < nodes; ++i) add_sample_node();
    add_odd_constants();
    for (int i = below(3); i > 0; --i) add_update();
    std::vector<ValueRef> outputs;
    for (int i = below(4); i > 0 && graph_.value_count() > 0; --i) {
      outputs.push_back({static_cast<uint32_t>(below(static_cast<int>(graph_.value_count())))});
    }
    graph_.set_outputs(std::move(outputs));
    return std::move(graph_);
  }

 private:
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

  std::string fresh_name() { return fmt::format("v{}{}", ++names_, pick({"", ".weight", "_x"})); }

  Location random_location() {
    if (chance(0.5)) return {};
    return {pick({"model.py", "dir/a \"b\".py", "x\\y\n.py"}), 1 + below(500), chance(0.5) ? 1 + below(80) : 0};
  }

  void add_symbolic_part() {
    const Symbol n("N");
    const ValueRef x = graph_.add_input(fresh_name(), {DType::kF32, {n, 2 * Expr(n) + 1, floordiv(n, 4) + 1}});
    Builder builder(graph_, random_location());
    builder.op("exp", {builder.value(x)});
    builder.sum(builder.value(x), {0});
  }

  void add_sample_node() {
    const auto table = op_table();
    const OpDef& op = *table[static_cast<size_t>(below(static_cast<int>(table.size())))];
    const std::vector<Sample>& samples = cached_samples(op);
    if (samples.empty()) return;  // of `external`, which stands for any call
    const Sample& sample = samples[static_cast<size_t>(below(static_cast<int>(samples.size())))];
    const Node& node = sample.graph.nodes()[0];
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) {
      operands.push_back(operand ? value_of(sample.graph.type(operand)) : ValueRef());
    }
    const NodeRef added = graph_.add_node(op, std::move(operands), node.attrs, random_location());
    for (ValueRef result : graph_.node(added).results) {
      if (chance(0.5)) graph_.set_value_name(result, pick({"y", "y_1", "hidden", "out.0", "x"}));
    }
  }

  static const std::vector<Sample>& cached_samples(const OpDef& op) {
    static std::map<const OpDef*, std::vector<Sample>> cache;
    const auto found = cache.find(&op);
    return found != cache.end() ? found->second : cache.emplace(&op, samples_of(op)).first->second;
  }

  ValueRef value_of(const TensorType& type) {
    for (int attempt = 0; attempt < 8 && graph_.value_count() > 0; ++attempt) {
      const ValueRef value{static_cast<uint32_t>(below(static_cast<int>(graph_.value_count())))};
      if (graph_.type(value) == type) return value;
    }
    switch (below(4)) {
      case 0:
        return graph_.add_input(fresh_name(), type);
      case 1:
        return graph_.add_parameter(fresh_name() + "/odd \"name\"", type);
      case 2:
        return graph_.add_buffer(fresh_name(), type);
      default:
        return graph_.add_constant(random_tensor(type, {}, {-3, 3}, random_));
    }
  }

  void add_odd_constants() {
    for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, -0.0, 1e-45, 0.1, 1e300}) {
      if (!chance(0.2)) continue;
      graph_.add_constant(Tensor::scalar(pick({DType::kF64, DType::kF32, DType::kF16, DType::kBF16}), value));
    }
  }

  void add_update() {
    for (const Leaf& leaf : graph_.leaves()) {
      const bool updatable = leaf.kind == LeafKind::kBuffer || leaf.kind == LeafKind::kInput;
      if (!updatable || updated_.contains(leaf.value.id)) continue;
      for (uint32_t id = 0; id < graph_.value_count(); ++id) {
        if (graph_.type(ValueRef{id}) != graph_.type(leaf.value)) continue;
        updated_.insert({leaf.value.id, true});
        return graph_.add_update(leaf.value, ValueRef{id});
      }
    }
  }

  Random& random_;
  Graph graph_;
  int names_ = 0;
  std::map<uint32_t, bool> updated_;
};

}  // namespace

Graph random_graph(Random& random, int nodes) { return Generator(random).run(nodes); }

Graph layered_graph(int nodes) {
  Graph graph("layered");
  const TensorType type{DType::kF32, {Symbol("N"), 64}};
  Value x(graph, graph.add_input("x", type));
  Builder builder(graph, {"model.py", 1, 0});
  while (static_cast<int>(graph.nodes().size()) < nodes) {
    const Value one = builder.scalar(0.5, DType::kF32) + builder.scalar(0.5, DType::kF32);  // folds to 1
    const Value same = builder.exp(x);
    const Value again = builder.exp(x);  // a common subexpression
    builder.exp(same + again);           // dead
    x = -(-(same + again * one)) + x;    // * 1 and the double negation go
  }
  graph.set_outputs({x.ref()});
  return graph;
}

}  // namespace tenon::test
