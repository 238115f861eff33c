// The tuner: measures schedules on a backend, and searches for faster ones with the public edits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "loops/schedule.h"

namespace tenon {

// A kernel with data to run on: the same random inputs for every schedule, whose results must agree.
class Workload {
 public:
  // `sizes` gives the symbols of the kernel their values. Throws an Error where one is missing.
  Workload(const loops::IR& kernel, const symbolic::Bindings& sizes = {}, uint32_t seed = 0);

  double flops() const { return flops_; }
  // The best time of one run, in seconds: as many runs as fit `budget` seconds, at least two. Stops early when it is
  // clear that it is slower than `give_up`. A schedule whose results differ from the first one's is an Error.
  Result<double> measure(const loops::LoopTree& tree, const Backend& backend, double budget = 0.2,
                         double give_up = 1e9);
  double gflops(double seconds) const { return flops_ / seconds * 1e-9; }

 private:
  void check_results(const std::vector<Tensor>& outputs);

  symbolic::Bindings sizes_;
  std::vector<int64_t> values_;
  double flops_ = 0;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> expected_;  // of the first schedule that ran
};

struct Schedule {
  loops::LoopTree tree;
  double seconds;
  std::vector<std::string> edits;  // from the tree that it began with (see schedule/edit.h): the search's start,
  int candidate = -1;              // or this of the candidates
};

struct SearchProgress {
  double elapsed;
  int tried;
  int failed;  // schedules that the backend refused
  double start_seconds;
  double best_seconds;
};

struct SearchOptions {
  double seconds = 10;
  uint32_t seed = 0;
  bool parallel = true;                                      // may use threads
  std::vector<loops::LoopTree> candidates = {};              // other trees of the same kernel to begin with
  std::function<bool()> stop = {};                           // asked between schedules: the best so far is enough
  std::function<void(const SearchProgress&)> progress = {};  // after each schedule, the first one too
};

// The fastest schedule found: at least as fast as `start`. The candidates and register tiles for folds are tried first,
// then random edits of the best so far.
Result<Schedule> search(const loops::LoopTree& start, const Backend& backend, Workload& workload,
                        const SearchOptions& options);

}  // namespace tenon
