// The artifacts of tests/golden/, and how a test runs them through the C interface.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::golden {

// A tensor with memory of its own, row-major.
struct Array {
  tenon_dtype dtype = TENON_F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  tenon_tensor view();
  size_t elements() const;
  double element(size_t i) const;
};
bool identical(const std::vector<Array>& a, const std::vector<Array>& b);
// Floats to a relative error of 1e-5, the rest exactly.
bool close(const std::vector<Array>& a, const std::vector<Array>& b);

struct Case {
  std::vector<Array> inputs;
  std::vector<Array> outputs;
};

struct Artifact {
  std::string path;
  std::vector<std::byte> bytes;
  std::vector<Case> runs;  // one after the other, of one context
};

std::vector<std::string> names();             // "1.0/mlp"
std::string label(const std::string& name);   // for a test: "1_0_mlp"
Artifact read(const std::string& name);       // aborts where it is not there
Artifact read_path(const std::string& path);  // PATH.tenon and PATH.txt
std::vector<std::byte> read_bytes(const std::string& path);

// A program and a context, freed when they go.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  ~Session() { close(); }

  tenon_status load(std::span<const std::byte> bytes, bool native);
  tenon_status load_file(const std::string& path, bool native, const char* device = nullptr);
  tenon_status create(const tenon_context_options& options = {});
  // Outputs only where all went well. The inputs must stay until the next run.
  tenon_status run(std::vector<Array>& inputs, std::vector<Array>* outputs);
  void close();

  tenon_program* program = nullptr;
  tenon_context* context = nullptr;
};

}  // namespace tenon::golden
