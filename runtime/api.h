// Inside of the C interface: its objects, and the wrapper that turns what is thrown into a status.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/kernel_call.h"

namespace tenon::runtime {

// What tenon_tensor_info points to.
struct Description {
  std::string name;
  std::vector<std::string> texts;
  std::vector<tenon_dim> dims;
  tenon_dtype dtype;
};

// A program with names that end in zero. Its contexts keep it.
struct NamedProgram {
  std::shared_ptr<const LoadedProgram> program;
  std::string entry;
  std::string name;
  std::vector<Description> inputs;
  std::vector<Description> outputs;
  std::vector<std::string> symbols;
  std::vector<std::string> tasks;
};

// What kernels of a program are called and take: made when somebody asks.
struct NamedKernel {
  CallableKernel kernel;
  std::string device;
  std::vector<Description> arguments;  // inputs, then outputs
};

// Calls the body, and keeps the text of what it throws for tenon_error(). A body captures its arguments by value: a
// reference would be one more load at each use.
tenon_status guarded_call(void (*call)(const void* body), const void* body) noexcept;

template <class Body>
tenon_status guarded(const Body& body) noexcept {
  return guarded_call([](const void* self) { (*static_cast<const Body*>(self))(); }, &body);
}

// Each throws a StatusError.
void demand(bool condition, const char* what);
void demand_below(size_t number, size_t count, const char* what);
void check_tensor(const tenon_tensor& tensor);
Description describe(const LoadedProgram& program, std::string name, uint32_t slot);

}  // namespace tenon::runtime

struct tenon_program {
  std::shared_ptr<const std::vector<std::shared_ptr<const tenon::runtime::NamedProgram>>> entries;  // of its file
  std::shared_ptr<const tenon::runtime::NamedProgram> shared;                                       // one of them
  mutable std::once_flag names_kernels = {};
  mutable std::vector<tenon::runtime::NamedKernel> kernels = {};
};

struct tenon_context {
  std::shared_ptr<const tenon::runtime::NamedProgram> owner;
  tenon::runtime::Context context;
};
