#include "runtime/portable/tables.h"

#include "runtime/structs.h"

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
      variables(span_of(kernel.variables())),
      buffers(span_of(kernel.buffers())),
      loops(span_of(kernel.loops())),
      steps(span_of(kernel.steps())),
      sources(span_of(kernel.sources())),
      lookups(span_of(kernel.lookups())),
      guards(span_of(kernel.guards())),
      constants(span_of(kernel.constants())),
      code(span_of(kernel.code())),
      op_names(strings_of(kernel.ops())),
      nodes(strings_of(kernel.nodes())) {
  for (const std::string_view name : op_names) ops.push_back(find_scalar_op(name));
}

}  // namespace tenon::runtime::portable
