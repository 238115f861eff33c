// The text form and the checks of optimizers. optimizer_update.cpp has the arithmetic.
#include "autodiff/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "graph/attr.h"
#include "graph/text.h"
#include "support/text.h"

namespace tenon {
namespace {

using settings::Field;
using settings::kBelowOne;
using settings::kNotNegative;

// ---- rules and their settings, in the order of PyTorch's arguments --------------------------------------------------

std::string_view name_of(const Sgd&) { return "sgd"; }
std::string_view name_of(const Adam&) { return "adam"; }
std::string_view name_of(const AdamW&) { return "adamw"; }
std::string_view name_of(const Adagrad&) { return "adagrad"; }
std::string_view name_of(const RmsProp&) { return "rmsprop"; }
std::string_view name_of(const Lion&) { return "lion"; }

std::vector<Field> fields_of(Sgd& r) {
  return {{"lr", &r.lr, kNotNegative}, {"momentum", &r.momentum, kNotNegative},
          {"dampening", &r.dampening}, {"weight_decay", &r.weight_decay, kNotNegative},
          {"nesterov", &r.nesterov},   {"maximize", &r.maximize}};
}

template <class AnyAdam>
std::vector<Field> fields_of_adam(AnyAdam& r) {
  return {{"lr", &r.lr, kNotNegative},   {"betas", &r.betas, kBelowOne},
          {"eps", &r.eps, kNotNegative}, {"weight_decay", &r.weight_decay, kNotNegative},
          {"amsgrad", &r.amsgrad},       {"maximize", &r.maximize}};
}
std::vector<Field> fields_of(Adam& r) { return fields_of_adam(r); }
std::vector<Field> fields_of(AdamW& r) { return fields_of_adam(r); }

std::vector<Field> fields_of(Adagrad& r) {
  return {{"lr", &r.lr, kNotNegative},
          {"lr_decay", &r.lr_decay, kNotNegative},
          {"weight_decay", &r.weight_decay, kNotNegative},
          {"initial_accumulator_value", &r.initial_accumulator_value, kNotNegative},
          {"eps", &r.eps, kNotNegative},
          {"maximize", &r.maximize}};
}

std::vector<Field> fields_of(RmsProp& r) {
  return {{"lr", &r.lr, kNotNegative},
          {"alpha", &r.alpha, kNotNegative},
          {"eps", &r.eps, kNotNegative},
          {"weight_decay", &r.weight_decay, kNotNegative},
          {"momentum", &r.momentum, kNotNegative},
          {"centered", &r.centered},
          {"maximize", &r.maximize}};
}

std::vector<Field> fields_of(Lion& r) {
  return {{"lr", &r.lr, kNotNegative},
          {"betas", &r.betas, kBelowOne},
          {"weight_decay", &r.weight_decay, kNotNegative},
          {"maximize", &r.maximize}};
}

std::vector<Field> fields_of(UpdateRule& rule) {
  return std::visit([](auto& r) { return fields_of(r); }, rule);
}
std::string_view name_of(const UpdateRule& rule) {
  return std::visit([](const auto& r) { return name_of(r); }, rule);
}

std::vector<Field> fields_of(Optimizer& optimizer) {
  std::vector<Field> fields = fields_of(optimizer.rule);
  fields.push_back({"clip_value", &optimizer.clip_value, settings::kPositive});
  fields.push_back({"clip_norm", &optimizer.clip_norm, settings::kPositive});
  return fields;
}

// One of each, with its defaults.
std::span<const UpdateRule> all_rules() {
  static const std::array<UpdateRule, 6> rules = {Sgd(), Adam(), AdamW(), Adagrad(), RmsProp(), Lion()};
  return rules;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

void validate(const UpdateRule& rule) {
  UpdateRule checked = rule;
  settings::check_bounds(fields_of(checked));
  const auto* sgd = std::get_if<Sgd>(&rule);
  if (sgd != nullptr && sgd->nesterov && (sgd->momentum == 0 || sgd->dampening != 0)) {
    fail("nesterov needs a momentum above 0 and no dampening, got momentum {} and dampening {}", sgd->momentum,
         sgd->dampening);
  }
}

// ---- parsing --------------------------------------------------------------------------------------------------------

UpdateRule rule_named(const settings::SettingCall& call) {
  std::vector<std::string_view> names;
  for (const UpdateRule& rule : all_rules()) {
    if (name_of(rule) == call.name) return rule;
    names.push_back(name_of(rule));
  }
  fail_at(call.where, "there is no optimizer '{}': use {}{}", call.name, fmt::join(names, ", "),
          did_you_mean(call.name, names));
}

bool is_group(const settings::SettingArgument& argument) {
  const auto* calls = std::get_if<settings::SettingCalls>(&argument.value);
  return argument.key.empty() && calls != nullptr && calls->size() == 1 && calls->front().name == "group";
}

ParameterGroup parse_group(settings::SettingCall call, const UpdateRule& base) {
  ParameterGroup group{.patterns = {}, .rule = base};
  const auto is_pattern = [](const settings::SettingArgument& argument) {
    return argument.key.empty() && std::holds_alternative<settings::Quoted>(argument.value);
  };
  for (const settings::SettingArgument& argument : call.arguments) {
    if (is_pattern(argument)) group.patterns.push_back(std::get<settings::Quoted>(argument.value).text);
  }
  if (group.patterns.empty()) fail_at(call.where, "a group begins with patterns of names, in quotes");
  std::erase_if(call.arguments, is_pattern);
  settings::read(fields_of(group.rule), call);
  located(call.where, [&] { validate(group.rule); });
  return group;
}

// Groups are read last: they start from the optimizer's settings, wherever those stand in the text.
Optimizer optimizer_of(settings::SettingCall call) {
  Optimizer optimizer{.rule = rule_named(call)};
  settings::SettingCalls groups;
  for (const settings::SettingArgument& argument : call.arguments) {
    if (is_group(argument)) groups.push_back(settings::calls_of(argument).front());
  }
  std::erase_if(call.arguments, is_group);
  if (const auto schedule = call.take("schedule")) optimizer.schedule = rate_schedule(settings::calls_of(*schedule));
  settings::read(fields_of(optimizer), call);
  located(call.where, [&] { validate(optimizer); });
  for (settings::SettingCall& group : groups) optimizer.groups.push_back(parse_group(std::move(group), optimizer.rule));
  return optimizer;
}

// ---- printing -------------------------------------------------------------------------------------------------------

std::string print_group(const ParameterGroup& group, const UpdateRule& base) {
  UpdateRule printed = group.rule;
  UpdateRule usual = base;
  std::vector<std::string> arguments;
  for (const std::string& pattern : group.patterns) arguments.push_back(quote(pattern));
  std::ranges::move(settings::differing(fields_of(printed), fields_of(usual)), std::back_inserter(arguments));
  return settings::to_text("group", arguments);
}

}  // namespace

void validate(const Optimizer& optimizer) {
  Optimizer checked = optimizer;
  settings::check_bounds(fields_of(checked));
  validate(optimizer.rule);
  validate(optimizer.schedule);
  for (const ParameterGroup& group : optimizer.groups) {
    if (group.rule.index() != optimizer.rule.index()) {
      fail("a group is of {}, the optimizer of {}", name_of(group.rule), name_of(optimizer.rule));
    }
    validate(group.rule);
  }
}

std::string to_string(const Optimizer& optimizer) {
  Optimizer printed = optimizer;
  Optimizer usual{.rule = all_rules()[optimizer.rule.index()]};
  std::vector<std::string> arguments = settings::differing(fields_of(printed), fields_of(usual), "lr");
  if (!optimizer.schedule.pieces.empty()) arguments.push_back("schedule=" + to_string(optimizer.schedule));
  for (const ParameterGroup& group : optimizer.groups) arguments.push_back(print_group(group, optimizer.rule));
  return settings::to_text(name_of(optimizer.rule), arguments);
}

Result<Optimizer> parse_optimizer(std::string_view text) {
  return attempt([&] { return optimizer_of(settings::parse_call(text, "an optimizer")); });
}

}  // namespace tenon
