// What the bindings of loops share: refs are Python ints, nodes and variables go by name, and whatever looks into a
// kernel keeps it alive.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "loops/compiler.h"
#include "loops/loop_tree.h"

namespace tenon::python {

// A node of a kernel.
struct KernelNode {
  std::shared_ptr<const loops::IR> ir;
  loops::NodeRef ref;

  const loops::Node& node() const { return ir->node(ref); }
};

using TreePtr = std::shared_ptr<const loops::LoopTree>;
using OptionalRef = std::optional<uint32_t>;

// Throw an Error for what the kernel or the tree does not have.
loops::TreeRef tree_ref(const loops::LoopTree& tree, uint32_t ref);
loops::TreeRef tree_ref(const loops::LoopTree& tree, OptionalRef ref);
loops::NodeRef node_ref(const loops::IR& ir, nb::handle node);  // a KernelNode, or a name
loops::VarRef var_ref(const loops::IR& ir, nb::handle var);     // a name, or what has one

OptionalRef to_optional(loops::TreeRef ref);
std::vector<uint32_t> to_ints(const std::vector<loops::TreeRef>& refs);
std::vector<KernelNode> to_nodes(const std::shared_ptr<const loops::IR>& ir, const std::vector<loops::NodeRef>& refs);
std::shared_ptr<const loops::IR> ir_of(const TreePtr& tree);  // which keeps the tree alive

nb::object to_python(const loops::Annotation& annotation);  // "", "parallel", ..., ("tile", name)
loops::Annotation annotation_from(nb::handle object);
std::vector<loops::LoopSpec> loops_from(const loops::IR& ir, nb::handle loops);  // LoopSpecs, (name, step), names
std::vector<std::pair<nb::object, nb::object>> to_python(const std::vector<loops::Constraint>& constraints);

}  // namespace tenon::python
