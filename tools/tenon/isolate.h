// Code that may crash, in a process of its own: a plug-in that somebody is writing.
#pragma once

#include <functional>
#include <string_view>

namespace tenon::cli {

// Runs `body` in a child process, which goes on after this call: the parent waits for it, and ends with its exit code.
// Where a signal or the plug-in ended the child, the parent fails with what the child did last. Call it before the
// process has threads.
void run_in_child(const std::function<void()>& body);

// What the child does, for that error: "relu/f32", and the call of the plug-in that it makes.
void note_step(std::string_view step);
void note_call(std::string_view device, const char* function);

}  // namespace tenon::cli
