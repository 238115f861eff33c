#include "tests/loops/support_random_schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::loops::testing {
namespace {

class Proposer {
 public:
  Proposer(const LoopTree& tree, std::mt19937& random) : tree_(tree), random_(random) {}

  Proposal propose() {
    switch (number(0, 13)) {
      case 0:
      case 1:
      case 2:
        return split_some();
      case 3:
        return with_loop("merge", [&](TreeRef loop) { return merge(tree_, loop); });
      case 4:
      case 5:
        return swap_some_loops();
      case 6:
        return with_loop("fuse", [&](TreeRef loop) { return fuse(tree_, loop); });
      case 7:
        return unfuse_some();
      case 8:
        return reorder_some();
      case 9:
        return annotate_some();
      case 10:
        return swap_some_nodes();
      case 11:
        return copy_some();
      case 12:
        return with_node("delete_copy", [&](NodeRef node) { return delete_copy(tree_, node); });
      default:
        return split_some_node();
    }
  }

 private:
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  // Now and then one that does not exist.
  TreeRef any_ref() { return {static_cast<uint32_t>(number(0, static_cast<int64_t>(tree_.size())))}; }
  NodeRef any_node() { return {static_cast<uint32_t>(number(0, static_cast<int64_t>(tree_.ir.nodes().size())))}; }

  VarRef any_var() { return {static_cast<uint32_t>(number(0, static_cast<int64_t>(tree_.ir.vars().size())))}; }

  TreeRef any_loop() {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const TreeRef ref = any_ref();
      if (tree_.owns(ref) && tree_.kind(ref) == LoopTree::LOOP) return ref;
    }
    return any_ref();
  }

  template <class Edit>
  Proposal with_loop(std::string_view name, Edit edit) {
    const TreeRef loop = any_loop();
    return {fmt::format("{}({})", name, loop.id), edit(loop)};
  }

  template <class Edit>
  Proposal with_node(std::string_view name, Edit edit) {
    const NodeRef node = any_node();
    return {fmt::format("{}(%{})", name, node.id), edit(node)};
  }

  Proposal split_some() {
    const TreeRef loop = any_loop();
    constexpr int64_t kSizes[] = {0, 1, 2, 3, 4, 5, 6, 8, 16, 32};
    const int64_t size = kSizes[number(0, std::ssize(kSizes) - 1)];
    return {fmt::format("split({}, {})", loop.id, size), split(tree_, loop, size)};
  }

  Proposal swap_some_loops() {
    const TreeRef a = any_loop();
    TreeRef b = any_loop();
    if (tree_.owns(a) && tree_.parent(a) && number(0, 3) != 0) b = tree_.parent(a);
    return {fmt::format("swap_loops({}, {})", a.id, b.id), swap_loops(tree_, a, b)};
  }

  Proposal unfuse_some() {
    const TreeRef child = any_ref();
    const TreeRef loop = tree_.owns(child) && tree_.parent(child) ? tree_.parent(child) : any_ref();
    return {fmt::format("unfuse({}, {})", loop.id, child.id), unfuse(tree_, loop, child)};
  }

  Proposal reorder_some() {
    const NodeRef node = any_node();
    std::vector<LoopSpec> loops;
    if (node.id < tree_.ir.nodes().size()) loops = tree_.ir.node(node).loops;
    std::ranges::shuffle(loops, random_);
    if (number(0, 4) == 0 && !loops.empty()) loops.pop_back();
    if (number(0, 4) == 0) loops.insert(loops.begin(), {.var = any_var()});
    return {fmt::format("reorder(%{})", node.id), reorder(tree_, node, loops)};
  }

  Proposal annotate_some() {
    constexpr Mark kMarks[] = {Mark::kNone,   Mark::kParallel, Mark::kVectorize,
                               Mark::kUnroll, Mark::kBlock,    Mark::kThread};
    const TreeRef loop = any_loop();
    const Annotation annotation{kMarks[number(0, std::ssize(kMarks) - 1)]};
    return {fmt::format("annotate({}, {})", loop.id, to_string(annotation)), annotate(tree_, loop, annotation)};
  }

  Proposal swap_some_nodes() {
    const NodeRef a = any_node(), b = any_node();
    return {fmt::format("swap_nodes(%{}, %{})", a.id, b.id), swap_nodes(tree_, a, b)};
  }

  Proposal copy_some() {
    const NodeRef node = any_node();
    NodeRef input = any_node();
    TreeRef inside;
    if (node.id < tree_.ir.nodes().size() && tree_.find(node) && !tree_.ir.node(node).inputs.empty()) {
      input = tree_.ir.node(node)
                  .inputs[static_cast<size_t>(number(0, static_cast<int64_t>(tree_.ir.node(node).inputs.size()) - 1))];
      const std::vector<TreeRef> path = tree_.path(tree_.find(node));
      const int64_t depth = number(-1, static_cast<int64_t>(path.size()) - 1);
      if (depth >= 0) inside = path[static_cast<size_t>(depth)];
    }
    return {fmt::format("copy_input(%{}, %{}, {})", node.id, input.id, inside.id),
            copy_input(tree_, node, input, inside)};
  }

  Proposal split_some_node() {
    const NodeRef node = any_node();
    TreeRef loop = any_ref();
    if (node.id < tree_.ir.nodes().size() && tree_.find(node)) {
      const std::vector<TreeRef> path = tree_.path(tree_.find(node));
      if (!path.empty()) loop = path[static_cast<size_t>(number(0, static_cast<int64_t>(path.size()) - 1))];
    }
    return {fmt::format("split_node(%{}, {})", node.id, loop.id), split_node(tree_, node, loop)};
  }

  const LoopTree& tree_;
  std::mt19937& random_;
};

}  // namespace

Proposal random_edit(const LoopTree& tree, std::mt19937& random) { return Proposer(tree, random).propose(); }

LoopTree random_schedule(LoopTree tree, int count, std::mt19937& random, std::string* log) {
  for (int i = 0; i < count; ++i) {
    Proposal proposal = random_edit(tree, random);
    if (!proposal.result.ok()) continue;
    if (log) *log += proposal.what + "\n";
    tree = std::move(proposal.result).value();
  }
  return tree;
}

}  // namespace tenon::loops::testing
