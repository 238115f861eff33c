// The plug-in accelerators/loopback, as the build made it, and what tests of it share.
#pragma once

#include <string>

#include "program/program.h"
#include "tests/graph/support_values.h"

namespace tenon::test {

std::string loopback_path();
void load_loopback();    // once or more
long loopback_live();    // blocks of memory, programs and devices that are not freed
long loopback_copies();  // that were submitted, between host and device

std::vector<Tensor> random_inputs(const Graph& graph, int64_t n, Random& random);  // with n for the symbol N
bool same_bits(const Tensor& a, const Tensor& b);
size_t count_of(const Program& program, TaskKind kind);

}  // namespace tenon::test
