// Counts of what happened on the lazy device (tenon::lazy::Metrics).
#pragma once

#include <torch/csrc/lazy/core/metrics.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "tenon/lazy.h"

namespace tenon::lazy_device {

using Counts = lazy::Metrics::Counts;

// The calls that PyTorch ran one by one because the lazy device does not record them. PyTorch counts them by name.
inline Counts torch_counts() {
  Counts counts;
  for (const std::string& name : torch::lazy::GetCounterNames()) {
    if (!name.starts_with("aten::") || name == "aten::_local_scalar_dense") continue;  // tensor.item() computes nothing
    if (const int64_t value = torch::lazy::GetCounter(name)->Value(); value != 0) counts[name] = value;
  }
  return counts;
}

class MetricsLog {
 public:
  static MetricsLog& get() {
    static MetricsLog* const log = new MetricsLog;
    return *log;
  }

  // Changes the counts: edit(metrics).
  template <class Edit>
  void count(Edit edit) {
    const std::lock_guard lock(mutex_);
    edit(metrics_);
  }

  // Whether this is the first time in the process that the mistake is counted.
  bool count_mistake(const std::string& text) {
    const std::lock_guard lock(mutex_);
    ++metrics_.internal_errors[text];
    return ++mistakes_[text] == 1;
  }

  lazy::Metrics metrics() {
    const std::lock_guard lock(mutex_);
    lazy::Metrics all = metrics_;
    add_eager_calls(all.fallbacks);
    return all;
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    metrics_ = {};
    before_ = torch_counts();
  }

  // Called before PyTorch's counters are reset to 0: keeps what they count.
  void keep_eager_calls() {
    const std::lock_guard lock(mutex_);
    add_eager_calls(metrics_.fallbacks);
    before_.clear();
  }

 private:
  void add_eager_calls(Counts& counts) const {
    for (const auto& [name, value] : torch_counts()) {
      const auto before = before_.find(name);
      const int64_t since = value - (before == before_.end() ? 0 : before->second);
      if (since > 0) counts[name] += since;
    }
  }

  std::mutex mutex_;
  lazy::Metrics metrics_;
  Counts before_ = torch_counts();  // at the last reset
  Counts mistakes_;                 // of the whole process
};

template <class Edit>
void count(Edit edit) {
  MetricsLog::get().count(edit);
}

inline void count_fallback(const std::string& name) {
  count([&](lazy::Metrics& metrics) { ++metrics.fallbacks[name]; });
}

// ---- as a table -----------------------------------------------------------------------------------------------------

using MetricRows = std::vector<std::pair<std::string, std::string>>;

inline void add_rows(MetricRows& rows, const std::string& name, const Counts& counts) {
  int64_t total = 0;
  for (const auto& [key, value] : counts) total += value;
  rows.emplace_back(name, std::to_string(total));
  for (const auto& [key, value] : counts) rows.emplace_back("  " + key, std::to_string(value));
}

inline std::string table_of(const lazy::Metrics& metrics) {
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.2f", metrics.compile_seconds);
  MetricRows rows = {{"compiles", std::to_string(metrics.compiles)},
                     {"compile_seconds", seconds},
                     {"runs", std::to_string(metrics.runs)},
                     {"hits", std::to_string(metrics.hits)}};
  add_rows(rows, "fallbacks", metrics.fallbacks);
  rows.emplace_back("torchscript_runs", std::to_string(metrics.torchscript_runs));
  add_rows(rows, "refused", metrics.refused);
  add_rows(rows, "internal_errors", metrics.internal_errors);
  rows.emplace_back("reused_bytes", std::to_string(metrics.reused_bytes));
  rows.emplace_back("copied_bytes", std::to_string(metrics.copied_bytes));
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : rows) {
    text += (text.empty() ? "" : "\n") + name + std::string(width - name.size() + 2, ' ') + value;
  }
  return text;
}

}  // namespace tenon::lazy_device
