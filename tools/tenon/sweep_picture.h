// The points of a sweep: as a table, and drawn as cycles against area.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device_area.h"
#include "sweep_grid.h"

namespace tenon::cli {

struct SweepPoint {
  SweepOptions options;
  std::optional<double> time;         // of all launches of a run: cycles, or nanoseconds
  std::optional<double> utilization;  // of the array, over all layers
  std::optional<DeviceArea> area;
  std::string error;  // why the point has no time
};

struct Sweep {
  std::string model;
  std::string device;
  std::string time_unit = "cycles";
  std::vector<SweepPoint> points;

  std::string area_unit() const;  // of the first point that has one; empty: none has
};

std::string table_of(const Sweep& sweep);  // for a terminal
std::string csv_of(const Sweep& sweep);
std::string svg_of(const Sweep& sweep);   // a file of its own
std::string html_of(const Sweep& sweep);  // the picture and the table

}  // namespace tenon::cli
