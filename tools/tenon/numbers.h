// Numbers on the command line: what an option takes, and the error for anything else. CLI11's own checks let "nan"
// through, and do not say which numbers are allowed.
#pragma once

#include <CLI/CLI.hpp>

#include "support/checked.h"

namespace tenon::cli {

// "--epochs: '0' is no integer from 1 to 1000000". For `option->check(...)`.
CLI::Validator integer_from(int64_t low, int64_t high);
CLI::Validator number_from(double low, double high);

inline CLI::Validator any_integer() { return integer_from(kInt64Min, kInt64Max); }

}  // namespace tenon::cli
