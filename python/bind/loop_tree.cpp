#include "loops/loop_tree.h"

#include <fmt/format.h>
#include <nanobind/stl/function.h>

#include "loops.h"
#include "loops/schedule.h"
#include "loops/work.h"
#include "support/position_error.h"
#include "symbolic/format.h"

namespace tenon::python {

using loops::LoopTree;
using loops::NodeRef;
using loops::TreeRef;

TreeRef tree_ref(const LoopTree& tree, uint32_t ref) {
  if (!tree.owns({ref})) fail_position("there is no ref {} in a tree of {}", ref, tree.size());
  return {ref};
}

TreeRef tree_ref(const LoopTree& tree, OptionalRef ref) { return ref ? tree_ref(tree, *ref) : TreeRef(); }

OptionalRef to_optional(TreeRef ref) { return ref ? OptionalRef(ref.id) : std::nullopt; }

std::vector<uint32_t> to_ints(const std::vector<TreeRef>& refs) {
  std::vector<uint32_t> ids;
  for (TreeRef ref : refs) ids.push_back(ref.id);
  return ids;
}

std::shared_ptr<const loops::IR> ir_of(const TreePtr& tree) { return {tree, &tree->ir}; }

namespace {

// A loop as Python sees it.
struct TreeLoop {
  std::string var;
  LoopTree::Loop loop;
};

TreeLoop loop_at(const LoopTree& tree, uint32_t ref) {
  if (tree.kind(tree_ref(tree, ref)) != LoopTree::LOOP) fail("the ref {} is a node, not a loop", ref);
  const LoopTree::Loop& loop = tree.loop({ref});
  return {tree.ir.var(loop.var).name, loop};
}

KernelNode node_at(const TreePtr& tree, uint32_t ref) {
  if (tree->kind(tree_ref(*tree, ref)) != LoopTree::NODE) fail("the ref {} is a loop, not a node", ref);
  return {ir_of(tree), tree->node({ref})};
}

std::vector<std::pair<uint32_t, int>> walk(const LoopTree& tree, OptionalRef start) {
  std::vector<std::pair<uint32_t, int>> result;
  tree.walk([&](TreeRef ref, int depth) { result.emplace_back(ref.id, depth); }, tree_ref(tree, start));
  return result;
}

std::string dump(const LoopTree& tree, const std::function<std::string(uint32_t)>& note) {
  if (!note) return tree.dump();
  return tree.dump([&](TreeRef ref) { return note(ref.id); });
}

void bind_reading(nb::class_<LoopTree>& type) {
  type.def_prop_ro("ir", [](const TreePtr& self) { return ir_of(self); }, "The kernel that it is the control flow of.");
  type.def_prop_ro("roots", [](const LoopTree& self) { return to_ints(self.roots()); });
  type.def(
      "children", [](const LoopTree& self, uint32_t ref) { return to_ints(self.children(tree_ref(self, ref))); },
      nb::arg("ref"));
  type.def(
      "parent", [](const LoopTree& self, uint32_t ref) { return to_optional(self.parent(tree_ref(self, ref))); },
      nb::arg("ref"), "None for a root.");
  type.def(
      "kind",
      [](const LoopTree& self, uint32_t ref) {
        return self.kind(tree_ref(self, ref)) == LoopTree::LOOP ? "loop" : "node";
      },
      nb::arg("ref"), "\"loop\" or \"node\".");
  type.def("loop", loop_at, nb::arg("ref"));
  type.def("node", node_at, nb::arg("ref"));
  type.def(
      "depth", [](const LoopTree& self, uint32_t ref) { return self.depth(tree_ref(self, ref)); }, nb::arg("ref"),
      "0 for a root.");
  type.def(
      "lca",
      [](const LoopTree& self, uint32_t a, uint32_t b) {
        return to_optional(self.lca(tree_ref(self, a), tree_ref(self, b)));
      },
      nb::arg("a"), nb::arg("b"), "The innermost that contains both, themselves included; None where nothing does.");
  type.def(
      "contains",
      [](const LoopTree& self, uint32_t outer, uint32_t inner) {
        return self.contains(tree_ref(self, outer), tree_ref(self, inner));
      },
      nb::arg("outer"), nb::arg("inner"), "Itself included.");
  type.def(
      "path", [](const LoopTree& self, uint32_t ref) { return to_ints(self.path(tree_ref(self, ref))); },
      nb::arg("ref"), "The loops around it, from the outside in, itself included.");
  type.def(
      "find", [](const LoopTree& self, nb::handle node) { return to_optional(self.find(node_ref(self.ir, node))); },
      nb::arg("node"), nb::sig("def find(self, node: NodeLike) -> int | None"), "None for a node without loops.");
  type.def(
      "nodes_below",
      [](const TreePtr& self, OptionalRef ref) {
        return to_nodes(ir_of(self), self->nodes_below(tree_ref(*self, ref)));
      },
      nb::arg("ref") = nb::none(), "In the order of execution; of None, all.");
  type.def("walk", walk, nb::arg("start") = nb::none(),
           "(ref, depth) of all below a ref, or of the whole tree, depth-first: in the order of execution.");
  type.def("dump", dump, nb::arg("note") = nb::none(), "The tree as text; `note(ref)` adds to a line.");
  type.def("__len__", &LoopTree::size);
  type.def("__str__", [](const LoopTree& self) { return self.dump(); });
  type.def("__repr__", [](const LoopTree& self) {
    return fmt::format("<tenon.loops.LoopTree {}: {} nodes>", self.ir.name(), self.ir.order().size());
  });
}

// Every edit is a method of the tree, and a function.
template <class Fn, class... Extra>
void bind_edit(nb::module_& module, nb::class_<LoopTree>& type, const char* name, Fn fn, const Extra&... extra) {
  type.def(name, fn, extra...);
  module.def(name, fn, nb::arg("tree"), extra...);
}

void bind_loop_edits(nb::module_& module, nb::class_<LoopTree>& type) {
  bind_edit(
      module, type, "split",
      [](const LoopTree& t, uint32_t loop, int64_t size) { return split(t, tree_ref(t, loop), size).value(); },
      nb::arg("loop"), nb::arg("size"), "A loop of `size` iterations inside of the loop.");
  bind_edit(
      module, type, "merge", [](const LoopTree& t, uint32_t loop) { return merge(t, tree_ref(t, loop)).value(); },
      nb::arg("loop"), "A loop and its only child, over the same variable, become one.");
  bind_edit(
      module, type, "swap_loops",
      [](const LoopTree& t, uint32_t a, uint32_t b) { return swap_loops(t, tree_ref(t, a), tree_ref(t, b)).value(); },
      nb::arg("a"), nb::arg("b"), "Exchanges a loop with one around it or inside of it.");
  bind_edit(
      module, type, "fuse", [](const LoopTree& t, uint32_t loop) { return fuse(t, tree_ref(t, loop)).value(); },
      nb::arg("loop"), "Lets the loop share with the one before it.");
  bind_edit(
      module, type, "unfuse",
      [](const LoopTree& t, uint32_t loop, uint32_t child) {
        return unfuse(t, tree_ref(t, loop), tree_ref(t, child)).value();
      },
      nb::arg("loop"), nb::arg("child"), "Cuts a loop in two, before a child of it.");
  bind_edit(
      module, type, "annotate",
      [](const LoopTree& t, uint32_t loop, nb::handle annotation) {
        return annotate(t, tree_ref(t, loop), annotation_from(annotation)).value();
      },
      nb::arg("loop"), nb::arg("annotation"),
      "\"parallel\", \"vectorize\", \"unroll\", (\"tile\", name), or \"\" for none.");
}

void bind_node_edits(nb::module_& module, nb::class_<LoopTree>& type) {
  bind_edit(
      module, type, "reorder",
      [](const LoopTree& t, nb::handle node, nb::handle loops) {
        return reorder(t, node_ref(t.ir, node), loops_from(t.ir, loops)).value();
      },
      nb::arg("node"), nb::arg("loops"), "Gives a node new loops: LoopSpecs, (name, step), or names of variables.");
  bind_edit(
      module, type, "swap_nodes",
      [](const LoopTree& t, nb::handle a, nb::handle b) {
        return swap_nodes(t, node_ref(t.ir, a), node_ref(t.ir, b)).value();
      },
      nb::arg("a"), nb::arg("b"), "Exchanges two nodes in the order of execution.");
  bind_edit(
      module, type, "copy_input",
      [](const LoopTree& t, nb::handle node, nb::handle input, OptionalRef inside) {
        return copy_input(t, node_ref(t.ir, node), node_ref(t.ir, input), tree_ref(t, inside)).value();
      },
      nb::arg("node"), nb::arg("input"), nb::arg("inside") = nb::none(),
      "Reads an input through a copy in scratch memory, made inside of a loop around the node.");
  bind_edit(
      module, type, "delete_copy",
      [](const LoopTree& t, nb::handle copy) { return delete_copy(t, node_ref(t.ir, copy)).value(); }, nb::arg("copy"),
      "Removes a copy; its readers read what it copied.");
  bind_edit(
      module, type, "split_node",
      [](const LoopTree& t, nb::handle node, uint32_t loop) {
        return split_node(t, node_ref(t.ir, node), tree_ref(t, loop)).value();
      },
      nb::arg("node"), nb::arg("loop"), "Folds in two stages: the loop becomes a variable of partial results.");
}

void bind_tools(nb::module_& module, nb::class_<LoopTree>& type) {
  bind_edit(
      module, type, "flops", [](const LoopTree& t) { return to_python(flops(t)); },
      "Scalar operations, folds included.");
  bind_edit(
      module, type, "bytes", [](const LoopTree& t) { return to_python(bytes(t)); },
      "Memory that it reads and writes, each element once; of a gather or a slice, what it takes.");
  bind_edit(
      module, type, "is_parallel",
      [](const LoopTree& t, uint32_t loop) {
        loop_at(t, loop);
        return is_parallel(t, {loop});
      },
      nb::arg("loop"), "Whether its iterations may run at the same time.");
  bind_edit(
      module, type, "map_ref",
      [](const LoopTree& t, uint32_t ref, const LoopTree& after) {
        return to_optional(map_ref(t, tree_ref(t, ref), after));
      },
      nb::arg("ref"), nb::arg("after"), "What a ref became in an edited tree; None where it is gone.");
}

}  // namespace

void bind_loop_tree(nb::module_& module) {
  nb::class_<TreeLoop>(module, "Loop", "A loop of a tree: `size` iterations of `step` elements, and one of `tail`.")
      .def_ro("var", &TreeLoop::var, "The name of the variable.")
      .def_prop_ro("size", [](const TreeLoop& self) { return to_python(self.loop.size); })
      .def_prop_ro("tail", [](const TreeLoop& self) { return to_python(self.loop.tail); })
      .def_prop_ro("step", [](const TreeLoop& self) { return self.loop.step; })
      .def_prop_ro("annotation", [](const TreeLoop& self) { return to_python(self.loop.annotation); })
      .def("__repr__", [](const TreeLoop& self) {
        return fmt::format("<Loop {} in {} r {} by {}>", self.var, self.loop.size, self.loop.tail, self.loop.step);
      });
  nb::class_<LoopTree> type(module, "LoopTree",
                            "The exact control flow of a kernel. Loops and nodes go by refs, which are ints; an edit "
                            "gives a new tree, with refs of its own: see map_ref.");
  type.def(nb::init<loops::IR>(), nb::arg("ir"));
  bind_reading(type);
  bind_loop_edits(module, type);
  bind_node_edits(module, type);
  bind_tools(module, type);
}

}  // namespace tenon::python
