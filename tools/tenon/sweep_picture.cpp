#include "sweep_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "html.h"

namespace tenon::cli {
namespace {

// ---- tables ----

std::vector<std::string> heads(const Sweep& sweep) {
  std::vector<std::string> row;
  for (const auto& [option, value] : sweep.points.front().options) row.push_back(option);
  row.insert(row.end(), {sweep.time_unit, "utilization"});
  if (!sweep.area_unit().empty()) row.push_back("area, " + sweep.area_unit());
  row.emplace_back("error");
  return row;
}

std::vector<std::string> cells(const Sweep& sweep, const SweepPoint& point) {
  std::vector<std::string> row;
  for (const auto& [option, value] : point.options) row.push_back(value);
  row.push_back(point.time ? fmt::format("{:.0f}", *point.time) : "");
  row.push_back(point.utilization ? fmt::format("{:.3f}", *point.utilization) : "");
  if (!sweep.area_unit().empty()) row.push_back(point.area ? fmt::format("{:.0f}", point.area->amount) : "");
  row.push_back(point.error);
  return row;
}

std::vector<std::vector<std::string>> rows_of(const Sweep& sweep) {
  std::vector<std::vector<std::string>> rows{heads(sweep)};
  for (const SweepPoint& point : sweep.points) rows.push_back(cells(sweep, point));
  return rows;
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char letter : cell) text += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return text + "\"";
}

// ---- the picture ----

constexpr double kWidth = 860, kHeight = 480, kLeft = 110, kRight = 40, kTop = 46, kBottom = 62;

constexpr std::string_view kStyle =
    "text{font:12px system-ui,sans-serif;fill:#1c2430}.soft{fill:#5a6675}.grid{stroke:#d5dbe3}"
    ".front{fill:none;stroke:#2563b8;stroke-width:1.5}.point{fill:#7fb0e8;stroke:#2563b8}.best{fill:#2563b8}";

std::string label_of(const SweepPoint& point) {
  std::vector<std::string> parts;
  for (const auto& [option, value] : point.options) parts.push_back(option + "=" + value);
  return fmt::format("{}", fmt::join(parts, " "));
}

// Where a number lies: amounts on a logarithmic axis, because options double; points in order on a linear one.
struct Axis {
  double low = 1, high = 10;
  double begin = 0, end = 1;
  bool is_log = true;

  static Axis over(const std::vector<double>& values, double begin, double end, bool is_log = true) {
    const auto [least, most] = std::ranges::minmax(values);
    if (is_log) return {least / 1.15, most * 1.15, begin, end, true};
    return {least - 1, most + 1, begin, end, false};
  }
  double at(double value) const {
    const double part = is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + (end - begin) * part;
  }
  // 1, 2 and 5 times powers of 10.
  std::vector<double> ticks() const {
    std::vector<double> result;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      for (const double factor : {1, 2, 5}) {
        if (power * factor >= low && power * factor <= high) result.push_back(power * factor);
      }
    }
    return result;
  }
};

