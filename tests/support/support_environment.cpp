#include "tests/support/support_environment.h"

#include <cstdlib>

namespace tenon::testing {
namespace {

void set(const std::string& name, const char* value) {
  value ? ::setenv(name.c_str(), value, 1) : ::unsetenv(name.c_str());
}

// Tests leave the user's cache alone.
const int kWithoutCache = ::setenv("TENON_CACHE", "off", 0);

}  // namespace

WithVariable::WithVariable(std::string name, const char* value) : name_(std::move(name)) {
  if (const char* const before = std::getenv(name_.c_str())) before_ = before;
  set(name_, value);
}

WithVariable::~WithVariable() { set(name_, before_ ? before_->c_str() : nullptr); }

}  // namespace tenon::testing
