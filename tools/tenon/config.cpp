// tenon config: where this installation's headers, libraries and CMake files are.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "command.h"
#include "runtime/system.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cmake -B build -DTenon_DIR=$(tenon config --cmake-dir)
  PKG_CONFIG_PATH=$(tenon config --pkgconfig-dir) pkg-config --cflags --libs tenon)";

struct Place {
  const char* option;
  const char* below;  // the prefix
  const char* help;
};

constexpr std::array kPlaces = {
    Place{"--prefix", "", "Only the folder of the installation"},
    Place{"--include-dir", TENON_INCLUDE_DIR, "Only the folder of tenon/tenon.h"},
    Place{"--lib-dir", TENON_LIBRARY_DIR, "Only the folder of the libraries"},
    Place{"--cmake-dir", TENON_LIBRARY_DIR "/cmake/Tenon", "Only the folder of TenonConfig.cmake, for Tenon_DIR"},
    Place{"--pkgconfig-dir", TENON_LIBRARY_DIR "/pkgconfig", "Only the folder of tenon.pc, for PKG_CONFIG_PATH"},
};

struct Options {
  std::array<bool, kPlaces.size()> chosen{};
};

// This program is in its `bin`.
std::filesystem::path prefix() {
  const std::filesystem::path program = runtime::program_path();
  std::filesystem::path prefix = program.parent_path().parent_path();
  const std::filesystem::path header = prefix / TENON_INCLUDE_DIR / "tenon" / "tenon.h";
  if (!std::filesystem::exists(header)) {
    fail("{} is not installed: there is no {}; `pip install` and `cmake --install` install it with headers",
         program.string(), header.string());
  }
  return prefix;
}

std::string path_of(const std::filesystem::path& prefix, const Place& place) {
  return (*place.below ? prefix / place.below : prefix).string();
}

void run(const Options& options) {
  const std::filesystem::path prefix = cli::prefix();
  const bool all = std::ranges::count(options.chosen, true) == 0;
  std::string text;
  for (size_t i = 0; i < kPlaces.size(); ++i) {
    const std::string path = path_of(prefix, kPlaces[i]);
    if (all) text += fmt::format("{:<14} {}\n", kPlaces[i].option + 2, path);
    if (options.chosen[i]) text += path + "\n";
  }
  print(text);
}

}  // namespace

Command config_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("config", "Print where a C or C++ project finds Tenon");
  for (size_t i = 0; i < kPlaces.size(); ++i) app->add_flag(kPlaces[i].option, options->chosen[i], kPlaces[i].help);
  app->footer(kFooter);
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
