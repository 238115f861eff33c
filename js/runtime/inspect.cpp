// What a page asks to draw a program (runtime/description.h).
#include <cstdlib>
#include <cstring>

#include "runtime/api.h"
#include "runtime/description.h"
#include "runtime/error.h"

using namespace tenon::runtime;  // NOLINT: one function

namespace {

// For the sizes of the last run. Where inputs have no symbols, none is needed.
std::shared_ptr<const Frame> frame_of(const LoadedProgram& program) {
  return program.graph().bindings.empty() ? program.frame({}) : program.last_frame();
}

}  // namespace

// JSON, which the caller frees. The bytes are the graph that the file holds for the program; none: nothing has a name.
extern "C" tenon_status tenon_describe_program(const tenon_program* program, const std::byte* graph, size_t size,
                                               char** json) {
  return guarded([=] {
    const LoadedProgram& loaded = *program->shared->program;
    const std::shared_ptr<const Frame> frame = frame_of(loaded);
    const std::vector<std::string> names = constant_names(loaded.graph(), {graph, size});
    const std::string text = describe_program(loaded.graph(), frame.get(), loops_of_file(loaded.graph()), names);
    *json = static_cast<char*>(std::malloc(text.size() + 1));
    if (*json == nullptr) throw std::bad_alloc();
    std::memcpy(*json, text.c_str(), text.size() + 1);
  });
}
