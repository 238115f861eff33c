// How a model is called, as Python has it (tenon/structure.py). A tree is (kind, data, children): a leaf has no
// children; the data of a dictionary are its keys, that of a named tuple its name and its fields.
#pragma once

#include "bind.h"
#include "capture/call_form.h"
#include "graph/assertion.h"

namespace tenon::python {

// ([(name, is_keyword, tree)...], tree)
nb::tuple to_python(const CallForm& form);
CallForm form_from(nb::handle parameters, nb::handle results);

// (message, (file, line) or None, output or None, guard or None) of each.
std::vector<Assertion> assertions_from(nb::handle list);

void bind_call_form(nb::module_& module);

}  // namespace tenon::python
