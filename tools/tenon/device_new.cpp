// tenon device new: a directory to start a device from. What it writes is accelerators/template, under another name.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "backends/backend.h"
#include "device_commands.h"
#include "embedded/kDeviceHeader.h"
#include "embedded/kRuntimeHeader.h"
#include "embedded/kTemplateCMake.h"
#include "embedded/kTemplateIgnored.h"
#include "embedded/kTemplateMakefile.h"
#include "embedded/kTemplateModel.h"
#include "embedded/kTemplatePlugin.h"
#include "embedded/kTemplateReadme.h"
#include "embedded/kTemplateTest.h"
#include "output_files.h"
#include "support/file.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"(The directory has a plug-in in C that works: a tile machine with an array of 16x16 that multiplies bf16 and int8. Build
it with a C compiler and nothing else, check it, and make it your machine.

Examples:
  tenon device new npu && make -C npu test
  tenon device new npu --dir ../hardware/npu)";

constexpr std::string_view kPlaceholder = "mydev";  // in names and texts of the template
constexpr size_t kLongestName = 31;
constexpr std::string_view kTaken[] = {"cpu", "all", "test", "check", "clean", "help", "install", "package", "include"};

struct TemplateFile {
  std::string_view name;
  std::string_view text;
};

constexpr TemplateFile kFiles[] = {{"mydev.c", kTemplatePlugin},
                                   {"mydev_test.c", kTemplateTest},
                                   {"Makefile", kTemplateMakefile},
                                   {"CMakeLists.txt", kTemplateCMake},
                                   {"README.md", kTemplateReadme},
                                   {"model.tg", kTemplateModel},
                                   {".gitignore", kTemplateIgnored},
                                   {"include/tenon/device.h", kDeviceHeader},
                                   {"include/tenon/tenon.h", kRuntimeHeader}};

struct NewOptions {
  std::string name;
  std::string folder;
};

// The name of a device is also that of files, of targets, and in C strings.
void check_name(const std::string& name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > kLongestName || !is_letter(name[0]) || !std::ranges::all_of(name, is_allowed))
    fail("'{}' is no name of a device: take a lower-case letter, then letters, digits and _, {} at most", name,
         kLongestName);
  if (std::ranges::find(kTaken, name) != std::end(kTaken) || find_backend(name))
    fail("the name '{}' is taken; take another for your device", name);
}

std::string renamed(std::string_view text, std::string_view name) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(kPlaceholder, at), text.size());
    result += text.substr(at, found - at);
    if (found < text.size()) result += name;
    at = found + kPlaceholder.size();
  }
  return result;
}

void write_template(const NewOptions& options) {
  check_name(options.name);
  const fs::path folder = options.folder.empty() ? options.name : options.folder;
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error)))
    fail_at({folder}, "exists already: choose another place with --dir, or another name");
  require_writable_folder(folder);
  fs::create_directories(folder / "include" / "tenon", error);
  if (error) fail_at({folder}, "cannot make the directory: {}", error.message());
  for (const TemplateFile& file : kFiles)
    write_file(folder / renamed(file.name, options.name), renamed(file.text, options.name)).value();
  print(fmt::format("{0}: a device that works. Next:\n  make -C {0} test        builds it, and compares it with the "
                    "reference\n  {0}/README.md           how to make it your machine\n",
                    folder.string()));
}

}  // namespace

Command device_new_command(CLI::App& device) {
  auto options = std::make_shared<NewOptions>();
  CLI::App* app = device.add_subcommand("new", "Write a directory to start a device from");
  app->add_option("NAME", options->name, "Of the device: lower-case letters, digits and _")->required()->type_name("");
  app->add_option("--dir", options->folder, "Where; the default is a directory of that name here")->type_name("DIR");
  app->footer(kFooter);
  return {app, [options] { write_template(*options); }};
}

}  // namespace tenon::cli
