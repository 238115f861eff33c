#include "loops.h"

#include <fmt/format.h>

#include "loops/schedule.h"

namespace tenon::python {

using loops::Annotation;
using loops::IR;
using loops::LoopSpec;
using loops::Mark;
using loops::NodeRef;
using loops::VarRef;

namespace {

struct PythonLoop {
  std::string var;
  int64_t step;
  Annotation annotation;
  bool fresh;
};

std::vector<std::string> names_of(const IR& ir, const std::vector<VarRef>& vars) {
  std::vector<std::string> names;
  for (VarRef var : vars) names.push_back(ir.var(var).name);
  return names;
}

std::vector<PythonLoop> loops_of(const KernelNode& self) {
  std::vector<PythonLoop> loops;
  for (const LoopSpec& loop : self.node().loops) {
    loops.push_back({self.ir->var(loop.var).name, loop.step, loop.annotation, loop.fresh});
  }
  return loops;
}

constexpr const char* kActions[] = {"read", "constant", "index",   "compute", "reduce",
                                    "scan", "view",     "scatter", "write"};
static_assert(std::size(kActions) == std::variant_size_v<loops::Action>);

nb::object op_of(const KernelNode& self) {
  const OpDef* op = std::visit(
      [](const auto& action) -> const OpDef* {
        if constexpr (requires { action.op; }) return action.op;
        return nullptr;
      },
      self.node().action);
  return op ? nb::object(to_str(op->name.get())) : nb::object(nb::none());
}

std::string text_of_loop(const PythonLoop& loop) {
  std::string text = loop.var;
  if (loop.step != 1) text += fmt::format(" by {}", loop.step);
  if (loop.annotation.mark != Mark::kNone) text += " " + to_string(loop.annotation);
  return loop.fresh ? text + " fresh" : text;
}

std::vector<KernelNode> nodes_of(const std::shared_ptr<const IR>& ir) { return to_nodes(ir, ir->node_refs()); }

nb::dict sizes_of(const IR& ir) {
  nb::dict sizes;
  for (const loops::Var& var : ir.vars()) sizes[to_str(var.name)] = to_python(var.size);
  return sizes;
}

std::vector<std::string> size_symbols_of(const IR& ir) {
  std::vector<std::string> names;
  for (Symbol symbol : ir.size_symbols()) names.push_back(symbol.name());
  return names;
}

void bind_node_of_kernel(nb::module_& module) {
  nb::class_<KernelNode>(module, "KernelNode", "A node of a kernel: tenon.loops.Node.")
      .def_prop_ro("name", [](const KernelNode& self) { return self.node().name; })
      .def_prop_ro(
          "kind", [](const KernelNode& self) { return kActions[self.node().action.index()]; },
          "\"read\", \"constant\", \"index\", \"compute\", \"reduce\", \"scan\", \"view\", \"scatter\" or \"write\".")
      .def_prop_ro("op", op_of, "The name of the op that it computes or folds with; None where there is none.")
      .def_prop_ro("dtype", [](const KernelNode& self) { return to_str(name_of(self.node().dtype)); })
      .def_prop_ro("inputs", [](const KernelNode& self) { return to_nodes(self.ir, self.node().inputs); })
      .def_prop_ro(
          "vars", [](const KernelNode& self) { return names_of(*self.ir, self.node().vars); },
          "The names of the variables of its array.")
      .def_prop_ro(
          "folded", [](const KernelNode& self) { return names_of(*self.ir, self.ir->folded_vars(self.ref)); },
          "The names of the variables that it folds.")
      .def_prop_ro(
          "shape", [](const KernelNode& self) { return to_python_shape(self.ir->type(self.ref).shape); },
          "Of its whole array.")
      .def_prop_ro("loops", loops_of, "From the outside in.")
      .def("__str__", [](const KernelNode& self) { return to_string(*self.ir, self.ref); })
      .def("__repr__",
           [](const KernelNode& self) { return fmt::format("<tenon.loops.Node {}>", to_string(*self.ir, self.ref)); });
}

void bind_loop_spec(nb::module_& module) {
  nb::class_<PythonLoop>(module, "LoopSpec", "One loop of a node.")
      .def(
          "__init__",
          [](PythonLoop* self, std::string var, int64_t step, nb::handle annotation, bool fresh) {
            new (self) PythonLoop{std::move(var), step, annotation_from(annotation), fresh};
          },
          nb::arg("var"), nb::arg("step") = 1, nb::arg("annotation") = "", nb::arg("fresh") = false,
          nb::sig("def __init__(self, var: str, step: int = 1, annotation: AnnotationLike = '', fresh: bool = False) "
                  "-> None"))
      .def_ro("var", &PythonLoop::var, "The name of the variable.")
      .def_ro("step", &PythonLoop::step, "The elements that one iteration covers.")
      .def_prop_ro(
          "annotation", [](const PythonLoop& self) { return to_python(self.annotation); },
          nb::sig("def annotation(self) -> AnnotationLike"))
      .def_ro("fresh", &PythonLoop::fresh, "Whether it starts a loop of its own.")
      .def(
          "__eq__",
          [](const PythonLoop& a, const PythonLoop& b) {
            return a.var == b.var && a.step == b.step && a.annotation == b.annotation && a.fresh == b.fresh;
          },
          nb::is_operator())
      .def("__repr__", [](const PythonLoop& self) { return fmt::format("<LoopSpec {}>", text_of_loop(self)); });
}

}  // namespace

// ---- what the bindings share ----------------------------------------------------------------------------------------

NodeRef node_ref(const IR& ir, nb::handle node) {
  std::string name;
  if (nb::isinstance<KernelNode>(node)) {
    name = nb::cast<KernelNode&>(node).node().name;
  } else if (!nb::try_cast(node, name)) {
    fail("a node is a tenon.loops.Node or its name, got {}", class_of(node));
  }
  const std::string_view bare = name.starts_with('%') ? std::string_view(name).substr(1) : name;
  const auto ref = ir.node_named(bare);
  if (!ref) fail("kernel {} has no node %{}", ir.name(), bare);
  return *ref;
}

VarRef var_ref(const IR& ir, nb::handle var) {
  std::string name;
  if (!nb::try_cast(nb::hasattr(var, "name") ? nb::object(var.attr("name")) : nb::borrow(var), name)) {
    fail("a variable is its name, got {}", class_of(var));
  }
  const auto ref = ir.var_named(name);
  if (!ref) fail("kernel {} has no variable {}", ir.name(), name);
  return *ref;
}

std::vector<KernelNode> to_nodes(const std::shared_ptr<const IR>& ir, const std::vector<NodeRef>& refs) {
  std::vector<KernelNode> nodes;
  for (NodeRef ref : refs) nodes.push_back({ir, ref});
  return nodes;
}

nb::object to_python(const Annotation& annotation) {
  if (annotation.mark == Mark::kTile) return nb::make_tuple("tile", annotation.tile);
  return to_str(to_string(annotation));
}

Annotation annotation_from(nb::handle object) {
  if (nb::isinstance<nb::tuple>(object) && nb::len(object) == 2) {
    std::string tile;
    if (nb::cast<nb::object>(object[0]).equal(nb::str("tile")) && nb::try_cast(object[1], tile))
      return {Mark::kTile, tile};
  }
  std::string text;
  if (!nb::try_cast(object, text)) fail("an annotation is a text or (\"tile\", name), got {}", class_of(object));
  for (Mark mark : {Mark::kNone, Mark::kParallel, Mark::kBlock, Mark::kThread, Mark::kVectorize, Mark::kUnroll}) {
    if (text == to_string(Annotation{mark})) return {mark};
  }
  fail("'{}' is not an annotation: use parallel, block, thread, vectorize, unroll, (\"tile\", name) or an empty text",
       text);
}

std::vector<std::pair<nb::object, nb::object>> to_python(const std::vector<loops::Constraint>& constraints) {
  std::vector<std::pair<nb::object, nb::object>> result;
  for (const auto& [expr, bound] : constraints) result.emplace_back(to_python(expr), to_python(bound));
  return result;
}

std::vector<LoopSpec> loops_from(const IR& ir, nb::handle objects) {
  std::vector<LoopSpec> loops;
  for (const nb::handle object : nb::borrow(objects)) {
    if (nb::isinstance<PythonLoop>(object)) {
      const auto& loop = nb::cast<PythonLoop&>(object);
      loops.push_back({var_ref(ir, nb::cast(loop.var)), loop.step, loop.annotation, loop.fresh});
    } else if (std::pair<std::string, int64_t> split; nb::try_cast(object, split)) {
      loops.push_back({.var = var_ref(ir, nb::cast(split.first)), .step = split.second});
    } else {
      loops.push_back({.var = var_ref(ir, object)});
    }
  }
  return loops;
}

void bind_loops(nb::module_& module) {
  bind_loop_spec(module);
  bind_node_of_kernel(module);
  nb::class_<IR>(module, "IR", "The annotated dataflow graph of one kernel, over named index variables.")
      .def_static(
          "parse", [](const std::string& text, const std::string& file) { return loops::parse(text, file).value(); },
          nb::arg("text"), nb::arg("file") = "", "The kernel of a text; `file` names the text in errors.")
      .def_prop_ro("name", [](const IR& self) { return self.name(); })
      .def_prop_ro("vars", sizes_of, "The sizes of its variables, by name.")
      .def_prop_ro("nodes", nodes_of)
      .def_prop_ro(
          "order", [](const std::shared_ptr<const IR>& self) { return to_nodes(self, self->order()); },
          "The nodes with loops, in the order of execution.")
      .def_prop_ro(
          "reads", [](const std::shared_ptr<const IR>& self) { return to_nodes(self, self->reads()); }, "By slot.")
      .def_prop_ro(
          "writes", [](const std::shared_ptr<const IR>& self) { return to_nodes(self, self->writes()); }, "By slot.")
      .def_prop_ro("size_symbols", size_symbols_of, "The symbols in the sizes of its variables, sorted.")
      .def(
          "node",
          [](const std::shared_ptr<const IR>& self, nb::handle name) {
            return KernelNode{self, node_ref(*self, name)};
          },
          nb::arg("name"), nb::sig("def node(self, name: str) -> KernelNode"))
      .def(
          "__eq__", [](const IR& self, const IR& other) { return self == other; }, nb::is_operator(),
          "Everything but the kernel's name.")
      .def("__str__", [](const IR& self) { return to_string(self); })
      .def("__repr__", [](const IR& self) {
        return fmt::format("<tenon.loops.IR {}: {} nodes>", self.name(), self.nodes().size());
      });
  module.def(
      "initial_schedule", [](loops::IR ir) { return loops::initial_schedule(std::move(ir)); }, nb::arg("ir"),
      "Loops and an order of nodes to start from.");
}

}  // namespace tenon::python
