// The tuner: measures schedules on a backend, and searches for faster ones with the edits of schedule/edit.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "loops/schedule.h"

namespace tenon {

// A kernel with random inputs. All schedules get the same inputs, and their results must agree.
class Workload {
 public:
  // `sizes`: the values of the symbols of the kernel. Throws an Error if one is missing.
  Workload(const loops::IR& kernel, const symbolic::Bindings& sizes = {}, uint32_t seed = 0);

  double flops() const { return flops_; }
  // The best time of a run, in seconds, of as many runs as fit `budget` seconds, at least two. Stops early if the
  // schedule is slower than `give_up` seconds. The error if results differ from those of the first schedule.
  Result<double> measure(const loops::LoopTree& tree, const Backend& backend, double budget = 0.2,
                         double give_up = 1e9);
  double gflops(double seconds) const { return flops_ / seconds * 1e-9; }

 private:
  void check_results(const std::vector<Tensor>& outputs);

  symbolic::Bindings sizes_;
  std::vector<int64_t> values_;
  double flops_ = 0;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> expected_;  // results of the first schedule
};

struct Schedule {
  loops::LoopTree tree;
  double seconds;
  // The text of edits (schedule/edit.h): of the start of the search, or of candidate number `candidate`.
  std::vector<std::string> edits;
  int candidate = -1;  // -1: the start of the search
};

struct SearchProgress {
  double elapsed;
  int tried;
  int failed;  // schedules that the backend rejected
  double start_seconds;
  double best_seconds;
};

struct SearchOptions {
  double seconds = 10;
  uint32_t seed = 0;
  bool parallel = true;                                      // may make loops parallel
  std::vector<loops::LoopTree> candidates = {};              // other schedules of the kernel to start from
  std::function<bool()> stop = {};                           // called between schedules; true ends the search
  std::function<void(const SearchProgress&)> progress = {};  // called after each schedule, including the first
};

// The fastest schedule found, never slower than `start`. Tries candidates and register tiles for folds first, then
// random edits of the best schedules so far.
Result<Schedule> search(const loops::LoopTree& start, const Backend& backend, Workload& workload,
                        const SearchOptions& options);

}  // namespace tenon
