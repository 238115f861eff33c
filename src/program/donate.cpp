#include "program/donate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "support/diagnostic.h"

namespace tenon {
namespace {

class Donor {
 public:
  Donor(const Graph& graph, const std::set<uint32_t>& given) : graph_(graph) {
    std::set<ValueRef> kept(graph.outputs().begin(), graph.outputs().end());
    for (const Update& update : graph.updates()) kept.insert(update.target);
    const std::vector<ValueRef> inputs = graph.inputs();
    for (uint32_t input : given) {
      if (input >= inputs.size()) fail("there are {} inputs: none is number {}", inputs.size(), input);
      if (!kept.contains(inputs[input])) free_[inputs[input]] = input;
    }
  }

  Donation run() && {
    std::vector<Pair> pairs;
    for (uint32_t output = 0; output < graph_.outputs().size(); ++output) add_pairs(output, pairs);
    std::ranges::sort(pairs, {}, [](const Pair& pair) { return std::tuple(pair.nodes, pair.output, pair.input); });
    places_.resize(graph_.outputs().size());
    for (const Pair& pair : pairs) take(pair);
    return {with_updates(), std::move(places_)};
  }

 private:
  struct Pair {
    uint32_t nodes;  // between the two
    uint32_t output;
    ValueRef input;
  };

  bool is_output_once(ValueRef value) const { return std::ranges::count(graph_.outputs(), value) == 1; }

  // Level by level up from the output, through values of its shape.
  void add_pairs(uint32_t output, std::vector<Pair>& pairs) const {
    const ValueRef root = graph_.outputs()[output];
    if (free_.empty() || !is_output_once(root)) return;
    const TensorType& type = graph_.type(root);
    std::set<ValueRef> seen = {root};
    std::vector<ValueRef> level = {root};
    for (uint32_t nodes = 0; !level.empty(); ++nodes) {
      std::vector<ValueRef> next;
      for (ValueRef value : level) {
        if (free_.contains(value) && graph_.type(value) == type) pairs.push_back({nodes, output, value});
        if (!graph_.producer(value)) continue;
        for (ValueRef operand : graph_.node(graph_.producer(value)).operands) {
          const bool follows = operand && graph_.type(operand).shape == type.shape && seen.insert(operand).second;
          if (follows) next.push_back(operand);
        }
      }
      level = std::move(next);
    }
  }

  void take(const Pair& pair) {
    const auto input = free_.find(pair.input);
    if (input == free_.end() || places_[pair.output]) return;
    places_[pair.output] = input->second;
    free_.erase(input);
  }

  Graph with_updates() const {
    Graph result = graph_;
    std::vector<ValueRef> outputs;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i]) {
        result.add_update(graph_.inputs()[*places_[i]], graph_.outputs()[i]);
      } else {
        outputs.push_back(graph_.outputs()[i]);
      }
    }
    result.set_outputs(std::move(outputs));
    return result;
  }

  const Graph& graph_;
  std::map<ValueRef, uint32_t> free_;  // inputs that nothing lies in yet, with their numbers
  std::vector<std::optional<uint32_t>> places_;
};

}  // namespace

Donation donate_inputs(const Graph& graph, const std::set<uint32_t>& given) { return Donor(graph, given).run(); }

}  // namespace tenon
