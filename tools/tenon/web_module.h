// A compiled model and the runtime that runs it, as one WebAssembly module.
#pragma once

#include <string>

namespace tenon::cli {

bool is_web_module(const std::string& path);  // by its name

// Throws an Error where there is no such runtime.
void require_web_runtime(const std::string& runtime);

// Writes a module of a .tenon file and a runtime, the tenon.wasm of `make web`; empty: that of wasm::package_folder().
// Warns of a file without code for WebAssembly. The size of the runtime in bytes.
int64_t write_web_module(const std::string& file, const std::string& runtime, const std::string& output);

}  // namespace tenon::cli
