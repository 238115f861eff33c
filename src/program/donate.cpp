#include "program/donate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "support/diagnostic.h"

namespace tenon {
namespace {

// A value that some results are, each with its dimensions in an order.
struct Source {
  ValueRef value;
  std::vector<int64_t> order;
};

class Donor {
 public:
  Donor(const Graph& graph, const std::set<uint32_t>& given, bool shares) : graph_(graph), shares_(shares) {
    const std::set<ValueRef> results(graph.outputs().begin(), graph.outputs().end());
    for (ValueRef output : graph.outputs())
      sources_.push_back(shares ? source_of(output, results) : Source{output, {}});
    std::set<ValueRef> kept = results;
    for (const Update& update : graph.updates()) kept.insert(update.target);
    const std::vector<ValueRef> inputs = graph.inputs();
    for (uint32_t input : given) {
      if (input >= inputs.size()) fail("there are {} inputs: none is number {}", inputs.size(), input);
      if (!kept.contains(inputs[input])) free_[inputs[input]] = input;
    }
  }

  Donation run() && {
    std::vector<Pair> pairs;
    std::set<ValueRef> seen;
    for (const Source& source : sources_) {
      if (seen.insert(source.value).second && may_move(source.value)) add_pairs(source.value, pairs);
    }
    std::ranges::stable_sort(pairs, {}, &Pair::nodes);
    for (const Pair& pair : pairs) take(pair);
    return finish();
  }

 private:
  struct Pair {
    uint32_t nodes;  // between the two
    ValueRef result;
    ValueRef input;
  };

  // The first of what it is a permutation of that is a result too.
  Source source_of(ValueRef result, const std::set<ValueRef>& results) const {
    Source source{result, {}}, found = source;
    while (const NodeRef producer = graph_.producer(source.value)) {
      const Node& node = graph_.node(producer);
      if (node.op->name.get() != "permute") break;
      const std::vector<int64_t> dims = permutation_of(view_of(graph_, *node.op, node.operands, node.attrs));
      source = {node.operands[0], source.order.empty() ? dims : reordered(dims, source.order)};
      if (results.contains(source.value)) found = source;
    }
    return found;
  }

  static std::vector<int64_t> permutation_of(const OpView& permute) {
    std::vector<int64_t> order;
    for (int64_t dim : permute.ints("dims")) order.push_back(normalize_dim(dim, permute.type(0).rank()));
    return order;
  }

  static std::vector<int64_t> reordered(const std::vector<int64_t>& dims, const std::vector<int64_t>& order) {
    std::vector<int64_t> result;
    for (int64_t dim : order) result.push_back(dims[static_cast<size_t>(dim)]);
    return result;
  }

  // Results that may not share memory have it of their own.
  bool may_move(ValueRef value) const { return shares_ || std::ranges::count(graph_.outputs(), value) == 1; }

  // Level by level up from the result, through values of its shape.
  void add_pairs(ValueRef result, std::vector<Pair>& pairs) const {
    const TensorType& type = graph_.type(result);
    std::set<ValueRef> seen = {result};
    std::vector<ValueRef> level = {result};
    for (uint32_t nodes = 0; !level.empty() && !free_.empty(); ++nodes) {
      std::vector<ValueRef> next;
      for (ValueRef value : level) {
        if (free_.contains(value) && graph_.type(value) == type) pairs.push_back({nodes, result, value});
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
    if (input == free_.end() || taken_.contains(pair.result)) return;
    taken_[pair.result] = input->second;
    free_.erase(input);
  }

  Donation finish() const {
    Donation donation{graph_, {}};
    const std::vector<ValueRef> inputs = graph_.inputs();
    for (const auto& [value, input] : taken_) donation.graph.add_update(inputs[input], value);
    std::vector<ValueRef> outputs;
    for (const Source& source : sources_) {
      ResultPlace& place = donation.results.emplace_back(ResultPlace{.input = {}, .order = source.order});
      if (const auto taken = taken_.find(source.value); taken != taken_.end()) {
        place.input = taken->second;
        continue;
      }
      const auto known = shares_ ? std::ranges::find(outputs, source.value) : outputs.end();
      place.output = static_cast<uint32_t>(known - outputs.begin());
      if (known == outputs.end()) outputs.push_back(source.value);
    }
    donation.graph.set_outputs(std::move(outputs));
    return donation;
  }

  const Graph& graph_;
  const bool shares_;
  std::vector<Source> sources_;         // of each output
  std::map<ValueRef, uint32_t> free_;   // inputs that nothing lies in yet, with their numbers
  std::map<ValueRef, uint32_t> taken_;  // results, with the inputs that they lie in
};

}  // namespace

Donation donate_inputs(const Graph& graph, const std::set<uint32_t>& given, bool shares) {
  return Donor(graph, given, shares).run();
}

}  // namespace tenon
