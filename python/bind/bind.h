// The nanobind module, one file per public C++ type. What the files share is here: how Tenon's values become Python's
// and back. Every function throws an Error for a user's mistake; diagnostic.cpp turns it into tenon.Error.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace tenon::python {

namespace nb = nanobind;

void bind_diagnostic(nb::module_& module);
void bind_expr(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_op(nb::module_& module);
void bind_value(nb::module_& module);
void bind_node(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_sample(nb::module_& module);
void bind_autodiff(nb::module_& module);
void bind_training(nb::module_& module);
void bind_passes(nb::module_& module);
void bind_loops(nb::module_& module);
void bind_loop_tree(nb::module_& module);
void bind_compiler(nb::module_& module);
void bind_host(nb::module_& module);
void bind_backend(nb::module_& module);
void bind_schedule(nb::module_& module);
void bind_named(nb::module_& module);
void bind_pt2(nb::module_& module);
void bind_importer(nb::module_& module);
void bind_program(nb::module_& module);
void bind_artifact(nb::module_& module);
void bind_device_tensor(nb::module_& module);

// ---- text, places ---------------------------------------------------------------------------------------------------

inline nb::str to_str(std::string_view text) { return nb::str(text.data(), text.size()); }
std::string class_of(nb::handle object);  // "an int", for messages
std::string text_of(nb::handle object);   // str(object)
std::string shortened(std::string text);  // "a long te..."

// The line of the user's Python program that runs now; the frames of the package itself do not count.
Location python_location();

// ---- sizes, types, attributes ---------------------------------------------------------------------------------------

nb::object to_python(const Expr& expr);  // an int where it is constant
nb::tuple to_python_shape(std::span<const Expr> shape);
nb::object to_python(const Attr& attr);

// An int, a tenon.Expr, a tenon.loops.Symbol, or a text like "2*N"; `what` it is, in messages.
Expr expr_from(nb::handle object, std::string_view what = "a size");
DType dtype_from(nb::handle object);      // "f32", torch.float32, numpy.float32
TensorType type_from(nb::handle object);  // "f32[N, 784]", or ("f32", [N, 784])
Attr attr_from(const OpDef& op, const AttrDef& def, nb::handle object);

// ---- tensors --------------------------------------------------------------------------------------------------------

// A NumPy array, a torch tensor, a tenon.Tensor, or whatever else speaks DLPack or the buffer protocol, without a copy:
// the Tensor keeps the array's memory alive. `what` names it in messages.
Tensor tensor_from(nb::handle array, std::string_view what);
// Likewise, in a fraction of the time, for no longer than a call: it keeps the array alive, not its memory.
Tensor argument_from(nb::handle array, std::string_view what);
bool is_number(nb::handle object);                            // a Python bool, int or float
Tensor tensor_from_number(nb::handle number, DType dtype);    // rank 0; fails when it does not fit
Tensor new_tensor(nb::handle data, const nb::object& dtype);  // of an array or a number; NumPy's numbers have a dtype
DType dtype_of_number(nb::handle number);                     // bool, i64 or f32, as in PyTorch

// What arrays a caller works with; results are of the same kind, without a copy.
enum class ArrayKind : uint8_t { kNumpy, kTorch, kTensor };
ArrayKind kind_of(nb::handle array);
nb::object to_python(Tensor tensor, ArrayKind kind);

// ---- graphs ---------------------------------------------------------------------------------------------------------

// What Python holds of a graph's value: it keeps the graph alive.
struct GraphValue {
  std::shared_ptr<Graph> graph;
  ValueRef ref;

  Value value() const { return {*graph, ref}; }
};

nb::object to_python(const std::shared_ptr<Graph>& graph, ValueRef value);  // a Value, or None for an empty ref
nb::tuple to_python(const std::shared_ptr<Graph>& graph, const std::vector<ValueRef>& values);

// The ref of a Value of `graph`; one of another graph is an error.
ValueRef ref_of(const Graph& graph, nb::handle value, std::string_view what);

// Adds a node. Operands may be Values, numbers, arrays, sizes and None, optional ones may be left out, a variadic one
// is a list; keyword arguments are attributes, or operands by name. Gives a Value, or a tuple where the op has several
// results.
nb::object add_op(const std::shared_ptr<Graph>& graph, const OpDef& op, const nb::args& args, const nb::kwargs& named);

inline bool is_list(nb::handle object) { return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object); }

}  // namespace tenon::python
