// Compiles C++ text with the system's compiler, and loads it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// A loaded library. Its functions live as long as it does.
class SharedLibrary {
 public:
  // Compiles `source` with $TENON_CXX (a program, or a command with arguments), or else the first of $CXX, c++, g++,
  // clang++ and clang++-19 that exists. Throws an Error with the compiler's messages. Safe to call from several
  // threads. Leaves no files behind.
  static std::shared_ptr<const SharedLibrary> compile(std::string_view source, std::span<const std::string> flags);

  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;

  // An extern "C" function, which must be there.
  template <class Function>
  Function* function(const std::string& name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* address(const std::string& name) const;

  void* handle_;
};

}  // namespace tenon
