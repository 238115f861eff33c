// tenon completion: a script for shells, from the commands and options that there are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  source <(tenon completion)                              for this shell: bash or zsh
  tenon completion > ~/.local/share/bash-completion/completions/tenon)";

// `words` is what may follow; file names follow everything.
constexpr const char* kScript = R"([ -z "${{ZSH_VERSION-}}" ] || {{ autoload -U +X bashcompinit && bashcompinit; }}
_tenon() {{
  local words
  case "${{COMP_WORDS[*]:1:COMP_CWORD-1}}" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _tenon tenon
)";

std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// The cases of a command and of those below it, the longest first: a shell takes the first that matches.
std::string cases_of(const CLI::App& app, const std::string& path) {
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    cases += cases_of(*command, path.empty() ? command->get_name() : path + " " + command->get_name());
  }
  const std::string pattern = path.empty() ? "*" : fmt::format("\"{0}\" | \"{0} \"*", path);
  return cases + fmt::format("    {}) words=\"{}\" ;;\n", pattern, fmt::join(words_of(app), " "));
}

}  // namespace

Command completion_command(CLI::App& tenon) {
  CLI::App* app =
      tenon.add_subcommand("completion", "Print a script that completes commands and options in bash and zsh");
  const auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash or zsh, which take the same script")->check(CLI::IsMember({"bash", "zsh"}));
  app->footer(kFooter);
  return {app, [&tenon, shell] { print(fmt::format(fmt::runtime(kScript), cases_of(tenon, ""))); }};
}

}  // namespace tenon::cli
