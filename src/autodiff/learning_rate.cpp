#include "autodiff/learning_rate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numbers>

#include "graph/text.h"
#include "support/text.h"

namespace tenon {
namespace {

using settings::Bounds;
using settings::Field;

constexpr Bounds kSteps = {.low = 1};
constexpr std::array<std::string_view, 2> kAnneals = {"cos", "linear"};

// ---- the pieces and their settings ----------------------------------------------------------------------------------

std::string_view name_of(const ConstantRate&) { return "constant"; }
std::string_view name_of(const Warmup&) { return "warmup"; }
std::string_view name_of(const LinearRate&) { return "linear"; }
std::string_view name_of(const StepRate&) { return "step"; }
std::string_view name_of(const ExponentialRate&) { return "exponential"; }
std::string_view name_of(const CosineRate&) { return "cosine"; }
std::string_view name_of(const OneCycle&) { return "one_cycle"; }

std::vector<Field> fields_of(ConstantRate& p) {
  return {{"factor", &p.factor, settings::kNotNegative}, {"steps", &p.steps, kSteps}};
}
std::vector<Field> fields_of(Warmup& p) {
  return {{"steps", &p.steps, kSteps}, {"start", &p.start, settings::kFraction}};
}
std::vector<Field> fields_of(LinearRate& p) {
  return {{"steps", &p.steps, kSteps}, {"start", &p.start, settings::kFraction}, {"end", &p.end, settings::kFraction}};
}
std::vector<Field> fields_of(StepRate& p) {
  return {{"size", &p.size, kSteps}, {"gamma", &p.gamma, settings::kPositive}};
}
std::vector<Field> fields_of(ExponentialRate& p) { return {{"gamma", &p.gamma, settings::kPositive}}; }
std::vector<Field> fields_of(CosineRate& p) {
  return {{"steps", &p.steps, kSteps}, {"eta_min", &p.eta_min, settings::kNotNegative}};
}
std::vector<Field> fields_of(OneCycle& p) {
  return {{"steps", &p.steps, kSteps},
          {"pct_start", &p.pct_start, settings::kFraction},
          {"anneal", settings::choice(p.anneal, kAnneals)},
          {"div_factor", &p.div_factor, settings::kPositive},
          {"final_div_factor", &p.final_div_factor, settings::kPositive},
          {"three_phase", &p.three_phase}};
}

std::vector<Field> fields_of(RatePiece& piece) {
  return std::visit([](auto& p) { return fields_of(p); }, piece);
}
std::string_view name_of(const RatePiece& piece) {
  return std::visit([](const auto& p) { return name_of(p); }, piece);
}

// One of each, with its defaults.
std::span<const RatePiece> all_pieces() {
  static const std::array<RatePiece, 7> pieces = {ConstantRate(),    Warmup(),     LinearRate(), StepRate(),
                                                  ExponentialRate(), CosineRate(), OneCycle()};
  return pieces;
}

RatePiece piece_named(const settings::SettingCall& call) {
  std::vector<std::string_view> names;
  for (const RatePiece& piece : all_pieces()) {
    if (name_of(piece) == call.name) return piece;
    names.push_back(name_of(piece));
  }
  fail_at(call.where, "there is no schedule '{}': use {}{}", call.name, fmt::join(names, ", "),
          did_you_mean(call.name, names));
}

RatePiece parse_piece(const settings::SettingCall& call) {
  RatePiece piece = piece_named(call);
  const std::vector<Field> fields = fields_of(piece);
  settings::read(fields, call);
  located(call.where, [&] { settings::check_bounds(fields); });  // also of required settings that are missing
  return piece;
}

// The setting that has no default, by position; then the settings that differ from the defaults.
std::string print(const RatePiece& piece) {
  RatePiece printed = piece;
  RatePiece usual = all_pieces()[piece.index()];
  const std::vector<Field> fields = fields_of(printed), usual_fields = fields_of(usual);
  const size_t required = std::holds_alternative<ConstantRate>(piece) ? 0 : 1;
  std::vector<std::string> arguments;
  if (required == 1) arguments.push_back(settings::text_of(fields[0]));
  std::ranges::move(settings::differing(std::span(fields).subspan(required), std::span(usual_fields).subspan(required)),
                    std::back_inserter(arguments));
  return settings::to_text(name_of(piece), arguments);
}

// How many updates a piece takes before the next piece begins. Empty for a piece without an end.
std::optional<int64_t> length_of(const RatePiece& piece) {
  return std::visit(
      [](const auto& p) -> std::optional<int64_t> {
        if constexpr (requires { p.steps; }) return p.steps;
        return std::nullopt;
      },
      piece);
}

// ---- the rate, as f64 scalars ---------------------------------------------------------------------------------------

struct Rate {
  Builder& b;
  Value base;
  Value t;  // updates since the piece began

