// The features of this machine's CPU that compiled code may need, by LLVM's names: "avx2", "avx512f", "dotprod". Code
// for other architectures than x86 needs the architecture as well: "aarch64", "wasm32".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::runtime {

// Whether the CPU has the feature and the system saves its registers. False for an unknown name. The first query of an
// "amx-..." feature asks the system for permission to use tiles.
bool has_feature(std::string_view name);

// The features of a list "avx2,fma,..." that this CPU lacks, in order. A "+" before a name is ignored; a name with "-"
// is not required.
std::vector<std::string> missing_features(std::string_view features);

// Whether this CPU supports level 3 or 4 of x86-64, as defined in the psABI.
bool has_level(int level);

}  // namespace tenon::runtime
