// Variables of the environment, for tests.
#pragma once

#include <optional>
#include <string>

namespace tenon::testing {

// Sets a variable (null: removes it), and puts back what was there when it goes.
class WithVariable {
 public:
  WithVariable(std::string name, const char* value);
  WithVariable(const WithVariable&) = delete;
  ~WithVariable();

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace tenon::testing
