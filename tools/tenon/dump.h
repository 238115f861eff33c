// tenon run --dump: what tasks write, and values inside of the segments of devices.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "outcomes.h"
#include "runnable.h"

namespace tenon::cli {

// Copies what tasks write, as they write it: later tasks use the memory again. What a device computed is copied to the
// host. A value inside of a segment that a device compiled whole is in no task: the device runs the segment once more,
// with such values as results.
class Dump {
 public:
  // Patterns of the names of tasks, or of values inside of segments. Throws an Error for a pattern that matches
  // nothing.
  Dump(const std::vector<std::string>& patterns, const Runnable& model);

  void observe(runtime::ContextOptions& options);
  std::vector<Outcome> take() { return std::move(outcomes_); }

 private:
  bool matches(std::string_view name) const;
  std::vector<std::string> names() const;  // of all that can be dumped
  bool has_wanted_values(uint32_t task) const;
  void add(const runtime::Context& context, uint32_t task);
  void launch(const runtime::Context& context, uint32_t task, const tenon_launch& launch);
  void add_values(uint32_t task, const std::vector<std::vector<std::byte>>& inputs, const tenon_launch& launch);
  void add_outcome(const std::string& name, Tensor tensor);

  const std::vector<std::string>& patterns_;
  const Runnable& model_;
  std::vector<Outcome> outcomes_;
};

}  // namespace tenon::cli
