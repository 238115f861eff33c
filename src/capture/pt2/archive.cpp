#include "capture/pt2/archive.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

namespace tenon::pt2 {
namespace {

constexpr std::string_view kFormat = "pt2";
constexpr std::string_view kVersion = "0";
constexpr std::string_view kModels = "models/";
constexpr std::string_view kJson = ".json";

std::string_view text_of(const ZipEntry& entry) {
  return {reinterpret_cast<const char*>(entry.data.data()), entry.data.size()};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// What a file that is something else says of itself is shown, and may be anything.
std::string shown(std::string_view text) {
  std::string result(text.substr(0, 16));
  std::ranges::replace_if(result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

}  // namespace

Archive::Archive(const FileContent& file) : file_(file), entries_(read_zip(file.bytes).value()) {
  find_folder();
  check_format();
  check_byte_order();
}

void Archive::find_folder() {
  if (entries_.empty()) fail("not a .pt2 archive: the zip archive is empty");
  const std::string& first = entries_.front().name;
  folder_ = first.substr(0, first.find('/') + 1);
  for (const ZipEntry& entry : entries_) {
    if (!entry.name.starts_with(folder_)) fail("not a .pt2 archive: '{}' is outside of '{}'", entry.name, folder_);
    by_name_.emplace(std::string_view(entry.name).substr(folder_.size()), &entry);
  }
}

void Archive::check_format() const {
  if (find("archive_format") == nullptr) fail_without_format();
  const std::string_view format = trimmed(text("archive_format"));
  if (format != kFormat) fail("not a .pt2 archive: archive_format is '{}', not '{}'", shown(format), kFormat);
  const std::string_view version = find("archive_version") == nullptr ? kVersion : trimmed(text("archive_version"));
  if (version != kVersion) {
    fail("archive_version is '{}', and only version {} can be read: save it with an older PyTorch", shown(version),
         kVersion);
  }
}

void Archive::fail_without_format() const {
  if (find("serialized_exported_program.json") != nullptr) {
    fail(
        "this .pt2 file is of a PyTorch before 2.8, whose weights only Python can load: "
        "load it with torch.export.load, and save it again");
  }
  if (find("data.pkl") != nullptr) {
    fail("not a .pt2 archive, but what torch.save or torch.jit.save writes: use torch.export.save");
  }
  fail("not a .pt2 archive: archive_format is missing");
}

void Archive::check_byte_order() const {
  static_assert(std::endian::native == std::endian::little);
  if (find("byteorder") == nullptr) return;
  const std::string_view order = trimmed(text("byteorder"));
  if (order != "little") {
    fail("byteorder is '{}', and only little-endian weights can be read: save it on such a machine", shown(order));
  }
}

const ZipEntry* Archive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const ZipEntry& Archive::entry(std::string_view name) const {
  if (const ZipEntry* found = find(name)) return *found;
  fail("'{}' is missing in the archive", name);
}

std::string_view Archive::text(std::string_view name) const {
  const ZipEntry& found = entry(name);
  check_crc(found);
  return text_of(found);
}

std::unique_ptr<JsonDocument> Archive::json(std::string name) const {
  const std::string_view content = text(name);
  const auto* begin = reinterpret_cast<const char*>(file_.bytes.data());
  const auto readable = static_cast<size_t>(begin + file_.bytes.size() - content.data());
  return std::make_unique<JsonDocument>(std::move(name), content, readable);
}

std::vector<std::string> Archive::models() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : by_name_) {
    if (!name.starts_with(kModels) || !name.ends_with(kJson)) continue;
    if (name.size() > kModels.size() + kJson.size()) {
      names.emplace_back(name.substr(kModels.size(), name.size() - kModels.size() - kJson.size()));
    }
  }
  return names;
}

std::string Archive::model_named(std::string_view wanted) const {
  const std::vector<std::string> names = models();
  if (names.empty()) fail_without_models();
  if (!wanted.empty()) {
    if (std::ranges::find(names, wanted) != names.end()) return std::string(wanted);
    fail("the archive has no model '{}': it has {}", wanted, fmt::join(names, ", "));
  }
  if (names.size() > 1) fail("the archive has several models, say which one: {}", fmt::join(names, ", "));
  return names.front();
}

void Archive::fail_without_models() const {
  const bool is_compiled =
      std::ranges::any_of(by_name_, [](const auto& named) { return named.first.starts_with("data/aotinductor/"); });
  if (is_compiled) {
    fail("the archive holds a library that AOTInductor compiled, and no exported program: use torch.export.save");
  }
  fail("the archive holds no exported program: 'models/*.json' is missing");
}

}  // namespace tenon::pt2
