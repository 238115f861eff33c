#include "runtime/cpu_features.h"

// What the page offers (js/tenon.mjs): whether the engine has relaxed SIMD.
extern "C" __attribute__((import_module("tenon"), import_name("has_relaxed_simd"))) bool tenon_has_relaxed_simd();

namespace tenon::runtime {

bool has_feature(std::string_view name) {
  return name == "wasm32" || (name == "relaxed-simd" && tenon_has_relaxed_simd());
}

}  // namespace tenon::runtime
