// This machine and what Tenon was built with, for `python -m tenon doctor`.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "codegen/target.h"
#include "codegen/version.h"

namespace tenon::python {
namespace {

std::map<std::string, std::string> host() {
  const codegen::Target target = codegen::find_target("native");
  return {{"llvm", codegen::llvm_version()},
          {"cpu", codegen::level_of(target)},
          {"features", codegen::needed_features(target)},
          {"vector_bytes", std::to_string(target.vector_bytes)}};
}

}  // namespace

void bind_host(nb::module_& module) {
  module.def(
      "host", host,
      "The version of LLVM inside of Tenon (llvm), and the CPU that code is made for: its name (cpu), its features "
      "and the bytes of its vectors (vector_bytes).");
}

}  // namespace tenon::python
