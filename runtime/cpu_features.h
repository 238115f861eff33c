// What the CPU of this machine can do, as far as compiled code may need it. Names are LLVM's: "avx2", "avx512f", "bmi".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::runtime {

// Whether the CPU has it and the system saves its registers. False for a name that is not known here. The first
// question for "amx-..." asks the system to let this process use tiles.
bool has_feature(std::string_view name);

// Those of "avx2,fma,..." that are not here, in that order. Each may begin with "+"; one that begins with "-" is not
// needed.
std::vector<std::string> missing_features(std::string_view features);

// Whether this is one of level 3 or 4 of x86-64, as its psABI counts them.
bool has_level(int level);

}  // namespace tenon::runtime
