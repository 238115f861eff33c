// Links object files (ELF of x86-64 and of AArch64) into this process, without LLVM.
//
// Code may call only the functions of runtime/symbols.h. No memory is writable and executable at the same time. Loading
// stays inside the given bytes and its own memory, whatever the bytes are. The loaded code itself is not restricted.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::runtime {

struct LinkTarget;  // link_target.h

class LoadedCode {
 public:
  // Copies the parts of the object that it needs. Throws a StatusError: TENON_UNSUPPORTED with the name of a function
  // that does not exist, TENON_BAD_FILE for bytes that are not such an object. With TENON_PERF=1 in the environment,
  // perf shows the code as `label` (/tmp/perf-PID.map).
  static std::shared_ptr<const LoadedCode> load(std::string_view object, std::string_view label = "");

  // For tests: links an object of any architecture. Its code runs only on a machine of that architecture.
  static std::shared_ptr<const LoadedCode> link(std::string_view object, const LinkTarget& target);

  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;

  // The address of a global symbol. Throws a StatusError (TENON_BAD_FILE) if the object lacks it.
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
