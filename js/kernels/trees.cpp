// Loop trees and their edits.
#include <fmt/format.h>

#include "backends/wasm/wasm.h"
#include "face.h"
#include "loops/trace.h"
#include "schedule/default_schedule.h"
#include "schedule/edit.h"

namespace tenon::web {
namespace {

using loops::LoopTree;
using loops::TreeRef;

// A ref of the tree, from the page.
TreeRef ref_in(const LoopTree& tree, int32_t number) {
  if (number < 0 || number >= static_cast<int64_t>(tree.size())) {
    fail("there is no ref {}: the tree has {}, from 0 on", number, tree.size());
  }
  return {static_cast<uint32_t>(number)};
}

std::string numbers(const std::vector<TreeRef>& refs) {
  std::string text;
  for (TreeRef ref : refs) text += (text.empty() ? "" : ",") + std::to_string(ref.id);
  return text;
}

std::string json_of(const LoopTree& tree, TreeRef ref) {
  const TreeRef parent = tree.parent(ref);
  const std::string place =
      fmt::format("\"parent\":{},\"depth\":{},\"children\":[{}]", parent ? std::to_string(parent.id) : "null",
                  tree.depth(ref), numbers(tree.children(ref)));
  if (tree.kind(ref) == LoopTree::NODE) {
    const loops::Node& node = tree.ir.node(tree.node(ref));
    std::string inputs;
    for (loops::NodeRef input : node.inputs) inputs += (inputs.empty() ? "" : ",") + quoted(tree.ir.node(input).name);
    return fmt::format("{{{},\"node\":{},\"text\":{},\"inputs\":[{}]}}", place, quoted(node.name),
                       quoted(to_string(tree.ir, tree.node(ref))), inputs);
  }
  const auto& [var, size, tail, step, annotation] = tree.loop(ref);
  const auto shown = [](const Expr& expr) { return expr.is_constant() ? to_string(expr) : quoted(to_string(expr)); };
  return fmt::format("{{{},\"var\":{},\"size\":{},\"tail\":{},\"step\":{},\"annotation\":{},\"parallel\":{}}}", place,
                     quoted(tree.ir.var(var).name), shown(size), shown(tail), step, quoted(to_string(annotation)),
                     loops::is_parallel(tree, ref));
}

std::string json_of(const loops::Trace& trace) {
  constexpr std::string_view kRoles[] = {"input", "output", "scratch"};
  std::string arrays, steps;
  for (const auto& [name, role, elements] : trace.arrays) {
    arrays += fmt::format("{}{{\"name\":{},\"role\":\"{}\",\"elements\":{}}}", arrays.empty() ? "" : ",", quoted(name),
                          kRoles[role], elements);
  }
  for (const auto& [array, position, writes] : trace.steps) {
    steps += fmt::format("{}{},{},{}", steps.empty() ? "" : ",", array, position, writes ? 1 : 0);
  }
  return fmt::format("{{\"arrays\":[{}],\"steps\":[{}],\"isWhole\":{}}}", arrays, steps, trace.is_whole);
}

}  // namespace

// From the text of serialize().
EXPORT(tree_parse)(const char* text, LoopTree** result) {
  return guarded([&] { *result = new LoopTree(loops::parse(text).value()); });
}

EXPORT(tree_free)(LoopTree* tree) {
  delete tree;
  return TENON_OK;
}

EXPORT(tree_text)(const LoopTree* tree) {
  return guarded([&] { set_text(to_string(tree->ir)); });
}

EXPORT(tree_dump)(const LoopTree* tree) {
  return guarded([&] { set_text(tree->dump()); });
}

EXPORT(tree_code)(const LoopTree* tree) {
  return guarded([&] { set_text(wasm::to_text(emit_wasm(*tree))); });
}

// {roots, refs: [{parent, depth, children, and node, text, inputs or var, size, tail, step, annotation, parallel}]}
EXPORT(tree_describe)(const LoopTree* tree) {
  return guarded([&] {
    std::string refs;
    for (uint32_t i = 0; i < tree->size(); ++i) refs += (i > 0 ? "," : "") + json_of(*tree, TreeRef{i});
    set_text(fmt::format("{{\"roots\":[{}],\"refs\":[{}]}}", numbers(tree->roots()), refs));
  });
}

// {arrays: [{name, role, elements}], steps: [array, position, whether it writes, ...], isWhole}: loops/trace.h.
EXPORT(tree_accesses)(const LoopTree* tree, uint32_t limit) {
  return guarded([&] { set_text(json_of(loops::trace(*tree, limit))); });
}

// An edit as text: schedule/edit.h.
EXPORT(tree_edit)(const LoopTree* tree, const char* edit, LoopTree** result) {
  return guarded([&] { *result = new LoopTree(loops::apply_edit(*tree, edit).value()); });
}

// The backend's own loops for the kernel.
EXPORT(tree_schedule)(const LoopTree* tree, LoopTree** result) {
  return guarded([&] { *result = new LoopTree(default_schedule(tree->ir, wasm_machine())); });
}

// The ref in an edited tree that corresponds to a ref of this tree; -1: none does.
EXPORT(tree_map_ref)(const LoopTree* tree, int32_t ref, const LoopTree* after, int32_t* result) {
  return guarded([&] {
    const TreeRef found = loops::map_ref(*tree, ref_in(*tree, ref), *after);
    *result = found ? static_cast<int32_t>(found.id) : -1;
  });
}

}  // namespace tenon::web
