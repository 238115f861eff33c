// What the tests of emitted C++ share.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpp/cpp.h"

namespace tenon::test {

inline constexpr const char* kCompilers[] = {"g++", "clang++-19"};

// Sets a variable of the environment for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Without optimization, which takes the compiler three times as long: what it does to the text is its own affair, and
// some tests ask for it.
inline std::vector<std::unique_ptr<Compiled>> compile_all(const std::vector<loops::LoopTree>& trees,
                                                          const CppOptions& options = {.optimization = 0,
                                                                                       .flags = {}}) {
  std::vector<const loops::LoopTree*> pointers;
  for (const loops::LoopTree& tree : trees) pointers.push_back(&tree);
  return compile_cpp(pointers, options);
}

}  // namespace tenon::test
