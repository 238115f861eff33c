#include "roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "html.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr double kWidth = 860, kHeight = 400, kLeft = 90, kRight = 30, kTop = 30, kBottom = 50;

int64_t busier_way(const LayerCost& layer) { return std::max(layer.load_bytes, layer.store_bytes); }

// Multiplications for each byte of the busier way, and in each cycle.
double intensity(const LayerCost& layer) {
  return static_cast<double>(layer.macs) / static_cast<double>(std::max<int64_t>(busier_way(layer), 1));
}
double rate(const LayerCost& layer) { return static_cast<double>(layer.macs) / *layer.cycles; }

// Both axes are logarithmic. The roof is the DMA's slope, then the array's peak.
class RooflinePicture {
 public:
  explicit RooflinePicture(std::vector<const LayerCost*> layers) : layers_(std::move(layers)) {
    peak_ = static_cast<double>(layers_[0]->peak);
    dma_bytes_ = static_cast<double>(busier_way(*layers_[0])) / layers_[0]->dma_cycles;
    low_x_ = high_x_ = ridge();
    low_y_ = peak_ / 8;
    for (const LayerCost* layer : layers_) {
      low_x_ = std::min(low_x_, intensity(*layer));
      high_x_ = std::max(high_x_, intensity(*layer));
      low_y_ = std::min(low_y_, rate(*layer));
    }
    low_x_ /= 2, high_x_ *= 2, low_y_ /= 2, high_y_ = peak_ * 1.6;
  }

  std::string svg() const {
    std::string points;
    for (const LayerCost* layer : layers_) points += point(*layer);
    const std::string roof =
        fmt::format("<path class=\"roof\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", x_of(low_x_),
                    y_of(low_x_ * dma_bytes_), x_of(ridge()), y_of(peak_), x_of(high_x_), y_of(peak_));
    return fmt::format(
        "<svg class=\"roofline\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">{2}{3}{4}</svg>",
        kWidth, kHeight, axes(), roof, points);
  }

 private:
  double ridge() const { return peak_ / dma_bytes_; }
  double x_of(double value) const {
    return kLeft + (kWidth - kLeft - kRight) * std::log(value / low_x_) / std::log(high_x_ / low_x_);
  }
  double y_of(double value) const {
    const double part = std::log(std::max(value, low_y_) / low_y_) / std::log(high_y_ / low_y_);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  }

  std::string axes() const {
    const auto line = [&](double value, const std::string& words) {
      return fmt::format(
          "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"small\" x=\"{3}\" "
          "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
          kLeft, kWidth - kRight, y_of(value), kLeft - 8, y_of(value) + 4, words);
    };
    const std::string across = fmt::format(
        "multiplications per byte of the busier way of the DMA ({:.0f} bytes in a cycle); the roof bends at {:.3g}",
        dma_bytes_, ridge());
    return line(peak_, fmt::format("{:.0f}", peak_)) + line(peak_ / 2, fmt::format("{:.0f}", peak_ / 2)) +
           line(peak_ / 8, fmt::format("{:.0f}", peak_ / 8)) +
           fmt::format("<text class=\"small\" x=\"{}\" y=\"{}\">multiplications per cycle</text>", kLeft, kTop - 12) +
           fmt::format("<text class=\"small\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                       (kLeft + kWidth - kRight) / 2, kHeight - 14, across);
  }

  std::string point(const LayerCost& layer) const {
    return fmt::format(
        "<circle class=\"layer\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}, {}: {:.0f} cycles, {:.0f}% of the "
        "array</title></circle>",
        x_of(intensity(layer)), y_of(rate(layer)), escaped(layer.name), escaped(layer.shape), *layer.cycles,
        100 * *layer.utilization());
  }

  std::vector<const LayerCost*> layers_;
  double peak_ = 0, dma_bytes_ = 0;
  double low_x_ = 0, high_x_ = 0, low_y_ = 0, high_y_ = 0;
};

std::string row(const LayerCost& layer) {
  const std::string cycles = layer.cycles ? fmt::format("{:.0f}", *layer.cycles) : "?";
  const std::string part = layer.cycles ? fmt::format("{:.1f}%", 100 * layer.limit() / *layer.cycles) : "?";
  const std::string used = layer.utilization() ? fmt::format("{:.1f}%", 100 * *layer.utilization()) : "?";
  const std::string place = layer.location.known() ? to_string(layer.location) : "";
  return fmt::format(
      "<tr><td title=\"{}\">{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td "
      "class=\"number\">{:.0f}</td><td class=\"number\">{:.0f}</td><td>{}</td><td class=\"number\">{}</td><td "
      "class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
      escaped(place), escaped(layer.name), escaped(layer.shape), layer.macs,
      bytes_text(layer.load_bytes + layer.store_bytes), layer.array_cycles, layer.dma_cycles, layer.bound(), cycles,
      part, used);
}

std::string device_section(const std::string& device, const std::vector<const LayerCost*>& layers) {
  std::vector<const LayerCost*> measured;
  std::vector<LayerCost> all;
  std::string rows;
  for (const LayerCost* layer : layers) {
    if (layer->cycles && layer->macs > 0) measured.push_back(layer);
    all.push_back(*layer);
    rows += row(*layer);
  }
  const std::optional<double> mean = mean_utilization(all);
  const std::string sum = mean ? fmt::format("All layers together reach {:.1f}% of the array's peak.", 100 * *mean)
                               : "The device does not tell how many cycles its launches take.";
  return fmt::format(
      "<h3>{}</h3><p class=\"soft\">Each layer alone, on zeros. At least as many cycles as the array takes for its "
      "multiplications (the peak is {} in a cycle), and the DMA for its bytes. {}</p>{}<div class=\"scroll\"><table "
      "class=\"layers\"><thead><tr><th>layer</th><th>shape</th><th class=\"number\">multiplications</th><th "
      "class=\"number\">moved</th><th class=\"number\">array, cycles</th><th class=\"number\">DMA, cycles</th>"
      "<th>limit</th><th class=\"number\">cycles</th><th class=\"number\">of the limit</th><th "
      "class=\"number\">utilization</th></tr></thead><tbody>{}</tbody></table></div>",
      escaped(device), layers[0]->peak, sum, measured.empty() ? "" : RooflinePicture(measured).svg(), rows);
}

}  // namespace

std::string roofline_section(const std::vector<LayerCost>& layers) {
  std::vector<std::string> devices;
  for (const LayerCost& layer : layers) {
    if (std::ranges::find(devices, layer.device) == devices.end()) devices.push_back(layer.device);
  }
  std::string text;
  for (const std::string& device : devices) {
    std::vector<const LayerCost*> own;
    for (const LayerCost& layer : layers) {
      if (layer.device == device) own.push_back(&layer);
    }
    text += device_section(device, own);
  }
  return text.empty() ? "" : "<h2 id=\"roofline\">Layers of tile machines: the roofline</h2>" + text;
}

}  // namespace tenon::cli
