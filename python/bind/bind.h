// The nanobind module, one file per public C++ type. What the files share is here: how Tenon's values become Python's.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon::python {

namespace nb = nanobind;

void bind_diagnostic(nb::module_& module);
void bind_tensor(nb::module_& module);
void bind_op(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_sample(nb::module_& module);
void bind_autodiff(nb::module_& module);

// A NumPy array, a torch tensor, a tenon.Tensor, or whatever else speaks DLPack, without a copy: the Tensor keeps
// `array` alive. `what` names it in messages.
Tensor tensor_from(nb::handle array, std::string_view what);

// What arrays a caller works with; results are of the same kind.
enum class ArrayKind : uint8_t { kNumpy, kTorch, kTensor };
ArrayKind kind_of(nb::handle array);
nb::object tensor_to(Tensor tensor, ArrayKind kind);

nb::object to_python(const Expr& expr);  // an int where it is constant
nb::object to_python(const Attr& attr);
nb::tuple shape_to_python(std::span<const Expr> shape);

inline nb::str to_str(std::string_view text) { return nb::str(text.data(), text.size()); }

}  // namespace tenon::python
