// What a program does to fit a budget.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fusion/rematerialize.h"
#include "graph/graph.h"

namespace tenon {

// Memory of a caller that counts for the budget of a program: "states (fc.weight 4096)".
struct KeptMemory {
  std::string what;
  int64_t bytes;
};
int64_t bytes_of(std::span<const KeptMemory> kept);  // checked
// The largest of them, for messages: "fc.weight 4096, fc.bias 16 and 3 others".
std::string list_largest(std::vector<KeptMemory> kept);

struct MemoryReport {
  int64_t budget = 0;
  int64_t natural_bytes = 0;  // what a run would take if nothing was computed twice
  int64_t bytes = 0;          // what it takes: temporaries and scratch, and what ProgramOptions::kept says
  std::vector<Recomputation> recomputed = {};
  double work = 1;                // of a run, where 1 is the work of one without a budget: an estimate
  symbolic::Bindings sizes = {};  // that this is for: of each symbol the largest
};

// A table, for people.
std::string to_string(const MemoryReport& report);

}  // namespace tenon
