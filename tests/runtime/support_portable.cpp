#include "tests/runtime/support_portable.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tenon::test {
namespace {

namespace portable = format::portable;

template <class T>
std::vector<T> structs(const flatbuffers::Vector<const T*>* from) {
  std::vector<T> result;
  for (const T* each : *from) result.push_back(*each);
  return result;
}

std::vector<std::string> strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* from) {
  std::vector<std::string> result;
  for (const auto* each : *from) result.push_back(each->str());
  return result;
}

}  // namespace

KernelParts parts_of(const std::string& bytes) {
  const portable::Kernel& kernel = *portable::GetKernel(bytes.data());
  return {kernel.sizes(),
          kernel.symbols(),
          kernel.inputs(),
          kernel.outputs(),
          structs(kernel.variables()),
          structs(kernel.buffers()),
          structs(kernel.loops()),
          structs(kernel.steps()),
          structs(kernel.sources()),
          structs(kernel.lookups()),
          structs(kernel.guards()),
          {kernel.constants()->begin(), kernel.constants()->end()},
          structs(kernel.code()),
          strings(kernel.ops()),
          strings(kernel.nodes())};
}

std::string KernelParts::bytes() const {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(portable::CreateKernel(
      builder, sizes, symbols, inputs, outputs, builder.CreateVectorOfStructs(variables),
      builder.CreateVectorOfStructs(buffers), builder.CreateVectorOfStructs(loops),
      builder.CreateVectorOfStructs(steps), builder.CreateVectorOfStructs(sources),
      builder.CreateVectorOfStructs(lookups), builder.CreateVectorOfStructs(guards), builder.CreateVector(constants),
      builder.CreateVectorOfStructs(code), builder.CreateVectorOfStrings(ops), builder.CreateVectorOfStrings(nodes)));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

format::Expr KernelParts::add(std::vector<format::Instruction> expr) {
  const auto first = static_cast<uint32_t>(code.size());
  code.insert(code.end(), expr.begin(), expr.end());
  return {first, static_cast<uint32_t>(expr.size())};
}

CountingServices::CountingServices() {
  parallel_for = [](const tenon_services*, int64_t begin, int64_t end, tenon_stretch stretch, void* context) {
    return stretch(context, begin, end);
  };
  allocate = take;
  release = give_back;
}

CountingServices::~CountingServices() {
  EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " blocks were not released";
  for (const auto& [memory, bytes] : blocks_) std::free(memory);
}

void* CountingServices::take(const tenon_services* services, int64_t bytes) {
  auto& self = *const_cast<CountingServices*>(static_cast<const CountingServices*>(services));  // which a test made
  if (self.allocations++ == self.fail_at || bytes > self.largest) return nullptr;
  void* const memory = std::malloc(static_cast<size_t>(bytes));
  self.blocks_.emplace(memory, bytes);
  return memory;
}

void CountingServices::give_back(const tenon_services* services, void* memory) {
  auto& self = *const_cast<CountingServices*>(static_cast<const CountingServices*>(services));
  EXPECT_EQ(self.blocks_.erase(memory), 1u) << "released what was not allocated";
  std::free(memory);
}

loops::LoopTree tree_of(std::string_view statements) {
  return loops::LoopTree(loops::parse(fmt::format("tenon loops 1\nkernel test {{\n{}\n}}\n", statements)).value());
}

runtime::PortableKernel load(const std::string& bytes) {
  return runtime::PortableKernel::load(std::as_bytes(std::span(bytes)));
}

Arguments::Arguments(const runtime::PortableKernel& kernel, const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < kernel.inputs() + kernel.outputs(); ++i) {
    const auto bytes = kernel.argument_elements(i, sizes.data()) *
                       static_cast<int64_t>(size_of(static_cast<DType>(kernel.argument_dtype(i))));
    pointers.push_back(memory.emplace_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes))).get());
  }
}

std::string run(const runtime::PortableKernel& kernel, const Arguments& arguments, const std::vector<int64_t>& sizes,
                int64_t step_limit) {
  CountingServices services;
  int64_t error[4] = {};
  const int64_t kind = kernel.run(arguments.pointers.data(), sizes.data(), error, &services, step_limit);
  EXPECT_EQ(kind, error[0]);
  return kind == 0 ? "" : kernel.describe(error);
}

}  // namespace tenon::test
