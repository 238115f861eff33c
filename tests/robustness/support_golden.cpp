#include "tests/robustness/support_golden.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "runtime/elements.h"

namespace tenon::golden {
namespace {

const char* const kFolder = "tests/golden/";

tenon_dtype dtype_named(const std::string& name) {
  for (int i = 0; i <= TENON_BOOL; ++i) {
    if (name == tenon_dtype_name(static_cast<tenon_dtype>(i))) return static_cast<tenon_dtype>(i);
  }
  std::abort();
}

Array parsed(std::istream& in) {
  Array array;
  std::string dtype;
  size_t rank = 0;
  in >> dtype >> rank;
  array.dtype = dtype_named(dtype);
  array.shape.resize(rank);
  for (int64_t& size : array.shape) in >> size;
  const auto width = static_cast<size_t>(runtime::size_of(array.dtype));
  array.data.resize(array.elements() * width);
  for (size_t i = 0; i < array.elements(); ++i) {
    double value;
    in >> value;
    std::byte* const element = array.data.data() + i * width;
    if (runtime::is_float(array.dtype))
      runtime::store_real(array.dtype, element, value);
    else
      runtime::store_integer(array.dtype, element, static_cast<int64_t>(value));
  }
  return array;
}

std::vector<Case> read_runs(const std::string& path) {
  std::ifstream file(path);
  std::vector<Case> runs;
  for (std::string role; file >> role;) {
    if (role == "run") runs.emplace_back();
    if (role == "input") runs.back().inputs.push_back(parsed(file));
    if (role == "output") runs.back().outputs.push_back(parsed(file));
  }
  return runs;
}

Array copied(const tenon_tensor& tensor) {
  Array array{tensor.dtype, {tensor.shape, tensor.shape + tensor.rank}, {}};
  array.data.resize(array.elements() * tenon_dtype_size(tensor.dtype));
  if (!array.data.empty()) std::memcpy(array.data.data(), tensor.data, array.data.size());
  return array;
}

bool same(const Array& a, const Array& b) { return a.dtype == b.dtype && a.shape == b.shape && a.data == b.data; }

bool is_near(double a, double b) { return a == b || std::fabs(a - b) <= 1e-5 * std::max(1.0, std::fabs(b)); }

bool near(const Array& a, const Array& b) {
  if (!runtime::is_float(a.dtype)) return same(a, b);
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (size_t i = 0; i < a.elements(); ++i) {
    if (!is_near(a.element(i), b.element(i))) return false;
  }
  return true;
}

}  // namespace

tenon_tensor Array::view() { return {data.data(), dtype, static_cast<int32_t>(shape.size()), shape.data(), nullptr}; }

size_t Array::elements() const {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

double Array::element(size_t i) const {
  const std::byte* const place = data.data() + i * static_cast<size_t>(runtime::size_of(dtype));
  return runtime::is_float(dtype) ? runtime::load_real(dtype, place)
                                  : static_cast<double>(runtime::load_integer(dtype, place));
}

bool identical(const std::vector<Array>& a, const std::vector<Array>& b) { return std::ranges::equal(a, b, same); }
bool close(const std::vector<Array>& a, const std::vector<Array>& b) { return std::ranges::equal(a, b, near); }

std::vector<std::string> names() {
  return {"1.0/mlp", "1.0/symbolic", "1.0/library", "1.1/library", "1.1/training", "1.1/checked", "1.2/devices"};
}

std::string label(const std::string& name) {
  std::string text = name;
  std::ranges::replace_if(text, [](char c) { return c == '.' || c == '/'; }, '_');
  return text;
}

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Artifact read(const std::string& name) { return read_path(kFolder + name); }

Artifact read_path(const std::string& path) {
  Artifact artifact{path + ".tenon", read_bytes(path + ".tenon"), read_runs(path + ".txt")};
  if (artifact.bytes.empty() || artifact.runs.empty()) {
    std::fprintf(stderr, "%s.tenon is not there; tests run in the root of the repository\n", path.c_str());
    std::abort();
  }
  return artifact;
}

tenon_status Session::load(std::span<const std::byte> bytes, bool native) {
  const tenon_load_options options{.no_native = !native};
  return tenon_load_memory(bytes.data(), bytes.size(), &options, &program);
}

tenon_status Session::load_file(const std::string& path, bool native, const char* device) {
  const tenon_load_options options{.no_native = !native, .device = device};
  return tenon_load_file(path.c_str(), &options, &program);
}

tenon_status Session::create(const tenon_context_options& options) {
  return tenon_context_create(program, &options, &context);
}

tenon_status Session::run(std::vector<Array>& inputs, std::vector<Array>* outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tenon_tensor input = inputs[i].view();
    if (const tenon_status status = tenon_set_input(context, i, &input)) return status;
  }
  if (const tenon_status status = tenon_run(context)) return status;
  outputs->clear();
  for (size_t i = 0; i < tenon_output_count(program); ++i) {
    tenon_tensor output;
    if (const tenon_status status = tenon_get_output(context, i, &output)) return status;
    outputs->push_back(copied(output));
  }
  return TENON_OK;
}

void Session::close() {
  tenon_context_free(std::exchange(context, nullptr));
  tenon_program_free(std::exchange(program, nullptr));
}

}  // namespace tenon::golden
