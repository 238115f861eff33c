#include "train_metrics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>

#include "html.h"
#include "support/diagnostic.h"
#include "support/file.h"

namespace tenon::cli {

// ---- CSV ------------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kHeader = "kind,epoch,step,loss,validation_loss,accuracy,samples_per_second";

std::string text_of(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

std::string line_of(const MetricRow& row) {
  return fmt::format("{},{},{},{},{},{},{}\n", row.is_epoch ? "epoch" : "step", row.epoch, row.step, row.loss,
                     text_of(row.validation_loss), text_of(row.accuracy), text_of(row.samples_per_second));
}

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional<T>(value) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::optional<MetricRow> parse_row(std::string_view line) {
  const std::vector<std::string_view> cells = split(line, ',');
  if (cells.size() != 7 || (cells[0] != "step" && cells[0] != "epoch")) return {};
  const auto epoch = number_in<int64_t>(cells[1]), step = number_in<int64_t>(cells[2]);
  const auto loss = number_in<double>(cells[3]);
  if (!epoch || !step || !loss) return {};
  return MetricRow{
      cells[0] == "epoch",        *epoch, *step, *loss, number_in<double>(cells[4]), number_in<double>(cells[5]),
      number_in<double>(cells[6])};
}

// A line that a killed process did not finish is left out.
std::vector<MetricRow> rows_until(const std::string& path, int64_t step) {
  const FileContent file = read_file(path).value();
  const std::string_view text = file.text();
  std::vector<std::string_view> lines = split(text.substr(0, text.rfind('\n') + 1), '\n');
  if (lines[0] != kHeader) fail_at({path}, "this is no file of metrics, which would begin with '{}'", kHeader);
  std::vector<MetricRow> rows;
  for (std::string_view line : std::span(lines).subspan(1)) {
    if (const std::optional<MetricRow> row = parse_row(line); row && row->step <= step) rows.push_back(*row);
  }
  return rows;
}

}  // namespace

MetricFile::MetricFile(std::string path, int64_t step) : path_(std::move(path)) {
  if (step > 0 && std::filesystem::exists(path_)) kept_ = rows_until(path_, step);
  std::string text = fmt::format("{}\n", kHeader);
  for (const MetricRow& row : kept_) text += line_of(row);
  write_file(path_, text).value();
  file_ = std::fopen(path_.c_str(), "a");
  if (!file_) fail_at({path_}, "cannot write: {}", std::generic_category().message(errno));
}

MetricFile::~MetricFile() {
  if (file_) std::fclose(file_);
}

void MetricFile::add(const MetricRow& row) { std::fputs(line_of(row).c_str(), file_); }

void MetricFile::flush() {
  if (std::fflush(file_) != 0 || std::ferror(file_))
    fail_at({path_}, "cannot write: {}", std::generic_category().message(errno));
}

// ---- the picture ----------------------------------------------------------------------------------------------------

namespace {

constexpr double kWidth = 760, kHeight = 380, kLeft = 70, kRight = 20, kTop = 40, kBottom = 46;
constexpr size_t kMostPoints = 600;

constexpr std::string_view kStyle =
    "text{font:12px system-ui,sans-serif;fill:#444}.title{font-size:15px;fill:#222}.grid{stroke:#e4e4e4}"
    ".axis{stroke:#888}polyline{fill:none;stroke-width:1.6}.steps{stroke:#9bbbe0;stroke-width:1}"
    ".epochs{stroke:#1f5fa8}.validation{stroke:#d1622b}";

struct Point {
  double step;
  double loss;
};
using Curve = std::vector<Point>;

// At most so many points: each is the mean of its neighbours.
Curve thinned(const Curve& curve) {
  const size_t group = (curve.size() + kMostPoints - 1) / kMostPoints;
  if (group <= 1) return curve;
  Curve result;
  for (size_t start = 0; start < curve.size(); start += group) {
    const auto part = std::span(curve).subspan(start, std::min(group, curve.size() - start));
    Point mean = {};
    for (const Point& point : part) mean = {mean.step + point.step, mean.loss + point.loss};
    const auto count = static_cast<double>(part.size());
    result.push_back({mean.step / count, mean.loss / count});
  }
  return result;
}

// 1, 2 or 5 times a power of ten, so that a few of them make up the range.
double tick_step(double range) {
  const double rough = range / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

class LossPicture {
 public:
  explicit LossPicture(const std::vector<MetricRow>& rows) {
    for (const MetricRow& row : rows) {
      if (!std::isfinite(row.loss)) continue;
      (row.is_epoch ? epochs_ : steps_).push_back({static_cast<double>(row.step), row.loss});
      if (row.validation_loss && std::isfinite(*row.validation_loss))
        validation_.push_back({static_cast<double>(row.step), *row.validation_loss});
    }
    steps_ = thinned(steps_);
    measure();
  }

  std::string svg(std::string_view title) const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img">)"
        "\n<style>{2}</style>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
        R"(<text class="title" x="{3}" y="24">{4}</text>)"
        "\n{5}{6}{7}{8}{9}</svg>\n",
        kWidth, kHeight, kStyle, kLeft, escaped(title), axes(), line("steps", steps_), line("epochs", epochs_),
        line("validation", validation_), legend());
  }

