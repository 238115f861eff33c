// The folders of src/ point one way: an include goes to a folder above in src/LAYERS, and to a header of its face.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string folder;
  std::set<std::string> face;  // headers, relative to the folder
};

std::vector<Layer> parse_layers(std::istream& text) {
  std::vector<Layer> layers;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.ends_with(':')) {
        layers.push_back({word.substr(0, word.size() - 1), {}});
      } else {
        layers.back().face.insert(word);
      }
    }
  }
  return layers;
}

std::vector<Layer> read_layers() {
  std::ifstream file("src/LAYERS");
  return parse_layers(file);
}

size_t place_of(const std::vector<Layer>& layers, const std::string& folder) {
  return static_cast<size_t>(std::ranges::find(layers, folder, &Layer::folder) - layers.begin());
}

// Why a file of `from` must not include `header`; empty if it may. `from` may be a folder outside of src/: it then
// stands below all layers.
std::string objection(const std::vector<Layer>& layers, const std::string& from, const std::string& header) {
  const std::string folder = header.substr(0, header.find('/'));
  const size_t place = place_of(layers, folder);
  if (folder == from || place == layers.size()) return {};
  if (place > place_of(layers, from)) return folder + " is below " + from + " in src/LAYERS";
  if (!layers[place].face.contains(header.substr(folder.size() + 1)))
    return header + " is no part of the face of " + folder;
  return {};
}

struct Include {
  std::string file;
  std::string folder;
  std::string header;
};

void add_includes(const fs::path& root, bool is_source, std::vector<Include>& includes) {
  static const std::regex include(R"re(^\s*#\s*include\s*"([a-z0-9_/]+\.h)".*)re");
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp") continue;
    const std::string folder = is_source ? *fs::relative(entry.path(), root).begin() : root;
    std::ifstream text(entry.path());
    std::smatch match;
    for (std::string line; std::getline(text, line);) {
      if (std::regex_match(line, match, include)) includes.push_back({entry.path(), folder, match[1]});
    }
  }
}

std::vector<Include> all_includes() {
  std::vector<Include> includes;
  add_includes("src", true, includes);
  for (const char* outside : {"tools/tenon", "python/bind"}) add_includes(outside, false, includes);
  return includes;
}

TEST(Layers, IncludesGoDownToFaces) {
  const std::vector<Layer> layers = read_layers();
  const std::vector<Include> includes = all_includes();
  ASSERT_GT(includes.size(), 500u);
  for (const Include& include : includes) {
    EXPECT_EQ(objection(layers, include.folder, include.header), "") << include.file << " includes " << include.header;
  }
}

TEST(Layers, ListEveryFolderAndOnlyHeadersThatOthersInclude) {
  const std::vector<Layer> layers = read_layers();
  for (const auto& entry : fs::directory_iterator("src")) {
    if (!entry.is_directory()) continue;
    EXPECT_LT(place_of(layers, entry.path().filename()), layers.size())
        << entry.path() << " has no place in src/LAYERS";
  }
  std::vector<Include> includes = all_includes();
  add_includes("js/kernels", false, includes);
  std::set<std::string> included;
  for (const Include& include : includes) {
    if (!include.header.starts_with(include.folder + "/")) included.insert(include.header);
  }
  for (const Layer& layer : layers) {
    for (const std::string& header : layer.face) {
      EXPECT_TRUE(fs::exists("src/" + layer.folder + "/" + header)) << layer.folder << "/" << header;
      EXPECT_TRUE(included.contains(layer.folder + "/" + header))
          << layer.folder << "/" << header << " is of no use to others";
    }
  }
}

// The folder graph, with how many includes each edge stands for. It has no cycle: every edge goes to an earlier line.
TEST(Layers, PrintTheFolderGraph) {
  const std::vector<Layer> layers = read_layers();
  std::map<std::string, std::map<std::string, int>> edges;
  for (const Include& include : all_includes()) {
    const std::string folder = include.header.substr(0, include.header.find('/'));
    if (folder != include.folder && place_of(layers, folder) < layers.size()) ++edges[include.folder][folder];
  }
  for (const Layer& layer : layers) {
    std::cout << layer.folder << ":";
    for (const auto& [folder, count] : edges[layer.folder]) {
      std::cout << " " << folder << "(" << count << ")";
      EXPECT_LT(place_of(layers, folder), place_of(layers, layer.folder));
    }
    std::cout << "\n";
  }
}

TEST(Layers, ObjectToWhatIsAgainstTheOrder) {
  std::istringstream text("# a comment\nlow: face.h\nhigh: top.h\n      more.h\n");
  const std::vector<Layer> layers = parse_layers(text);
  EXPECT_EQ(objection(layers, "high", "low/face.h"), "");
  EXPECT_EQ(objection(layers, "low", "low/inside.h"), "");
  EXPECT_EQ(objection(layers, "tools", "high/more.h"), "");
  EXPECT_EQ(objection(layers, "low", "high/top.h"), "high is below low in src/LAYERS");
  EXPECT_EQ(objection(layers, "high", "low/inside.h"), "low/inside.h is no part of the face of low");
  EXPECT_EQ(objection(layers, "tools", "low/inside.h"), "low/inside.h is no part of the face of low");
}

}  // namespace
}  // namespace tenon
