// Learning-rate schedules: the rate as a function of t, the number of updates done, and of the base rate, the
// optimizer's lr. The pieces are those of torch.optim.lr_scheduler, stepped after every update.
//
//     schedule=warmup(100) + cosine(1000)
//
// Pieces follow each other. Each piece counts t from its own beginning, as PyTorch's SequentialLR does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "autodiff/settings.h"
#include "graph/builder.h"

namespace tenon {

// base * factor, for `steps` updates where another piece follows.
struct ConstantRate {
  double factor = 1;
  std::optional<int64_t> steps;
  bool operator==(const ConstantRate&) const = default;
};

// From base * start up to base: LinearLR with end_factor=1. At `start` 0 the first update changes nothing.
struct Warmup {
  int64_t steps = 0;
  double start = 0;
  bool operator==(const Warmup&) const = default;
};

// From base * start to base * end, and then stays: LinearLR.
struct LinearRate {
  int64_t steps = 0;
  double start = 1;
  double end = 0;
  bool operator==(const LinearRate&) const = default;
};

// Times gamma after every `size` updates: StepLR.
struct StepRate {
  int64_t size = 0;
  double gamma = 0.1;
  bool operator==(const StepRate&) const = default;
};

// Times gamma after each update: ExponentialLR.
struct ExponentialRate {
  double gamma = 0;
  bool operator==(const ExponentialRate&) const = default;
};

// Half a cosine from base to eta_min: CosineAnnealingLR. Past `steps` the rate rises again.
struct CosineRate {
  int64_t steps = 0;
  double eta_min = 0;
  bool operator==(const CosineRate&) const = default;
};

enum class Anneal : uint8_t { kCos, kLinear };

// Up from base / div_factor to base, then down to base / div_factor / final_div_factor, and then constant: OneCycleLR
// with the base as max_lr and cycle_momentum=False.
struct OneCycle {
  int64_t steps = 0;
  double pct_start = 0.3;
  Anneal anneal = Anneal::kCos;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
  bool operator==(const OneCycle&) const = default;
};

using RatePiece = std::variant<ConstantRate, Warmup, LinearRate, StepRate, ExponentialRate, CosineRate, OneCycle>;

struct RateSchedule {
  std::vector<RatePiece> pieces;  // none: the base
  bool operator==(const RateSchedule&) const = default;
};

// Fails if a setting is out of bounds, or if a piece follows a piece without an end.
void validate(const RateSchedule& schedule);

std::string to_string(const RateSchedule& schedule);  // "warmup(100) + cosine(1000)"
RateSchedule rate_schedule(const settings::SettingCalls& calls);

// The rate at `step` (f64 scalars).
Value rate_at(Builder& b, const RateSchedule& schedule, Value base, Value step);

}  // namespace tenon