  Value number(double x) { return b.scalar(x, DType::kF64); }
  Value fraction_of(double steps) { return b.minimum(t / steps, number(1)); }
  Value half_cosine(Value progress) { return b.cos(std::numbers::pi * progress) + 1; }

  Value operator()(const ConstantRate& p) { return base * p.factor; }
  Value operator()(const Warmup& p) { return between(p.start, 1, p.steps); }
  Value operator()(const LinearRate& p) { return between(p.start, p.end, p.steps); }
  Value operator()(const StepRate& p) {
    return base * b.pow(number(p.gamma), b.unary("floor", t / static_cast<double>(p.size)));
  }
  Value operator()(const ExponentialRate& p) { return base * b.pow(number(p.gamma), t); }
  Value operator()(const CosineRate& p) {
    const Value swing = half_cosine(t / static_cast<double>(p.steps));
    return p.eta_min + (base - p.eta_min) * swing / 2;
  }
  Value operator()(const OneCycle& p);

  Value between(double start, double end, int64_t steps) {
    return base * (start + (end - start) * fraction_of(static_cast<double>(steps)));
  }
  Value anneal(Anneal how, double start, double end, Value progress) {
    if (how == Anneal::kLinear) return base * ((end - start) * progress + start);
    return base * (end + (start - end) / 2 * half_cosine(progress));
  }
};

// A part of a cycle: from one factor of the base to another.
struct Phase {
  double first_step;
  double last_step;
  double from;
  double to;
};

std::vector<Phase> phases_of(const OneCycle& p) {
  const auto steps = static_cast<double>(p.steps);
  const double low = 1 / p.div_factor;
  const double least = low / p.final_div_factor;
  const double top = p.pct_start * steps - 1;
  if (!p.three_phase) return {{0, top, low, 1}, {top, steps - 1, 1, least}};
  const double down = 2 * p.pct_start * steps - 2;
  return {{0, top, low, 1}, {top, down, 1, low}, {down, steps - 1, low, least}};
}

Value Rate::operator()(const OneCycle& p) {
  const std::vector<Phase> phases = phases_of(p);
  Value rate;
  for (size_t i = phases.size(); i-- > 0;) {
    const auto& [first, last, from, to] = phases[i];
    const bool is_last = i + 1 == phases.size();
    if (last <= first && !is_last) continue;  // it has no update
    const Value progress = last > first ? b.minimum((t - first) / (last - first), number(1)) : number(1);
    const Value here = anneal(p.anneal, from, to, progress);
    rate = rate ? b.where(b.compare("le", t, last), here, rate) : here;
  }
  return rate;
}

}  // namespace

void validate(const RateSchedule& schedule) {
  for (size_t i = 0; i < schedule.pieces.size(); ++i) {
    RatePiece piece = schedule.pieces[i];
    settings::check_bounds(fields_of(piece));
    const bool is_last = i + 1 == schedule.pieces.size();
    if (!is_last && !length_of(piece)) {
      fail("'{}' has no end, and nothing can follow it: {}", name_of(piece), to_string(schedule));
    }
  }
}

std::string to_string(const RateSchedule& schedule) {
  std::vector<std::string> texts;
  for (const RatePiece& piece : schedule.pieces) texts.push_back(print(piece));
  return fmt::format("{}", fmt::join(texts, " + "));
}

RateSchedule rate_schedule(const settings::SettingCalls& calls) {
  RateSchedule schedule;
  for (const settings::SettingCall& call : calls) schedule.pieces.push_back(parse_piece(call));
  located(calls.front().where, [&] { validate(schedule); });
  return schedule;
}

Value rate_at(Builder& b, const RateSchedule& schedule, Value base, Value step) {
  Value rate;
  std::vector<double> begins = {0};
  for (const RatePiece& piece : schedule.pieces) {
    begins.push_back(begins.back() + static_cast<double>(length_of(piece).value_or(0)));
  }
  for (size_t i = schedule.pieces.size(); i-- > 0;) {
    const Value t = begins[i] == 0 ? step : step - begins[i];
    const Value here = std::visit(Rate{b, base, t}, schedule.pieces[i]);
    rate = rate ? b.where(b.compare("lt", step, begins[i + 1]), here, rate) : here;
  }
  return rate ? rate : base;
}

}  // namespace tenon
