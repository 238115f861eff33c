// What the tests share: bodies by name, layers with random data, and a plain reference.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "streams.h"

namespace atalla {

// The body, or null after a test failure. `rtl` may be missing: see has_rtl.
std::unique_ptr<Body> open_body(const std::string& name, const Machine& machine = {}, const BodyOptions& options = {});

// Says that a test is skipped because the RTL is not built.
#define ATALLA_NEEDS_RTL() \
  if (!has_rtl()) GTEST_SKIP() << "verilator is not installed: `make rtl` builds the body rtl"

// A layer's addresses and the bytes of its memory before it runs.
struct Problem {
  Layer layer;
  std::vector<uint8_t> memory;
};
Problem random_problem(const Machine& machine, Layer layer, uint32_t seed);

// The bytes of the layer's result, by loops that know nothing of tiles but the order of sums.
std::vector<uint8_t> reference_result(const Machine& machine, const Problem& problem);

// The bytes that a body leaves in the result's place.
std::vector<uint8_t> result_of(Body& body, const Problem& problem, RunResult* run = nullptr);

}  // namespace atalla
