// Object files of x86-64 (ELF), made executable in this process. No LLVM is needed: a cached kernel starts without it.
//
// Code may call the functions of runtime/functions.h and a few of the C library (memcpy, fmod, ...), and nothing else.
// Memory is never writable and executable at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenon::codegen {

class LoadedCode {
 public:
  // Throws an Error for an unknown symbol, by its name, and for a file that is not such an object. With TENON_PERF=1 in
  // the environment, `label` names the code to perf (/tmp/perf-PID.map).
  static std::shared_ptr<const LoadedCode> load(std::string_view object, std::string_view label = "");

  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;

  // Of a global symbol of the object, which must be there.
  template <class Function>
  Function* function(const std::string& name) const {
    return reinterpret_cast<Function*>(address(name));
  }
  void* address(const std::string& name) const;

 private:
  friend class Linker;
  LoadedCode(void* memory, size_t size) : memory_(memory), size_(size) {}

  void* memory_;
  size_t size_;
  std::unordered_map<std::string, void*> symbols_;
};

}  // namespace tenon::codegen
