// A position that is not there. Python sees tenon.PositionError, which is a tenon.Error and an IndexError.
#pragma once

#include <utility>

#include "support/diagnostic.h"

namespace tenon::python {

class PositionError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail_position(fmt::format_string<Args...> format, Args&&... args) {
  throw PositionError({fmt::format(format, std::forward<Args>(args)...), {}});
}

}  // namespace tenon::python
