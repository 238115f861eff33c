// Object files of x86-64 (ELF), made executable in this process. No LLVM is needed: a compiled kernel starts without
// it.
//
// Code may call the functions of runtime/symbols.h, and nothing else. Memory is never writable and executable at once.
// Whatever bytes are given, loading stays inside of them and of the memory it takes; what the code does is another
// matter.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::runtime {

class LoadedCode {
 public:
  // Copies what it needs of the object. Throws a StatusError: TENON_UNSUPPORTED for a function that is not there, by
  // its name, TENON_BAD_FILE for bytes that are no such object. With TENON_PERF=1 in the environment, `label` names the
  // code to perf (/tmp/perf-PID.map).
  static std::shared_ptr<const LoadedCode> load(std::string_view object, std::string_view label = "");

  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;

  // Of a global symbol of the object. Throws a StatusError (TENON_BAD_FILE) where it is not there.
  template <class Function>
  Function* function(std::string_view name) const {
    return reinterpret_cast<Function*>(address(name));
  }
  void* address(std::string_view name) const;

 private:
  friend class Linker;
  explicit LoadedCode(size_t size);

  void* memory_;
  size_t size_;
  std::map<std::string, void*, std::less<>> symbols_;
};

}  // namespace tenon::runtime
