#include "named/term.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "named/sizes.h"
#include "support/text.h"

namespace tenon::named {
namespace {

std::atomic<uint64_t> next_number = 0;

bool says_sizes(const Term& node) { return node.as<InputTerm>() || !node.equations.empty() || !node.covers.empty(); }

std::vector<const Term*> sources_of(const Term& node) {
  const auto is_before = [](const Term* a, const Term* b) { return a->number < b->number; };
  std::vector<const Term*> sources;
  for (const auto* nodes : {&node.inputs, &node.context}) {
    for (const TermPtr& other : *nodes) {
      std::vector<const Term*> merged;
      std::ranges::set_union(sources, other->sources, std::back_inserter(merged), is_before);
      sources = std::move(merged);
    }
  }
  if (says_sizes(node)) sources.push_back(&node);
  return sources;
}

}  // namespace

TermPtr make_term(Term node) {
  const auto made = std::make_shared<Term>(std::move(node));
  made->number = next_number++;
  made->sources = sources_of(*made);
  const auto says_no_less = [&](const TermPtr& input) { return input->sources.size() == made->sources.size(); };
  if (std::ranges::none_of(made->inputs, says_no_less)) solve_sizes(*made);
  return made;
}

std::vector<const Term*> in_order(const Term& output) {
  std::vector<const Term*> order;
  std::unordered_set<const Term*> seen;
  std::vector<std::pair<const Term*, size_t>> open = {{&output, 0}};
  while (!open.empty()) {
    auto& [node, next] = open.back();
    if (next < node->inputs.size()) {
      const Term* input = node->inputs[next++].get();
      if (seen.insert(input).second) open.emplace_back(input, 0);
      continue;
    }
    order.push_back(node);
    open.pop_back();
  }
  return order;
}

std::string list(const std::vector<Symbol>& dims) {
  return "[" + join(dims, ", ", [](const Symbol& dim) { return dim.name(); }) + "]";
}

std::string describe(const Term& node) { return fmt::format("{}{}", name_of(node.dtype), list(node.dims)); }

}  // namespace tenon::named
