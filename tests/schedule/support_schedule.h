// Kernels under their default schedule on the CPU backend, against the reference.
#pragma once

#include <string_view>
#include <vector>

#include "loops/loop_tree.h"
#include "machine/machine.h"

namespace tenon::test {

// The default schedule of a graph's kernel, for a machine with 64-byte vectors, caches of 32 KiB and 1 MiB, and two
// threads; and with these instructions.
loops::LoopTree scheduled(std::string_view graph_text, const std::vector<TileIntrinsic>& tiles = {});

// Runs it on random data between fences, the symbol N being `n`: with the parameters as inputs like others, and as
// constants.
void expect_schedule_agrees(std::string_view graph_text, int64_t n = 3);

}  // namespace tenon::test
