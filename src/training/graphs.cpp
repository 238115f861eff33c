#include "training/graphs.h"

#include <algorithm>
#include <set>

#include "autodiff/differentiate.h"
#include "graph/builder.h"
#include "graph/rewrite.h"
#include "passes/passes.h"
#include "support/pattern.h"
#include "training/precision.h"

namespace tenon {
namespace {

constexpr const char* kKeyState = "random.key";
constexpr const char* kTarget = "target";
// Blocks of random numbers that are reserved for one step: more than any step uses.
constexpr int64_t kBlocksOfStep = int64_t{1} << 36;

Tensor key_of_seed(int64_t seed) {
  Tensor key = Tensor::zeros(DType::kI64, {2});
  key.set_integer(0, seed);
  return key;
}

// Adds gradients to the states that sum them up.
void sum_gradients(Graph& graph, const std::vector<ValueRef>& gradients, const TrainingGraphs& made,
                   const TrainingOptions& options) {
  Builder builder(graph);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string name = gradient_name(made.trained[i]);
    const ValueRef sum = graph.add_buffer(name, graph.type(gradients[i]), made.states.at(name));
    Value gradient = builder.value(gradients[i]);
    if (options.accumulate > 1) gradient = gradient / static_cast<double>(options.accumulate);
    graph.add_update(sum, (builder.value(sum) + gradient).ref());
  }
}

class GraphMaker {
 public:
  GraphMaker(const TrainingModel& model, const TrainingOptions& options) : model_(model), options_(options) {
    if (options.accumulate < 1) fail("a step has at least one part, got accumulate={}", options.accumulate);
    find_states();
    find_trained();
  }

  TrainingGraphs run() {
    add_gradients_of_loss();
    make_step();
    take_apart();
    make_evaluation();
    return std::move(made_);
  }

 private:
  // ---- states ----

  void find_states() {
    for (const Graph* graph : {&model_.training, &model_.inference}) {
      for (const Leaf& leaf : graph->leaves()) {
        if (leaf.kind == LeafKind::kParameter || leaf.kind == LeafKind::kBuffer) add_state(leaf);
      }
    }
    made_.states[kKeyState] = key_of_seed(options_.seed);
  }

  // Copies the data: training must not change the model's memory. Leaves that share memory share a state.
  void add_state(const Leaf& leaf) {
    const auto given = model_.names.find(leaf.name);
    const std::string& state = given == model_.names.end() ? leaf.name : given->second;
    if (made_.states.contains(state) || made_.tied.contains(leaf.name)) return;
    if (!leaf.data.defined()) fail("{} '{}' has no data: bind it before training", name_of(leaf.kind), leaf.name);
    if (state != leaf.name) made_.tied[leaf.name] = state;
    for (const auto& [name, source] : sources_) {
      if (!is_same_memory(source, leaf.data)) continue;
      made_.tied[leaf.name] = name;
      return;
    }
    sources_.emplace_back(state, leaf.data);
    made_.states[state] = leaf.data.copy();
  }

  const std::string& owner_of(const std::string& name) const {
    const auto found = made_.tied.find(name);
    return found == made_.tied.end() ? name : found->second;
  }

  // The graph with every parameter and buffer, and the key, as a state.
  Graph with_states(const Graph& graph) const {
    Rewriter rewriter(graph, [&](const Leaf& leaf) {
      return leaf.kind == LeafKind::kConstant || (leaf.kind == LeafKind::kInput && leaf.name != model_.key_input);
    });
    std::map<std::string, ValueRef> added;
    for (const Leaf& leaf : graph.leaves()) {
      const bool is_key = leaf.kind == LeafKind::kInput && leaf.name == model_.key_input;
      if (leaf.kind == LeafKind::kConstant || (leaf.kind == LeafKind::kInput && !is_key)) continue;
      const std::string name = is_key ? kKeyState : owner_of(leaf.name);
      auto [found, is_new] = added.try_emplace(name);
      if (is_new) found->second = rewriter.target().add_buffer(name, graph.type(leaf.value), made_.states.at(name));
      rewriter.replace(leaf.value, found->second);
    }
    for (const Node& node : graph.nodes()) rewriter.copy(node);
    return rewriter.finish();
  }

  void find_trained() {
    std::set<std::string> names;
    for (const Leaf& leaf : model_.training.leaves()) {
      if (leaf.kind != LeafKind::kParameter || !is_float(model_.training.type(leaf.value).dtype)) continue;
      names.insert(owner_of(leaf.name));
    }
    for (const std::string& pattern : options_.frozen) {
      if (std::erase_if(names, [&](const std::string& name) { return name_matches(pattern, name); }) == 0) {
        fail("no parameter is called '{}', which is to stay frozen", pattern);
      }
    }
    made_.trained.assign(names.begin(), names.end());
    if (made_.trained.empty()) fail("there is nothing to train: no parameter of the model is trainable");
  }

  // ---- the loss, and the gradients ----

  // With states, in the precision of the training; outputs are the model's.
  Graph prepared(const Graph& model) const {
    Graph graph = with_states(model);
    if (options_.precision == Precision::kBf16) graph = with_bf16_products(graph);
    std::vector<ValueRef> outputs = graph.outputs();
    if (outputs.empty()) fail("the model has no output that a loss could be computed of");
    outputs.resize(std::min(outputs.size(), model_.outputs));
    graph.set_outputs(std::move(outputs));
    return graph;
  }

