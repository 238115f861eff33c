// The failure of a kernel whose data has an index out of range. Callers that know no more take it for a StatusError.
#pragma once

#include "runtime/error.h"

namespace tenon::runtime {

class OutOfRange : public StatusError {
 public:
  using StatusError::StatusError;
};

}  // namespace tenon::runtime
