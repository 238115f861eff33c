// An Error about a position that is not there: an index out of range. Python sees tenon.PositionError, which is a
// tenon.Error and an IndexError.
#pragma once

#include "support/diagnostic.h"

namespace tenon {

class PositionError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail_position(MessageFor<Args...> format, const Args&... args) {
  throw PositionError({fill_in(format, args...), {}});
}

}  // namespace tenon
