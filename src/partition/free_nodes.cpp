#include "partition/free_nodes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace tenon {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();  // Seconds of a claimant that declines.
constexpr double kRounding = 1e-13;  // Costs that differ by less are equal: preference decides.

bool is_one_number(const Graph& graph, ValueRef value) {
  return std::ranges::all_of(graph.type(value).shape, [](const Expr& size) { return size.is_constant(1); });
}

class FreeNodes {
 public:
  FreeNodes(const Graph& graph, const Flow& flow, ClaimTable& claims, const Crossings& crossings,
            std::vector<uint32_t>& owners)
      : graph_(graph),
        flow_(flow),
        claims_(claims),
        crossings_(crossings),
        owners_(owners),
        row_(graph.nodes().size(), kNoRow),
        parent_(graph.nodes().size()) {}

  void run() {
    for (uint32_t id = 0; id < owners_.size(); ++id) find_parent(id);
    if (seconds_.empty()) return;
    touches_.resize(owners_.size());
    is_preferred_.resize(owners_.size());
    for (auto id = static_cast<uint32_t>(owners_.size()); id-- > 0;) {
      if (is_free_node(id)) weigh(id);
    }
    for (const Leaf& leaf : graph_.leaves()) place_children(leaf.value);
    for (uint32_t id = 0; id < owners_.size(); ++id) {
      if (is_free_node(id) && !parent_[id]) place_root(id);
      for (ValueRef result : graph_.nodes()[id].results) place_children(result);
    }
  }

 private:
  static constexpr uint32_t kNoRow = ~0u;

  bool is_free_node(uint32_t id) const { return row_[id] != kNoRow; }
  double& seconds(uint32_t id, uint32_t claimant) { return seconds_[row_[id] * claims_.claimant_count() + claimant]; }
  ValueRef result(uint32_t id) const { return graph_.nodes()[id].results[0]; }
  bool is_child(uint32_t id, ValueRef value) const { return is_free_node(id) && parent_[id] == value; }

  // Finds out whether the node is free, and which value must be brought to it.
  void find_parent(uint32_t id) {
    const Node& node = graph_.nodes()[id];
    if (!is_free(graph_, node)) return;
    ValueRef parent;
    for (ValueRef operand : node.operands) {
      if (!operand || operand == parent || crossings_.origin(operand, owners_) == Crossings::kEverywhere) continue;
      if (parent) return;
      parent = operand;
    }
    parent_[id] = parent;
    row_[id] = static_cast<uint32_t>(seconds_.size() / claims_.claimant_count());
    seconds_.resize(seconds_.size() + claims_.claimant_count(), kNever);
  }

  // ---- from readers to operands: the seconds of all transfers below a node, for each claimant that may run it ----

  void weigh(uint32_t id) {
    for (uint32_t claimant = 0; claimant < claims_.claimant_count(); ++claimant) {
      if (claims_.accepts(claimant, id)) seconds(id, claimant) = spread(result(id), claimant).seconds;
    }
    touches_[id] = std::ranges::any_of(flow_.readers[result(id).id], [&](uint32_t reader) {
      return !is_child(reader, result(id)) || touches_[reader];
    });
  }

