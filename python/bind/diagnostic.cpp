#include "support/diagnostic.h"

#include <nanobind/stl/string.h>

#include "bind.h"

namespace tenon::python {
namespace {

// They live as long as the process: the module may be gone when a late error is translated.
nb::handle error_type;
nb::handle internal_error_type;

nb::handle new_exception(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string qualified = std::string("tenon.") + name;
  nb::object type = nb::steal(PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr));
  if (!type.is_valid()) nb::raise_python_error();
  module.attr(name) = type;
  return type.release();
}

void raise(const Error& error) {
  const Diagnostic& diagnostic = error.diagnostic();
  nb::object exception = error_type(error.what());
  exception.attr("message") = diagnostic.message;
  exception.attr("file") = diagnostic.where.file;
  exception.attr("line") = diagnostic.where.line;
  exception.attr("column") = diagnostic.where.column;
  PyErr_SetObject(error_type.ptr(), exception.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  } catch (const InternalError& error) {
    PyErr_SetString(internal_error_type.ptr(), error.what());
  }
}

}  // namespace

void bind_diagnostic(nb::module_& module) {
  error_type = new_exception(module, "Error",
                             "The user's mistake: what went wrong (message) and where (file, line, column; empty and 0 "
                             "when unknown).",
                             PyExc_ValueError);
  internal_error_type = new_exception(module, "InternalError", "A bug in Tenon. Please report it.", PyExc_RuntimeError);
  nb::register_exception_translator(translate);
}

}  // namespace tenon::python
