#include "pictures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "profile.h"
#include "units.h"

namespace tenon::cli {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return result;
}

// ---- the graph ------------------------------------------------------------------------------------------------------

namespace {

using runtime::kNone;

constexpr double kBoxWidth = 190, kBoxHeight = 40, kGapX = 24, kGapY = 34, kMargin = 12;
constexpr size_t kLongestLabel = 26;

struct Box {
  std::string label;
  std::string kind;
  std::string title;
  std::string link = {};
  std::vector<size_t> from = {};  // boxes
  size_t row = 0;
  double x = 0, y = 0;
};

std::string shortened(std::string_view text) {
  return text.size() <= kLongestLabel ? std::string(text) : std::string(text.substr(0, kLongestLabel - 3)) + "...";
}

class GraphPicture {
 public:
  explicit GraphPicture(const runtime::TaskGraph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.tasks.size(); ++i) add_task(i);
    for (const runtime::TensorInfo& output : graph.outputs) add_output(output);
  }

  std::string svg() {
    place();
    std::string edges, boxes;
    for (const Box& box : boxes_) {
      for (size_t from : box.from) edges += edge(boxes_[from], box);
      boxes += drawn(box);
    }
    return fmt::format(
        R"(<svg id="graph-picture" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}">{2}{3}</svg>)",
        width_, height_, edges, boxes);
  }

 private:
  void add_task(size_t number) {
    const runtime::TaskNode& task = graph_.tasks[number];
    Box box{std::string(task.name), kind_text(task.kind), fmt::format("task {}: {}", number, task.name),
            fmt::format("#task-{}", number)};
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      const bool is_tasks = task.dependencies[i].task != kNone;
      if (is_tasks) box.from.push_back(task_boxes_[task.dependencies[i].task]);
      if (!is_tasks && graph_.root_of(task.inputs[i]).kind == runtime::SlotKind::Input) {
        box.from.push_back(input_box(graph_.root_of(task.inputs[i]).position));
      }
    }
    task_boxes_.push_back(add(std::move(box)));
  }

  size_t input_box(uint32_t position) {
    input_boxes_.resize(graph_.inputs.size(), kNoBox);
    if (input_boxes_[position] != kNoBox) return input_boxes_[position];
    const runtime::TensorInfo& input = graph_.inputs[position];
    return input_boxes_[position] =
               add({std::string(input.name), type_text(graph_, graph_.slots[input.slot]), "input"});
  }

  void add_output(const runtime::TensorInfo& output) {
    Box box{std::string(output.name), type_text(graph_, graph_.slots[output.slot]), "output"};
    const uint32_t writer = graph_.root_of(output.slot).source.task;
    if (writer != kNone) box.from.push_back(task_boxes_[writer]);
    add(std::move(box));
  }

  size_t add(Box box) {
    std::ranges::sort(box.from);
    box.from.erase(std::unique(box.from.begin(), box.from.end()), box.from.end());
    for (size_t from : box.from) box.row = std::max(box.row, boxes_[from].row + 1);
    boxes_.push_back(std::move(box));
    return boxes_.size() - 1;
  }

  void place() {
    std::vector<size_t> in_row;
    for (const Box& box : boxes_) {
      in_row.resize(std::max(in_row.size(), box.row + 1));
      ++in_row[box.row];
    }
    const size_t widest = in_row.empty() ? 1 : std::ranges::max(in_row);
    width_ = 2 * kMargin + static_cast<double>(widest) * (kBoxWidth + kGapX) - kGapX;
    height_ = 2 * kMargin + static_cast<double>(in_row.size()) * (kBoxHeight + kGapY) - kGapY;
    std::vector<size_t> placed(in_row.size());
    for (Box& box : boxes_) {
      const double row_width = static_cast<double>(in_row[box.row]) * (kBoxWidth + kGapX) - kGapX;
      box.x = (width_ - row_width) / 2 + static_cast<double>(placed[box.row]++) * (kBoxWidth + kGapX);
      box.y = kMargin + static_cast<double>(box.row) * (kBoxHeight + kGapY);
    }
  }

  static std::string edge(const Box& from, const Box& to) {
    const double x1 = from.x + kBoxWidth / 2, y1 = from.y + kBoxHeight, x2 = to.x + kBoxWidth / 2, y2 = to.y;
    const double bend = std::max(kGapY / 2, (y2 - y1) / 3);
    return fmt::format(R"(<path class="edge" d="M{:.0f} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}"/>)", x1, y1,
                       x1, y1 + bend, x2, y2 - bend, x2, y2);
  }

  static std::string drawn(const Box& box) {
    const std::string at = fmt::format("translate({:.0f} {:.0f})", box.x, box.y);
    const std::string shape =
        fmt::format(R"(<g class="box {}" transform="{}"><title>{}</title><rect width="{}" height="{}" rx="6"/>)"
                    R"(<text x="10" y="17">{}</text><text class="small" x="10" y="32">{}</text></g>)",
                    box.link.empty() ? "tensor" : box.kind, at, escaped(box.title), kBoxWidth, kBoxHeight,
                    escaped(shortened(box.label)), escaped(shortened(box.kind)));
    return box.link.empty() ? shape : fmt::format(R"(<a href="{}">{}</a>)", box.link, shape);
  }

  static constexpr size_t kNoBox = ~size_t{0};
  const runtime::TaskGraph& graph_;
  std::vector<Box> boxes_;
  std::vector<size_t> task_boxes_;
  std::vector<size_t> input_boxes_;
  double width_ = 0, height_ = 0;
};

