#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/rewrite.h"
#include "passes/passes.h"
#include "support/hash.h"

namespace tenon {
namespace {

// Every op is a pure function of its operands and attributes, so equal nodes have equal results.
struct Key {
  const OpDef* op;
  std::vector<ValueRef> operands;  // of the new graph
  const std::vector<Attr>* attrs;

  bool operator==(const Key& other) const {
    return op == other.op && operands == other.operands && std::ranges::equal(*attrs, *other.attrs, equal);
  }
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t seed = std::hash<const void*>()(key.op);
    for (ValueRef operand : key.operands) hash_combine(seed, operand.id);
    for (const Attr& attr : *key.attrs) hash_combine(seed, hash_of(attr));
    return seed;
  }
};

constexpr int64_t kHashedElements = 64;  // enough to tell most constants apart; equality looks at all

size_t hash_constant(const Tensor& tensor) {
  size_t seed = static_cast<size_t>(tensor.dtype());
  for (int64_t size : tensor.shape()) hash_combine(seed, static_cast<size_t>(size));
  const int64_t width = size_of(tensor.dtype());
  for (int64_t i = 0; i < std::min(tensor.numel(), kHashedElements); ++i) {
    const auto* bytes = reinterpret_cast<const char*>(tensor.data()) + tensor.offset(i) * width;
    hash_combine(seed, std::hash<std::string_view>()({bytes, static_cast<size_t>(width)}));
  }
  return seed;
}

// For each leaf, the first leaf that is the same constant; itself when there is none.
std::unordered_map<uint32_t, ValueRef> merge_constants(const Graph& graph) {
  std::unordered_multimap<size_t, const Leaf*> seen;
  std::unordered_map<uint32_t, ValueRef> first;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind != LeafKind::kConstant) continue;
    const size_t hash = hash_constant(leaf.data);
    const auto [begin, end] = seen.equal_range(hash);
    const auto same =
        std::find_if(begin, end, [&](const auto& entry) { return identical(entry.second->data, leaf.data); });
    if (same != end) {
      first.emplace(leaf.value.id, same->second->value);
    } else {
      seen.emplace(hash, &leaf);
    }
  }
  return first;
}

}  // namespace

Graph eliminate_common_subexpressions(const Graph& graph) {
  const auto merged = merge_constants(graph);
  Rewriter rewriter(graph, [&](const Leaf& leaf) { return !merged.contains(leaf.value.id); });
  for (const auto& [duplicate, original] : merged) rewriter.replace(ValueRef{duplicate}, rewriter.map(original));
  std::unordered_map<Key, NodeRef, KeyHash> seen;
  for (const Node& node : graph.nodes()) {
    Key key{node.op, rewriter.map(node.operands), &node.attrs};
    const auto found = seen.find(key);
    if (found != seen.end()) {
      rewriter.replace(node, rewriter.target().node(found->second).results);
      continue;
    }
    rewriter.copy(node);
    seen.emplace(std::move(key), NodeRef{static_cast<uint32_t>(rewriter.target().nodes().size() - 1)});
  }
  return rewriter.finish();
}

}  // namespace tenon
