#include "runtime/portable/tables.h"

#include "runtime/flat.h"

namespace tenon::runtime::portable {
namespace {

using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

std::vector<std::string_view> strings_of(const Strings* strings) {
  std::vector<std::string_view> result;
  for (uint32_t i = 0; strings && i < strings->size(); ++i) {
    result.emplace_back(strings->Get(i)->c_str(), strings->Get(i)->size());
  }
  return result;
}

}  // namespace

Tables::Tables(const Kernel& kernel)
    : size_count(kernel.sizes()),
      symbol_count(kernel.symbols()),
      input_count(kernel.inputs()),
      output_count(kernel.outputs()),
      variables(structs(kernel.variables())),
      buffers(structs(kernel.buffers())),
      loops(structs(kernel.loops())),
      steps(structs(kernel.steps())),
      sources(structs(kernel.sources())),
      lookups(structs(kernel.lookups())),
      guards(structs(kernel.guards())),
      code(structs(kernel.code())),
      op_names(strings_of(kernel.ops())),
      nodes(strings_of(kernel.nodes())) {
  constants = numbers(kernel.constants());
  for (const std::string_view name : op_names) ops.push_back(find_scalar_op(name));
}

}  // namespace tenon::runtime::portable
