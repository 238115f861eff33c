// The sizes that decisions assume for dimensions that are known only when a program runs. Results never depend on them;
// speed and memory do.
#pragma once

#include <cstdint>

namespace tenon::symbolic {

inline constexpr int64_t kTypicalSize = 256;  // A loop: long enough to be worth vectors, threads and packed operands.
inline constexpr int64_t kTypicalBatch = 16;  // A symbol of a model, which mostly is the number of examples in a batch.

}  // namespace tenon::symbolic
