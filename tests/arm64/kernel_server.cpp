// Runs kernels for AArch64: a test sends their objects, arrays and sizes through standard input (wire.h). One process
// runs all kernels of a test process, because starting the emulator takes longer than most kernels run.
#include <memory>
#include <vector>

#include "runtime/error.h"
#include "runtime/loader.h"
#include "tests/arm64/wire.h"
#include "tests/backends/support_fenced_call.h"

namespace tenon::test {
namespace {

using runtime::LoadedCode;

struct Kernel {
  std::shared_ptr<const LoadedCode> code;
  tenon_kernel function;
};

void load(Wire& wire, std::vector<Kernel>& kernels) {
  const std::string object = wire.receive_text(), name = wire.receive_text();
  std::string complaint;
  try {
    const auto code = LoadedCode::load(object);
    kernels.push_back({code, code->function<std::remove_pointer_t<tenon_kernel>>(name)});
  } catch (const runtime::StatusError& error) {
    complaint = error.what();
  }
  wire.send(complaint.empty() ? static_cast<int64_t>(kernels.size()) - 1 : -1);
  wire.send(complaint);
}

void call(Wire& wire, const std::vector<Kernel>& kernels) {
  const Kernel& kernel = kernels.at(static_cast<size_t>(wire.receive()));
  std::vector<FencedArray> arrays(static_cast<size_t>(wire.receive()));
  std::vector<std::string> contents(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    std::string name = wire.receive_text();
    const int64_t alignment = wire.receive();
    const bool is_output = wire.receive() != 0;
    contents[i] = wire.receive_text();
    arrays[i] = {std::move(name), contents[i].data(), contents[i].size(), alignment, is_output};
  }
  std::vector<int64_t> sizes(static_cast<size_t>(wire.receive()));
  for (int64_t& size : sizes) size = wire.receive();
  const FencedResult result = call_fenced(kernel.function, arrays, sizes);
  wire.send(result.code);
  for (const int64_t word : result.error) wire.send(word);
  wire.send(result.complaints);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].is_output) wire.send(contents[i]);
  }
}

void serve() {
  Wire wire(stdin, stdout);
  std::vector<Kernel> kernels;
  for (Request request{}; wire.receive(&request);) {
    request == Request::kLoad ? load(wire, kernels) : call(wire, kernels);
    wire.flush();
  }
}

}  // namespace
}  // namespace tenon::test

int main() { tenon::test::serve(); }