std::string amount_text(double value) {
  if (value >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

class SweepPicture {
 public:
  explicit SweepPicture(const Sweep& sweep) : sweep_(sweep), has_area_(!sweep.area_unit().empty()) {
    for (const SweepPoint& point : sweep.points) {
      if (point.time && (!has_area_ || point.area)) drawn_.push_back(&point);
    }
  }

  std::string svg() {
    std::string body = text(kLeft, 22, fmt::format("{} on {}", sweep_.model, sweep_.device), "");
    if (drawn_.empty()) return framed(body + text(kLeft, 60, "No point of the grid ran.", ""));
    std::vector<double> times, places;
    for (size_t i = 0; i < drawn_.size(); ++i) {
      times.push_back(*drawn_[i]->time);
      places.push_back(has_area_ ? drawn_[i]->area->amount : static_cast<double>(i + 1));
    }
    y_ = Axis::over(times, kHeight - kBottom, kTop);
    x_ = Axis::over(places, kLeft, kWidth - kRight, has_area_);
    body += axes() + front(places);
    for (size_t i = 0; i < drawn_.size(); ++i) body += point(i, places);
    return framed(body);
  }

 private:
  static std::string framed(const std::string& body) {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"sweep\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\"><style>{2}</style>{3}</svg>\n",
        kWidth, kHeight, kStyle, body);
  }

  static std::string text(double x, double y, const std::string& words, std::string_view more) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>", x, y, more, escaped(words));
  }

  std::string axes() const {
    std::string lines;
    for (const double tick : y_.ticks()) {
      lines += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>", kLeft,
                           kWidth - kRight, y_.at(tick));
      lines += text(kLeft - 8, y_.at(tick) + 4, amount_text(tick), "text-anchor=\"end\"");
    }
    for (const double tick : has_area_ ? x_.ticks() : std::vector<double>()) {
      lines += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x_.at(tick),
                           kTop, kHeight - kBottom);
      lines += text(x_.at(tick), kHeight - kBottom + 18, amount_text(tick), "text-anchor=\"middle\"");
    }
    const std::string across =
        has_area_ ? "area, " + sweep_.area_unit() : "points of the grid, in order (no area is known)";
    return lines + text((kLeft + kWidth - kRight) / 2, kHeight - 14, across, "class=\"soft\" text-anchor=\"middle\"") +
           text(14, kTop - 10, sweep_.time_unit + " of a run", "class=\"soft\"");
  }

  // Whether no other point beats it in both; of equal points, the first.
  bool is_best(size_t i, const std::vector<double>& places) const {
    for (size_t k = 0; has_area_ && k < drawn_.size(); ++k) {
      const double time = *drawn_[k]->time, own = *drawn_[i]->time;
      const bool is_other = time < own || places[k] < places[i] || k < i;
      if (is_other && time <= own && places[k] <= places[i]) return false;
    }
    return has_area_;
  }

  std::string front(const std::vector<double>& places) const {
    std::vector<std::pair<double, double>> best;
    for (size_t i = 0; i < drawn_.size(); ++i) {
      if (is_best(i, places)) best.emplace_back(places[i], *drawn_[i]->time);
    }
    std::ranges::sort(best);
    std::string path;
    for (const auto& [place, time] : best)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_.at(place), y_.at(time));
    return path.empty() ? "" : fmt::format("<path class=\"front\" d=\"{}\"/>", path);
  }

  std::string point(size_t i, const std::vector<double>& places) const {
    const SweepPoint& point = *drawn_[i];
    const std::string label = label_of(point);
    const std::string area = point.area ? fmt::format(", {:.0f} {}", point.area->amount, point.area->unit) : "";
    const double x = x_.at(places[i]), y = y_.at(*point.time);
    const std::string circle = fmt::format(
        "<circle class=\"point{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}: {:.0f} {}{}</title></circle>",
        is_best(i, places) ? " best" : "", x, y, escaped(label), *point.time, sweep_.time_unit, escaped(area));
    if (has_area_ && !is_best(i, places)) return circle;
    const bool is_right = x > 0.7 * kWidth;  // where the label would leave the picture
    return circle + text(is_right ? x - 8 : x + 8, y - 8, label,
                         is_right ? "class=\"soft\" text-anchor=\"end\"" : "class=\"soft\"");
  }

  const Sweep& sweep_;
  bool has_area_;
  std::vector<const SweepPoint*> drawn_;
  Axis x_, y_;
};

}  // namespace

std::string Sweep::area_unit() const {
  for (const SweepPoint& point : points) {
    if (point.area) return point.area->unit;
  }
  return "";
}

std::string table_of(const Sweep& sweep) {
  const std::vector<std::vector<std::string>> rows = rows_of(sweep);
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) line += fmt::format("{:>{}}  ", row[i], widths[i]);
    line += row.back();
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string csv_of(const Sweep& sweep) {
  std::string text;
  for (const auto& row : rows_of(sweep)) {
    std::vector<std::string> line;
    for (const std::string& cell : row) line.push_back(quoted(cell));
    text += fmt::format("{}\n", fmt::join(line, ","));
  }
  return text;
}

std::string svg_of(const Sweep& sweep) { return SweepPicture(sweep).svg(); }

std::string html_of(const Sweep& sweep) {
  std::string body;
  for (const auto& row : rows_of(sweep)) {
    const char* const tag = body.empty() ? "th" : "td";
    body += "<tr>";
    for (const std::string& cell : row) body += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
    body += "</tr>\n";
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>body{{font:15px/1.5 "
      "system-ui,sans-serif;max-width:900px;margin:24px auto;padding:0 16px}}table{{border-collapse:collapse;"
      "font-variant-numeric:tabular-nums}}th,td{{text-align:right;padding:3px 12px;border-bottom:1px solid "
      "#d5dbe3}}</style></head><body>\n<h1>{0} on {1}</h1>\n{2}<table id=\"points\">\n{3}</table>\n</body></html>\n",
      escaped(sweep.model), escaped(sweep.device), svg_of(sweep), body);
}

}  // namespace tenon::cli
