// Portable kernels: made, taken apart to be changed and put together again, run; and services that keep account.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/kernel_generated.h"
#include "loops/loop_tree.h"
#include "runtime/kernel.h"
#include "runtime/portable_kernel.h"

namespace tenon::test {

// The tables of a kernel. parts_of(bytes).bytes() is the same kernel.
struct KernelParts {
  uint32_t sizes, symbols, inputs, outputs;
  std::vector<format::Expr> variables;
  std::vector<format::portable::Buffer> buffers;
  std::vector<format::portable::Loop> loops;
  std::vector<format::portable::Step> steps;
  std::vector<format::portable::Source> sources;
  std::vector<format::portable::Lookup> lookups;
  std::vector<format::portable::Guard> guards;
  std::vector<int64_t> constants;
  std::vector<format::Instruction> code;
  std::vector<std::string> ops;
  std::vector<std::string> nodes;

  std::string bytes() const;
  format::Expr add(std::vector<format::Instruction> expr);  // to the code
};
KernelParts parts_of(const std::string& bytes);

// On the calling thread, with plain memory: each block ends where AddressSanitizer sees it.
class CountingServices : public tenon_services {
 public:
  CountingServices();
  CountingServices(const CountingServices&) = delete;
  ~CountingServices();  // fails the test where something was not released

  int64_t fail_at = -1;                // the number of the allocation that finds no memory
  int64_t largest = int64_t{1} << 24;  // of a block
  int64_t allocations = 0;

 private:
  static void* take(const tenon_services* services, int64_t bytes);
  static void give_back(const tenon_services* services, void* memory);

  std::map<void*, int64_t> blocks_;
};

loops::LoopTree tree_of(std::string_view statements);
runtime::PortableKernel load(const std::string& bytes);

// Arguments of exactly the kernel's sizes, all zero.
struct Arguments {
  Arguments(const runtime::PortableKernel& kernel, const std::vector<int64_t>& sizes);

  template <class T>
  void set(size_t argument, std::initializer_list<T> values) {
    std::memcpy(pointers[argument], values.begin(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> get(size_t argument, size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), pointers[argument], count * sizeof(T));
    return values;
  }

  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<void*> pointers;
};

// "" where all went well.
std::string run(const runtime::PortableKernel& kernel, const Arguments& arguments,
                const std::vector<int64_t>& sizes = {}, int64_t step_limit = runtime::PortableKernel::kNoLimit);

}  // namespace tenon::test
