#include "checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "json.h"
#include "runtime/error.h"
#include "support/diagnostic.h"
#include "support/runtime_call.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".states", kHalfWritten = ".states.tmp.";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory) fail_at({folder}, "{}", error.message());
  return names;
}

// -1: the name of something else.
int64_t step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return -1;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return error == std::errc() && end == digits.data() + digits.size() ? step : -1;
}

std::string in_folder(const std::string& folder, std::string_view name) { return (fs::path(folder) / name).string(); }

}  // namespace

bool is_checkpoint(const std::string& path) {
  try {
    return runtime::Container::open(path).find(format::SectionKind::kCheckpoint) != nullptr;
  } catch (const runtime::StatusError&) {
    return false;
  }
}

runtime::Checkpoint open_checkpoint(const std::string& path, const runtime::Container& container) {
  return call_runtime([&] { return runtime::with_path(path, [&] { return runtime::read_checkpoint(container); }); });
}

std::string states_text(const runtime::Checkpoint& checkpoint) {
  std::string text;
  for (const runtime::StateInfo& info : checkpoint.states)
    text += fmt::format("state    {:<24} {}\n", info.name, type_text(info));
  for (const auto& [key, value] : checkpoint.notes) text += fmt::format("note     {:<24} {}\n", key, value);
  return text;
}

std::string states_json(const runtime::Checkpoint& checkpoint) {
  return json::array_of(checkpoint.states, [](const runtime::StateInfo& info) {
    return json::object({{"name", json::string(info.name)},
                         {"type", json::string(type_text(info))},
                         {"dtype", json::string(tenon_dtype_name(info.dtype))},
                         {"shape", json::array_of(info.shape, [](int64_t size) { return std::to_string(size); })}});
  });
}

std::string notes_json(const runtime::Checkpoint& checkpoint) {
  std::vector<std::pair<std::string_view, std::string>> notes;
  for (const auto& [key, value] : checkpoint.notes) notes.emplace_back(key, json::string(value));
  return json::object(notes);
}

std::vector<CheckpointFile> checkpoints_in(const std::string& folder) {
  std::vector<CheckpointFile> found;
  for (const std::string& name : names_in(folder)) {
    if (const int64_t step = step_of(name); step >= 0) found.push_back({step, in_folder(folder, name)});
  }
  std::ranges::sort(found, {}, &CheckpointFile::step);
  return found;
}

std::string checkpoint_path(const std::string& folder, int64_t step) {
  return in_folder(folder, fmt::format("{}{:08}{}", kPrefix, step, kSuffix));
}

std::string newest_checkpoint(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const std::vector<CheckpointFile> found = checkpoints_in(path);
  if (found.empty()) fail_at({path}, "there is no checkpoint in this folder");
  return found.back().path;
}

void prepare_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_at({folder}, "cannot make this folder: {}", error.message());
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with(kPrefix) && name.find(kHalfWritten) != std::string::npos)
      fs::remove(in_folder(folder, name), error);
  }
}

void keep_newest(const std::string& folder, int64_t count) {
  const std::vector<CheckpointFile> found = checkpoints_in(folder);
  std::error_code error;
  for (size_t i = 0; i + static_cast<size_t>(count) < found.size(); ++i) fs::remove(found[i].path, error);
}

}  // namespace tenon::cli
