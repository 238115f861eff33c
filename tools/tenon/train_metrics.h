// What a training measures of itself: a row for each step and for each epoch, as CSV and as a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::cli {

struct MetricRow {
  bool is_epoch = false;  // else of a step
  int64_t epoch = 0;      // from 1
  int64_t step = 0;       // from 1, over all epochs
  double loss = 0;        // of an epoch: the mean over its samples
  std::optional<double> validation_loss = {};
  std::optional<double> accuracy = {};  // in [0, 1], of the validation
  std::optional<double> samples_per_second = {};
};

// A file with a line for each row. What has been flushed stays when the process is killed.
class MetricFile {
 public:
  // Rows of an earlier run up to a step are kept; with `step` 0 the file is made anew. Throws an Error for a file that
  // has something else in it.
  MetricFile(std::string path, int64_t step);
  ~MetricFile();
  MetricFile(const MetricFile&) = delete;

  const std::vector<MetricRow>& kept() const { return kept_; }
  void add(const MetricRow& row);
  void flush();  // throws an Error where the disk is full

 private:
  std::string path_;
  std::vector<MetricRow> kept_;
  std::FILE* file_ = nullptr;
};

// The loss over the steps, and of each epoch that of the validation. A whole file, with its own colours.
std::string loss_picture(std::string_view title, const std::vector<MetricRow>& rows);

}  // namespace tenon::cli