// ---- memory ---------------------------------------------------------------------------------------------------------

constexpr double kPlotHeight = 340, kAxis = 96, kLeastWidth = 960, kTaskWidth = 12;
constexpr size_t kColours = 6;

class MemoryPicture {
 public:
  MemoryPicture(const runtime::TaskGraph& graph, const runtime::Frame& frame)
      : graph_(graph),
        frame_(frame),
        tasks_(std::max<size_t>(graph.tasks.size(), 1)),
        width_(std::max(kLeastWidth, kTaskWidth * static_cast<double>(tasks_))),
        live_(tasks_) {}

  std::string svg() {
    if (frame_.arena_bytes == 0) return "<p id=\"memory-picture\">The program has no temporaries.</p>";
    std::string tensors;
    size_t number = 0;
    for (uint32_t id = 0; id < frame_.offsets.size(); ++id) {
      if (frame_.offsets[id] >= 0) tensors += drawn(id, number++ % kColours);
    }
    return fmt::format(
        R"(<svg id="memory-picture" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}">{2}{3}{4}</svg>)",
        kAxis + width_ + 2 * kMargin, kPlotHeight + 3 * kMargin + 14, axes(), tensors, live_line());
  }

 private:
  double x_of(size_t task) const { return kAxis + width_ * static_cast<double>(task) / static_cast<double>(tasks_); }
  double y_of(int64_t bytes) const {
    return kMargin + kPlotHeight * (1 - static_cast<double>(bytes) / static_cast<double>(frame_.arena_bytes));
  }

  std::string drawn(uint32_t id, size_t colour) {
    const runtime::TensorSlot& slot = graph_.slots[id];
    const int64_t bytes = frame_.elements[id] * static_cast<int64_t>(tenon_dtype_size(slot.dtype));
    const size_t first = slot.source.task, last = std::min<size_t>(slot.last_task, tasks_ - 1);
    for (size_t task = first; task <= last; ++task) live_[task] += bytes;
    const double top = y_of(frame_.offsets[id] + bytes);
    return fmt::format(
        R"(<rect class="lifetime c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{} of {}: {} at {}, tasks {} to {}</title></rect>)",
        colour, x_of(first), top, x_of(last + 1) - x_of(first), std::max(y_of(frame_.offsets[id]) - top, 1.0),
        escaped(type_text(graph_, slot)), escaped(graph_.tasks[first].name), bytes_text(bytes), frame_.offsets[id],
        first, last);
  }

  std::string axes() const {
    const auto line = [&](int64_t bytes, std::string_view style, std::string_view what) {
      return fmt::format(
          R"(<line class="{0}" x1="{1}" x2="{2:.1f}" y1="{3:.1f}" y2="{3:.1f}"/><text class="small" x="{4}" y="{5:.1f}" text-anchor="end">{6}</text>)",
          style, kAxis, kAxis + width_, y_of(bytes), kAxis - 8, y_of(bytes) + 4, what);
    };
    return line(0, "axis", "0") + line(frame_.arena_bytes / 2, "grid", bytes_text(frame_.arena_bytes / 2)) +
           line(frame_.arena_bytes, "axis", bytes_text(frame_.arena_bytes)) +
           fmt::format(R"(<text class="small" x="{}" y="{}">task 0</text>)", kAxis, kPlotHeight + 2 * kMargin + 8) +
           fmt::format(R"(<text class="small" x="{:.1f}" y="{}" text-anchor="end">task {}</text>)", kAxis + width_,
                       kPlotHeight + 2 * kMargin + 8, tasks_ - 1);
  }

  std::string live_line() const {
    std::vector<std::string> points;
    for (size_t task = 0; task < tasks_; ++task) {
      points.push_back(fmt::format("{:.1f},{:.1f}", x_of(task), y_of(live_[task])));
      points.push_back(fmt::format("{:.1f},{:.1f}", x_of(task + 1), y_of(live_[task])));
    }
    return fmt::format(R"(<polyline class="live" points="{}"><title>bytes that live</title></polyline>)",
                       fmt::join(points, " "));
  }

  const runtime::TaskGraph& graph_;
  const runtime::Frame& frame_;
  size_t tasks_;
  double width_;
  std::vector<int64_t> live_;
};

}  // namespace

std::string graph_picture(const runtime::TaskGraph& graph) { return GraphPicture(graph).svg(); }

std::string memory_picture(const runtime::TaskGraph& graph, const runtime::Frame& frame) {
  return MemoryPicture(graph, frame).svg();
}

}  // namespace tenon::cli