  // Which claimants get a value that `from` makes: those of other nodes that read it, and more where free nodes that
  // read it then cost less.
  Brought spread(ValueRef value, uint32_t from) {
    Brought result{0, {from}};
    std::vector<uint32_t> children;
    for (uint32_t reader : flow_.readers[value.id]) {
      if (is_child(reader, value)) {
        children.push_back(reader);
      } else {
        crossings_.bring(value, owners_[reader], result);
      }
    }
    if (flow_.is_on_host[value.id]) crossings_.bring(value, crossings_.host(), result);
    if (children.empty()) return result;
    std::vector<double> best(children.size(), kNever);
    const auto use = [&](uint32_t claimant) {
      for (size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], seconds(children[i], claimant));
    };
    std::ranges::for_each(result.to, use);
    while (const std::optional<uint32_t> more = worth_having(value, result, children, best)) {
      crossings_.bring(value, *more, result);
      use(*more);
    }
    for (double child : best) result.seconds += child;
    return result;
  }

  // What it saves if one more claimant gets a value: first free nodes that no other claimant accepts, then seconds.
  struct Saving {
    size_t nodes = 0;
    double seconds = 0;
    bool exceeds(const Saving& other) const {
      return nodes > other.nodes || (nodes == other.nodes && seconds > other.seconds + kRounding);
    }
    bool is_none() const { return nodes == 0 && std::abs(seconds) <= kRounding; }
  };

  Saving saving(ValueRef value, uint32_t claimant, const Brought& now, const std::vector<uint32_t>& children,
                const std::vector<double>& best) {
    Saving saving{0, -crossings_.seconds(value, now, claimant)};
    for (size_t i = 0; i < children.size(); ++i) {
      const double there = seconds(children[i], claimant);
      if (there >= best[i]) continue;
      if (best[i] == kNever) ++saving.nodes;
      saving.seconds += best[i] == kNever ? -there : best[i] - there;
    }
    return saving;
  }

  // The claimant that saves most if it gets the value, too. Where none saves anything, one that is preferred to all
  // that have the value and loses nothing: there a free node becomes part of its readers' kernels, where it is not one
  // of its own.
  std::optional<uint32_t> worth_having(ValueRef value, const Brought& now, const std::vector<uint32_t>& children,
                                       const std::vector<double>& best) {
    std::optional<uint32_t> found;
    Saving most;
    for (uint32_t claimant = 0; claimant < claims_.claimant_count(); ++claimant) {
      if (now.has(claimant)) continue;
      const Saving now_saved = saving(value, claimant, now, children, best);
      const bool is_preferred =
          !found && claimant < std::ranges::min(now.to) && now_saved.is_none() && takes_any(claimant, children, best);
      if (!now_saved.exceeds(most) && !is_preferred) continue;
      most = now_saved;
      found = claimant;
    }
    return found;
  }

  bool takes_any(uint32_t claimant, const std::vector<uint32_t>& children, const std::vector<double>& best) {
    for (size_t i = 0; i < children.size(); ++i) {
      if (seconds(children[i], claimant) < best[i]) return true;
    }
    return false;
  }

  // ---- from operands to readers ----

  void place_children(ValueRef value) {
    const NodeRef producer = graph_.producer(value);
    std::optional<Brought> all;
    for (uint32_t reader : flow_.readers[value.id]) {
      if (!is_child(reader, value)) continue;
      const bool is_alone = producer ? is_preferred_[producer.id] : !touches_[reader];
      if (is_alone) {
        prefer(reader);
        continue;
      }
      if (!all) all = spread(value, crossings_.origin(value, owners_));
      place(reader, all->to);
    }
  }

  void place_root(uint32_t id) {
    if (!touches_[id]) return prefer(id);
    std::vector<uint32_t> all(claims_.claimant_count());
    for (uint32_t claimant = 0; claimant < all.size(); ++claimant) all[claimant] = claimant;
    place(id, all);
  }

  void prefer(uint32_t id) {
    is_preferred_[id] = true;
    owners_[id] = claims_.first_acceptor(id);
  }

  void place(uint32_t id, std::vector<uint32_t> among) {
    std::ranges::sort(among);
    uint32_t best = among[0];
    for (uint32_t claimant : among) {
      if (seconds(id, claimant) < seconds(id, best) - kRounding) best = claimant;
    }
    owners_[id] = best;
  }

  const Graph& graph_;
  const Flow& flow_;
  ClaimTable& claims_;
  const Crossings& crossings_;
  std::vector<uint32_t>& owners_;
  std::vector<uint32_t> row_;       // by node: of `seconds_`, for a free node
  std::vector<ValueRef> parent_;    // by node: the value that must be brought to a free node, if there is one
  std::vector<double> seconds_;     // by row and claimant
  std::vector<bool> touches_;       // by node: a node that is not free reads what follows from it
  std::vector<bool> is_preferred_;  // by node: of a tree that touches no other node
};

}  // namespace

bool is_free(const Graph& graph, const Node& node) {
  if (node.results.size() != 1 || node.op->role == Role::kExternal) return false;
  if (cost_of(*node.op) == Cost::kFree) return true;
  return node.op->name.get() == "cast" && is_one_number(graph, node.results[0]);
}

void place_free_nodes(const Graph& graph, const Flow& flow, ClaimTable& claims, const Crossings& crossings,
                      std::vector<uint32_t>& owners) {
  FreeNodes(graph, flow, claims, crossings, owners).run();
}

}  // namespace tenon
