#include "support/diagnostic.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "bind.h"
#include "support/position_error.h"
#include "support/private_folder.h"
#include "support/warning.h"

namespace tenon::python {
namespace {

// They live as long as the process: the module may be gone when a late error is translated.
nb::handle error_type;
nb::handle position_error_type;
nb::handle internal_error_type;

nb::handle new_exception(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string qualified = std::string("tenon.") + name;
  nb::object type = nb::steal(PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr));
  if (!type.is_valid()) nb::raise_python_error();
  module.attr(name) = type;
  return type.release();
}

// An error that knows no place of its own happened where Python called.
void raise(const Error& error, nb::handle type) {
  Diagnostic diagnostic = error.diagnostic();
  if (!diagnostic.where.known()) diagnostic.where = python_location();
  const nb::object exception = type(diagnostic.text());
  exception.attr("message") = diagnostic.message;
  exception.attr("file") = diagnostic.where.file;
  exception.attr("line") = diagnostic.where.line;
  exception.attr("column") = diagnostic.where.column;
  PyErr_SetObject(type.ptr(), exception.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PositionError& error) {
    raise(error, position_error_type);
  } catch (const Error& error) {
    raise(error, error_type);
  } catch (const InternalError& error) {
    PyErr_SetString(internal_error_type.ptr(), error.what());
  }
}

// Code between the user's and ours: Tenon's own Python, what it calls itself through, and PyTorch's where it calls
// Tenon.
bool is_between(nb::handle frame) {
  const nb::object name = frame.attr("f_globals").attr("get")("__name__", "");
  const auto module = nb::isinstance<nb::str>(name) ? nb::cast<std::string>(name) : std::string();
  return std::ranges::any_of(std::array{"tenon", "torch", "functools"}, [&](const std::string& package) {
    return module == package || module.starts_with(package + ".");
  });
}

// As the user would write it: relative to the folder he works in.
std::string shown_path(const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path here = std::filesystem::current_path(ignored);
  const std::string relative = std::filesystem::path(file).lexically_relative(here).string();
  return relative.empty() || relative.starts_with("..") ? file : relative;
}

}  // namespace

std::string class_of(nb::handle object) {
  const auto name = nb::cast<std::string>(object.type().attr("__qualname__"));
  const bool starts_with_vowel = !name.empty() && std::string_view("aeioAEIO").find(name[0]) != std::string_view::npos;
  return (starts_with_vowel ? "an " : "a ") + name;
}

std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  return nb::cast<std::string>(text);
}

std::string shortened(std::string text) {
  constexpr size_t kShown = 60;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

Location python_location() {
  nb::object frame = nb::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  if (!frame.is_valid()) return {};
  while (!frame.is_none() && is_between(frame)) frame = frame.attr("f_back");
  if (frame.is_none()) return {};
  const auto file = nb::cast<std::string>(frame.attr("f_code").attr("co_filename"));
  return {shown_path(file), nb::cast<int>(frame.attr("f_lineno")), 0};
}

void bind_diagnostic(nb::module_& module) {
  error_type =
      new_exception(module, "Error",
                    "A mistake of the user: what went wrong (message), and where (file, line, column; column is "
                    "0 where it is unknown).",
                    PyExc_ValueError);
  const nb::tuple bases = nb::make_tuple(error_type, nb::handle(PyExc_IndexError));
  position_error_type =
      new_exception(module, "PositionError", "An Error about a position that is not there.", bases.ptr());
  internal_error_type = new_exception(module, "InternalError", "A bug of Tenon. Please report it.", PyExc_RuntimeError);
  nb::register_exception_translator(translate);
  module.def(
      "fail",
      [](const std::string& message, const std::string& file, int line) { throw Error({message, {file, line, 0}}); },
      nb::arg("message"), nb::arg("file") = "", nb::arg("line") = 0,
      nb::sig("def fail(message: str, file: str = '', line: int = 0) -> NoReturn"),
      "Raises a tenon.Error, at the place where the user called Tenon unless another is given.");
  module.def(
      "warn_once", [](const std::string& text) { warn_once(text); }, nb::arg("text"),
      "Prints a warning on standard error the first time that it is given, and counts it each time.");
  module.def(
      "warnings",
      [] {
        std::vector<std::pair<std::string, int64_t>> given;
        for (const Warning& warning : warnings()) given.emplace_back(warning.text, warning.count);
        return given;
      },
      "What warn_once was given in this process, and how often.");
  module.def(
      "make_private_folder", [](const std::string& path) { return PrivateFolder::create(path).has_value(); },
      nb::arg("path"),
      "Makes a folder, and the missing ones above it, for this user alone. False where that fails. Raises an Error "
      "where "
      "there is one that others can write to.");
  module.def(
      "has_private_file",
      [](const std::string& path, const std::string& name) {
        const std::optional<PrivateFolder> folder = PrivateFolder::open(path);
        return folder && folder->open_file(name).has_value();
      },
      nb::arg("folder"), nb::arg("name"),
      "Whether the folder has a regular file of the name. Raises an Error where others can write to one of the two.");

  nb::class_<Location>(module, "Location", "A place in a text: a graph file, or a model's source.")
      .def_ro("file", &Location::file)
      .def_ro("line", &Location::line, "From 1; 0 where it is unknown.")
      .def_ro("column", &Location::column, "From 1; 0 where it is unknown.")
      .def(
          "__eq__", [](const Location& self, const Location& other) { return self == other; }, nb::is_operator())
      .def("__str__", [](const Location& self) { return to_string(self); })
      .def("__repr__", [](const Location& self) { return fmt::format("<tenon.Location {}>", to_string(self)); });
}

}  // namespace tenon::python