  // Its last output is the loss.
  Graph with_loss(Graph graph) const {
    std::vector<ValueRef> outputs = graph.outputs();
    outputs.push_back(loss_of(graph, outputs[0]));
    graph.set_outputs(std::move(outputs));
    return graph;
  }

  ValueRef loss_of(Graph& graph, ValueRef output) const {
    Builder builder(graph);
    const Value value = builder.value(output);
    const Value target = takes_target(options_.loss)
                             ? builder.value(graph.add_input(kTarget, target_type(options_.loss, value.type())))
                             : Value();
    const Value loss = add_loss(builder, options_.loss, value, target);
    graph.set_value_name(loss.ref(), "loss");
    return loss.ref();
  }

  void add_gradients_of_loss() {
    made_.joint = expand_for_gradients(with_loss(prepared(model_.training)));
    std::vector<ValueRef> parameters;
    for (const std::string& name : made_.trained) parameters.push_back(made_.joint.leaf_named(name)->value);
    const std::vector<ValueRef> gradients = add_gradients(made_.joint, made_.joint.outputs().back(), parameters);
    std::vector<std::string> reached;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) continue;  // as in PyTorch, a parameter that has no gradient stays as it is
      reached.push_back(made_.trained[i]);
      made_.gradients.push_back(gradients[i]);
    }
    if (reached.empty()) fail("the loss depends on no parameter that is to be trained");
    made_.trained = std::move(reached);
    if (const Leaf* key = made_.joint.leaf_named(kKeyState)) advance(made_.joint, key->value);
  }

  static void advance(Graph& graph, ValueRef key) {
    Builder builder(graph);
    const Value blocks = builder.pad(builder.full(Expr(kBlocksOfStep), {1}, DType::kI64), {1}, {0});
    graph.add_update(key, (builder.value(key) + blocks).ref());
  }

  // Adds the updates of the parameters.
  void optimize(Graph& graph, const std::vector<ValueRef>& gradients) {
    std::vector<TrainedParameter> parameters;
    for (size_t i = 0; i < gradients.size(); ++i) {
      parameters.push_back({made_.trained[i], graph.leaf_named(made_.trained[i])->value, {graph, gradients[i]}});
    }
    add_optimizer(graph, options_.optimizer, parameters);
    share_states(graph);
  }

  // All graphs share the states that the optimizer added.
  void share_states(Graph& graph) {
    for (const Leaf& leaf : std::vector(graph.leaves())) {
      if (leaf.kind != LeafKind::kBuffer) continue;
      const auto [state, is_new] = made_.states.try_emplace(leaf.name, leaf.data);
      if (!is_new) graph.bind(leaf.name, state->second);
    }
  }

  void make_step() {
    made_.step = made_.joint;
    optimize(made_.step, made_.gradients);
    made_.step.set_outputs({made_.joint.outputs().back()});
    made_.step = eliminate_dead_code(made_.step);
  }

  // ---- a step in parts ----

  void take_apart() {
    for (const std::string& name : made_.trained) {
      const Tensor& parameter = made_.states.at(name);
      made_.states[gradient_name(name)] = Tensor::zeros(parameter.dtype(), parameter.shape());
    }
    cut_in_two(made_, options_, Keep::kAll);
    std::vector<ValueRef> results = made_.gradients;
    results.push_back(made_.joint.outputs().back());
    made_.part = part_of(made_.joint, {}, results, made_.joint.updates());
    sum_gradients(made_.part, {made_.part.outputs().begin(), made_.part.outputs().end() - 1}, made_, options_);
    made_.part.set_outputs({made_.part.outputs().back()});
    make_update();
  }

  void make_update() {
    Graph graph("update");
    std::vector<ValueRef> gradients;
    for (const std::string& name : made_.trained) {
      for (const std::string& state : {name, gradient_name(name)}) {
        const Tensor& data = made_.states.at(state);
        const ValueRef leaf = graph.add_buffer(state, type_of(data), data);
        if (state != name) gradients.push_back(leaf);
      }
    }
    optimize(graph, gradients);
    made_.update = std::move(graph);
  }

  // ---- the mode of inference ----

  // These graphs update no state.
  void make_evaluation() {
    made_.predict = prepared(model_.inference);
    made_.predict.clear_updates();
    made_.predict = eliminate_dead_code(made_.predict);
    made_.evaluate = with_loss(made_.predict);
  }

  const TrainingModel& model_;
  const TrainingOptions& options_;
  TrainingGraphs made_;
  std::vector<std::pair<std::string, Tensor>> sources_;  // the model's own memory of each state
};

}  // namespace

void cut_in_two(TrainingGraphs& graphs, const TrainingOptions& options, Keep keep) {
  const Graph& joint = graphs.joint;
  const std::vector<ValueRef> kept = kept_for(joint, kept_values(joint), graphs.gradients, keep);
  std::vector<ValueRef> outputs = joint.outputs();
  outputs.insert(outputs.end(), kept.begin(), kept.end());
  graphs.forward = part_of(joint, {}, outputs, joint.updates());
  graphs.backward = part_of(joint, kept, graphs.gradients, {});
  sum_gradients(graphs.backward, graphs.backward.outputs(), graphs, options);
  graphs.backward.set_outputs({});
}

TrainingGraphs training_graphs(const TrainingModel& model, const TrainingOptions& options) {
  return GraphMaker(model, options).run();
}

}  // namespace tenon
