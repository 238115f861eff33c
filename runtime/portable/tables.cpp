#include "runtime/portable/tables.h"

#include "runtime/error.h"

namespace tenon::runtime::portable {
namespace {

// FlatBuffers' verifier checks the alignment of a vector, but not that of the structs in it.
template <class T>
std::span<const T> aligned(const void* data, size_t count) {
  if (count == 0) return {};
  if (reinterpret_cast<uintptr_t>(data) % alignof(T) != 0) {
    fail(TENON_BAD_FILE, "a portable kernel is damaged: a table is not aligned");
  }
  return {static_cast<const T*>(data), count};
}

template <class T>
std::span<const T> span_of(const flatbuffers::Vector<const T*>* structs) {
  return structs ? aligned<T>(structs->Data(), structs->size()) : std::span<const T>();
}

std::span<const int64_t> span_of(const flatbuffers::Vector<int64_t>* numbers) {
  return numbers ? aligned<int64_t>(numbers->Data(), numbers->size()) : std::span<const int64_t>();
}

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
