// The zip archive that a .pt2 file is: which entries there are, and which programs. Nobody outside this folder includes
// it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capture/pt2/json.h"
#include "support/file.h"
#include "support/zip.h"

namespace tenon::pt2 {

class Archive {
 public:
  // Throws an Error for what is not the archive of an exported program, in this machine's byte order.
  explicit Archive(const FileContent& file);

  // Entries are named below the archive's own folder: "models/model.json".
  const ZipEntry* find(std::string_view name) const;  // null when there is none
  const ZipEntry& entry(std::string_view name) const;
  std::string_view text(std::string_view name) const;  // of an entry, checked against its checksum
  std::unique_ptr<JsonDocument> json(std::string name) const;

  // The name of the program to read: `wanted`, or the only one.
  std::string model_named(std::string_view wanted) const;
  const FileContent& file() const { return file_; }

 private:
  void find_folder();
  void check_format() const;
  void check_byte_order() const;
  std::vector<std::string> models() const;
  [[noreturn]] void fail_without_format() const;
  [[noreturn]] void fail_without_models() const;

  FileContent file_;
  std::vector<ZipEntry> entries_;
  std::string folder_;  // with the slash
  std::map<std::string_view, const ZipEntry*, std::less<>> by_name_;
};

}  // namespace tenon::pt2
