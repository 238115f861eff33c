#include "tests/capture/support_pt2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "support/zip.h"

namespace tenon {

std::string file_text(const std::string& path) {
  const FileContent file = read_file(path).value();
  return std::string(file.text());
}

Result<pt2::ExportedProgram> read_pt2_text(std::string text, std::string_view model) {
  auto owner = std::make_shared<std::string>(std::move(text));
  return read_pt2(FileContent{std::as_writable_bytes(std::span(*owner)), owner}, model);
}

std::string pt2_error(std::string text, std::string_view model) {
  const auto program = read_pt2_text(std::move(text), model);
  return program.ok() ? "no error" : program.diagnostic().message;
}

Pt2Files::Pt2Files(const std::string& path) {
  std::string text = file_text(path);
  for (const ZipEntry& entry : read_zip(std::as_writable_bytes(std::span(text))).value()) {
    entries_.emplace_back(entry.name.substr(entry.name.find('/') + 1),
                          std::string(reinterpret_cast<const char*>(entry.data.data()), entry.data.size()));
  }
}

std::string& Pt2Files::operator[](std::string_view name) {
  const auto found =
      std::ranges::find(entries_, name, [](const auto& entry) -> std::string_view { return entry.first; });
  if (found == entries_.end()) throw std::runtime_error("the archive has no entry " + std::string(name));
  return found->second;
}

void Pt2Files::remove(std::string_view name) {
  if (std::erase_if(entries_, [&](const auto& entry) { return entry.first == name; }) != 1) {
    throw std::runtime_error("the archive has no entry " + std::string(name));
  }
}

void Pt2Files::replace(std::string_view name, std::string_view from, std::string_view to) {
  std::string& content = (*this)[name];
  const size_t at = content.find(from);
  if (at == std::string::npos) throw std::runtime_error(std::string(name) + " has no " + std::string(from));
  content.replace(at, from.size(), to);
}

std::string Pt2Files::packed() const {
  ZipWriter writer;
  for (const auto& [name, content] : entries_) writer.add(folder + name, {std::as_bytes(std::span(content))});
  std::string text;
  for (const auto& piece : writer.finish()) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return text;
}

}  // namespace tenon
