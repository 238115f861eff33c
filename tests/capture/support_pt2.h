// .pt2 files in memory, for tests: read, taken apart, changed, and packed again.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/pt2/pt2.h"

namespace tenon {

std::string file_text(const std::string& path);
Result<pt2::ExportedProgram> read_pt2_text(std::string text, std::string_view model = {});
std::string pt2_error(std::string text, std::string_view model = {});  // the message, or "no error"

// The entries of an archive, below its folder.
class Pt2Files {
 public:
  explicit Pt2Files(const std::string& path);

  std::string& operator[](std::string_view name);  // fails the test when there is none
  void add(std::string name, std::string content) { entries_.emplace_back(std::move(name), std::move(content)); }
  void remove(std::string_view name);
  void clear() { entries_.clear(); }
  // Replaces the first of `from`, which must be there.
  void replace(std::string_view name, std::string_view from, std::string_view to);

  std::string packed() const;  // as a zip archive, with the right checksums
  std::string folder = "model/";

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace tenon
