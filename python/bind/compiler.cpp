#include "loops/compiler.h"

#include <algorithm>

#include "loops.h"

namespace tenon::python {
namespace {

using loops::Compiler;
using loops::LoopTree;
using loops::NodeRef;

// The analyses refer to the tree.
struct TreeCompiler {
  explicit TreeCompiler(TreePtr of) : tree(std::move(of)), compiler(*tree) {}

  TreePtr tree;
  Compiler compiler;
};

// An access lives as long as its compiler.
struct PythonAccess {
  std::shared_ptr<const TreeCompiler> owner;
  Compiler::Access access;
};

struct PythonAllocation {
  std::shared_ptr<const TreeCompiler> owner;
  const Compiler::Allocation* allocation;
};

using Owner = std::shared_ptr<const TreeCompiler>;

// What is known at a point of a walk, and a stretch of a loop, where more is known.
struct PythonScope {
  Compiler::Scope scope;
};

struct PythonStretch {
  Compiler::Stretch stretch;
};

struct PythonFill {
  Owner owner;
  Compiler::Fill fill;
};

nb::dict by_name(const Owner& owner, const std::unordered_map<NodeRef, Compiler::Allocation>& allocations) {
  nb::dict result;
  for (NodeRef node : owner->tree->ir.node_refs()) {
    const auto found = allocations.find(node);
    if (found != allocations.end()) {
      result[to_str(owner->tree->ir.node(node).name)] = nb::cast(PythonAllocation{owner, &found->second});
    }
  }
  return result;
}

nb::list dims_of(const PythonAllocation& self) {
  nb::list dims;
  for (const Compiler::Dim& dim : self.allocation->dims) {
    nb::dict entry;
    entry["var"] = self.owner->tree->ir.var(dim.var).name;
    entry["step"] = dim.step;
    entry["extent"] = to_python(dim.extent);
    entry["stride"] = to_python(dim.stride);
    entry["loop"] = nb::cast(to_optional(dim.loop));
    dims.append(entry);
  }
  return dims;
}

nb::dict symbols_by_var(const TreeCompiler& self) {
  nb::dict result;
  for (const loops::Var& var : self.tree->ir.vars()) {
    const Symbol symbol = self.compiler.var_to_sym.at(*self.tree->ir.var_named(var.name));
    result[to_str(var.name)] = to_str(symbol.name());
  }
  return result;
}

nb::dict vars_by_symbol(const TreeCompiler& self) {
  nb::dict result;
  for (const loops::Var& var : self.tree->ir.vars()) {
    const Symbol symbol = self.compiler.var_to_sym.at(*self.tree->ir.var_named(var.name));
    result[to_str(symbol.name())] = to_str(self.tree->ir.var(self.compiler.sym_to_var.at(symbol)).name);
  }
  return result;
}

loops::TreeRef loop_ref(const TreeCompiler& self, uint32_t ref) {
  if (self.tree->kind(tree_ref(*self.tree, ref)) != LoopTree::LOOP) fail("the ref {} is a node, not a loop", ref);
  return {ref};
}

PythonAccess gen_access(const Owner& self, nb::handle node, uint32_t ref) {
  const NodeRef accessed = node_ref(self->tree->ir, node);
  if (self->tree->kind(tree_ref(*self->tree, ref)) != LoopTree::NODE) fail("the ref {} is a loop, not a node", ref);
  const NodeRef here = self->tree->node({ref});
  const std::vector<NodeRef>& inputs = self->tree->ir.node(here).inputs;
  if (accessed != here && std::ranges::find(inputs, accessed) == inputs.end()) {
    fail("%{} does not access %{}", self->tree->ir.node(here).name, self->tree->ir.node(accessed).name);
  }
  return {self, self->compiler.gen_access(accessed, {ref})};
}

std::vector<PythonAccess> pieces(const Owner& self, uint32_t ref) {
  if (self->tree->kind(tree_ref(*self->tree, ref)) != LoopTree::NODE) fail("the ref {} is a loop, not a node", ref);
  std::vector<PythonAccess> accesses;
  const auto* view = self->tree->ir.node(self->tree->node({ref})).as<loops::View>();
  if (!view) fail("%{} is no view", self->tree->ir.node(self->tree->node({ref})).name);
  for (const loops::Piece& piece : view->pieces) {
    accesses.push_back({self, self->compiler.gen_access(piece, {ref})});
  }
  return accesses;
}

std::vector<PythonStretch> stretches(const TreeCompiler& self, uint32_t loop, const PythonScope& scope) {
  std::vector<PythonStretch> result;
  for (const Compiler::Stretch& stretch : self.compiler.stretches(loop_ref(self, loop), scope.scope)) {
    result.push_back({stretch});
  }
  return result;
}

std::vector<PythonFill> fills(const Owner& self, uint32_t loop) {
  std::vector<PythonFill> result;
  for (const Compiler::Fill& fill : self->compiler.fills(loop_ref(*self, loop))) result.push_back({self, fill});
  return result;
}

std::vector<std::string> counters_of(const PythonFill& self) {
  std::vector<std::string> names;
  for (Symbol counter : self.fill.counters) names.push_back(counter.name());
  return names;
}

nb::object source_of(const PythonFill& self) {
  if (!self.fill.source) return nb::none();
  return nb::cast(KernelNode{ir_of(self.owner->tree), self.fill.source});
}

nb::object stride(const TreeCompiler& self, const PythonAccess& access, uint32_t loop) {
  const std::optional<Expr> stride = self.compiler.stride(access.access, loop_ref(self, loop));
  return stride ? to_python(*stride) : nb::none();
}

nb::object allocation_of(const PythonAccess& self) {
  if (!self.access.memory) return nb::none();
  return nb::cast(PythonAllocation{self.owner, self.access.memory});
}

void bind_allocation(nb::module_& module) {
  nb::class_<PythonAllocation>(module, "Allocation", "Where the elements of a node live.")
      .def_prop_ro(
          "mem_idx", [](const PythonAllocation& self) { return self.allocation->mem_idx; },
          "In the memory list: inputs by slot, then outputs by slot, then scratch.")
      .def_prop_ro("dtype", [](const PythonAllocation& self) { return to_str(name_of(self.allocation->dtype)); })
      .def_prop_ro(
          "lca", [](const PythonAllocation& self) { return to_optional(self.allocation->lca); },
          "The innermost loop around the node and its readers: scratch lives for one iteration of it.")
      .def_prop_ro("scratch", [](const PythonAllocation& self) { return self.allocation->scratch; })
      .def_prop_ro(
          "size", [](const PythonAllocation& self) { return to_python(self.allocation->size()); }, "In elements.")
      .def_prop_ro("dims", dims_of, "Each with its var, step, extent, stride and loop.");
}

void bind_access(nb::module_& module) {
  nb::class_<PythonAccess>(module, "Access", "How a node reads or writes elements at a point of a tree.")
      .def_prop_ro("node",
                   [](const PythonAccess& self) { return KernelNode{ir_of(self.owner->tree), self.access.node}; })
      .def_prop_ro("at", [](const PythonAccess& self) { return self.access.at.id; })
      .def_prop_ro(
          "index", [](const PythonAccess& self) { return to_python_shape(self.access.index); },
          "Along each of the node's variables, over variables and lookups.")
      .def_prop_ro(
          "where", [](const PythonAccess& self) { return to_python(self.access.where); },
          "(expr, bound): it is there where 0 <= expr < bound.")
      .def_prop_ro("memory", allocation_of, "None for a constant or an index.");
}

void bind_control_flow(nb::module_& module) {
  nb::class_<PythonScope>(module, "Scope", "What is known at a point of a walk through a tree.");
  nb::class_<PythonStretch>(module, "Stretch", "A part of a loop's iterations: its whole iterations, its tail, ...")
      .def_prop_ro("begin", [](const PythonStretch& self) { return to_python(self.stretch.begin); })
      .def_prop_ro("end", [](const PythonStretch& self) { return to_python(self.stretch.end); })
      .def_prop_ro("scope", [](const PythonStretch& self) { return PythonScope{self.stretch.scope}; });
  nb::class_<PythonFill>(module, "Fill", "An accumulator that starts right before a loop.")
      .def_prop_ro("node", [](const PythonFill& self) { return KernelNode{ir_of(self.owner->tree), self.fill.node}; })
      .def_prop_ro("memory", [](const PythonFill& self) { return PythonAllocation{self.owner, self.fill.memory}; })
      .def_prop_ro("counters", counters_of, "Of the loops that run over the block.")
      .def_prop_ro("extents", [](const PythonFill& self) { return to_python_shape(self.fill.extents); })
      .def_prop_ro(
          "offset", [](const PythonFill& self) { return to_python(self.fill.offset); }, "In the memory, in elements.")
      .def_prop_ro("source", source_of,
                   "Of a scatter: the node that it starts as. Others start as their op's identity.")
      .def_prop_ro("source_offset", [](const PythonFill& self) { return to_python(self.fill.source_offset); })
      .def_prop_ro("where", [](const PythonFill& self) { return to_python(self.fill.where); });
}

}  // namespace

void bind_compiler(nb::module_& module) {
  bind_allocation(module);
  bind_access(module);
  bind_control_flow(module);
  nb::class_<TreeCompiler>(module, "Compiler",
                           "What a backend must know to turn a LoopTree into code. Expressions are over the counters "
                           "of loops, which count iterations.")
      .def(
          "__init__",
          [](TreeCompiler* self, const LoopTree& tree) { new (self) TreeCompiler(std::make_shared<LoopTree>(tree)); },
          nb::arg("tree"))
      .def_prop_ro("tree", [](const TreeCompiler& self) { return self.tree; })
      .def_prop_ro(
          "allocations", [](const Owner& self) { return by_name(self, self->compiler.allocations); },
          "By the names of the nodes.")
      .def_prop_ro(
          "carries", [](const Owner& self) { return by_name(self, self->compiler.carries); },
          "The running values of scans, by the names of the nodes.")
      .def_prop_ro("var_to_sym", symbols_by_var)
      .def_prop_ro("sym_to_var", vars_by_symbol)
      .def(
          "counter",
          [](const TreeCompiler& self, uint32_t loop) { return self.compiler.counter(loop_ref(self, loop)).name(); },
          nb::arg("loop"), "The symbol that counts its iterations.")
      .def(
          "index_of",
          [](const TreeCompiler& self, nb::handle var, uint32_t at) {
            return to_python(self.compiler.index_of(var_ref(self.tree->ir, var), tree_ref(*self.tree, at)));
          },
          nb::arg("var"), nb::arg("at"), "The index of a variable at a point of the tree.")
      .def("gen_access", gen_access, nb::arg("node"), nb::arg("ref"),
           "How the node at a ref writes (itself) or reads (an input).")
      .def("pieces", pieces, nb::arg("ref"), "The accesses of a view's pieces, in order.")
      .def(
          "get_scoped_expr",
          [](const TreeCompiler& self, const PythonAccess& access) {
            return to_python(self.compiler.get_scoped_expr(access.access));
          },
          nb::arg("access"), "The position in the access's memory, in elements.")
      .def(
          "get_constraints",
          [](const TreeCompiler& self, const PythonAccess& access, const PythonScope* scope) {
            return to_python(scope ? self.compiler.get_constraints(access.access, scope->scope)
                                   : self.compiler.get_constraints(access.access));
          },
          nb::arg("access"), nb::arg("scope") = nb::none(),
          "(expr, bound): what must be tested, as 0 <= expr < bound; in a scope, what is left to be tested.")
      .def(
          "root", [](const TreeCompiler& self) { return PythonScope{self.compiler.root()}; }, "Where a walk starts.")
      .def("stretches", stretches, nb::arg("loop"), nb::arg("scope"), "The stretches of a loop, in order.")
      .def("fills", fills, nb::arg("loop"), "The accumulators that start right before a loop.")
      .def("stride", stride, nb::arg("access"), nb::arg("loop"),
           "The elements that one iteration moves by; None where that varies.");
}

}  // namespace tenon::python
