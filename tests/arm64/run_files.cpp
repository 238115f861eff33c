// Runs PATH.tenon on this machine with the inputs of PATH.txt, and compares the outputs with those of PATH.txt: the
// form of tests/golden/. Exits with 1 if one of them fails or differs.
//
//     run_files [--portable] PATH...        --portable: without the machine code
#include <cstdio>
#include <cstring>

#include "tests/robustness/support_golden.h"

namespace tenon::golden {
namespace {

// What went wrong; empty: nothing.
std::string problem_of(Artifact& artifact, bool native) {
  Session session;
  if (session.load_file(artifact.path, native) != TENON_OK || session.create() != TENON_OK) return tenon_error();
  for (size_t i = 0; i < artifact.runs.size(); ++i) {
    std::vector<Array> outputs;
    if (session.run(artifact.runs[i].inputs, &outputs) != TENON_OK) return tenon_error();
    if (!close(outputs, artifact.runs[i].outputs)) return "run " + std::to_string(i) + " has other results";
  }
  return "";
}

}  // namespace
}  // namespace tenon::golden

int main(int count, char** arguments) {
  using namespace tenon::golden;
  bool native = true;
  int failures = 0;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--portable") == 0) {
      native = false;
      continue;
    }
    Artifact artifact = read_path(arguments[i]);
    const std::string problem = problem_of(artifact, native);
    std::printf("%s: %s\n", arguments[i], problem.empty() ? "as expected" : problem.c_str());
    failures += !problem.empty();
  }
  return failures == 0 ? 0 : 1;
}