 private:
  void measure() {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Curve* curve : {&steps_, &epochs_, &validation_}) {
      for (const Point& point : *curve) {
        low = std::min(low, point.loss);
        high = std::max(high, point.loss);
        last_ = std::max(last_, point.step);
      }
    }
    if (low > high) return;
    low_ = std::min(low, 0.0);
    high_ = high > low_ ? high : low_ + 1;
  }

  double x_of(double step) const { return kLeft + (kWidth - kLeft - kRight) * step / last_; }
  double y_of(double loss) const { return kTop + (kHeight - kTop - kBottom) * (1 - (loss - low_) / (high_ - low_)); }

  std::string axes() const {
    std::string text;
    const double loss_step = tick_step(high_ - low_), step_step = std::max(1.0, tick_step(last_));
    for (double loss = std::ceil(low_ / loss_step) * loss_step; loss <= high_; loss += loss_step) {
      text += fmt::format(
          "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
          kLeft, kWidth - kRight, y_of(loss), kLeft - 8, y_of(loss) + 4, loss);
    }
    for (double step = 0; step <= last_; step += step_step) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n", x_of(step),
                          kHeight - kBottom + 18, step);
    }
    return text + fmt::format(
                      "<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>"
                      "<text x=\"{1}\" y=\"{3}\" text-anchor=\"end\">step</text>\n",
                      kLeft, kWidth - kRight, kHeight - kBottom, kHeight - 10);
  }

  std::string line(std::string_view style, const Curve& curve) const {
    if (curve.empty()) return "";
    std::vector<std::string> points;
    for (const Point& point : curve) points.push_back(fmt::format("{:.1f},{:.1f}", x_of(point.step), y_of(point.loss)));
    return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", style, fmt::join(points, " "));
  }

  std::string legend() const {
    std::string text;
    double y = kTop + 10;
    const auto entry = [&](std::string_view style, std::string_view name, const Curve& curve) {
      if (curve.empty()) return;
      text += fmt::format("<polyline class=\"{0}\" points=\"{1},{2} {3},{2}\"/><text x=\"{4}\" y=\"{5}\">{6}</text>\n",
                          style, kWidth - 190, y, kWidth - 160, kWidth - 152, y + 4, name);
      y += 18;
    };
    entry("steps", "loss of a step", steps_);
    entry("epochs", "mean of an epoch", epochs_);
    entry("validation", "validation", validation_);
    return text;
  }

  Curve steps_, epochs_, validation_;
  double last_ = 1, low_ = 0, high_ = 1;
};

}  // namespace

std::string loss_picture(std::string_view title, const std::vector<MetricRow>& rows) {
  return LossPicture(rows).svg(title);
}

}  // namespace tenon::cli
