// Kernels in Node: a process that runs WebAssembly over the memory of tenon-kernels.wasm (js/kernel_server.mjs). Both
// are in the package of `make web`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace tenon::wasm {

// The folder of the package: $TENON_WEB, else `web` beside the folder that this code was loaded from, or above it.
// Empty: there is none.
std::string package_folder();

// One process. Safe to use from several threads; calls happen one by one. The process ends with the object. Throws an
// Error where it does not start, refuses a module, or ends, and in a fork of the process that started it.
class NodeProcess {
 public:
  // What has to be there and is not, and what to do. Empty: nothing.
  static std::string missing();
  // The process of this program, started by the first call, and again if it ended.
  static std::shared_ptr<NodeProcess> get();

  NodeProcess();
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  bool has_relaxed_simd() const { return has_relaxed_simd_; }

  int64_t load(const std::string& module);  // the number of its kernel
  void unload(int64_t kernel) noexcept;

  struct Array {
    void* data;
    int64_t bytes;
    bool is_output;
  };
  // A tenon_kernel: its status, and `error`. Inputs are copied to the process, and outputs back.
  int64_t call(int64_t kernel, std::span<const Array> arrays, std::span<const int64_t> sizes,
               std::span<int64_t, 4> error);

 private:
  std::unique_lock<std::mutex> begin();
  void end() noexcept;
  void send(int64_t word);
  void send(const void* bytes, size_t count);
  int64_t receive();
  void receive(void* bytes, size_t count);
  std::string receive_text();

  std::mutex mutex_;
  int socket_ = -1;
  int process_ = 0;
  int owner_;  // The process that started Node. A fork inherits the socket, and must not use it.
  bool has_relaxed_simd_ = false;
  std::atomic<bool> has_ended_ = false;
};

}  // namespace tenon::wasm
