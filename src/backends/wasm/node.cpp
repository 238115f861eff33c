#include "backends/wasm/node.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "support/diagnostic.h"
#include "support/program.h"
#include "support/text.h"

namespace tenon::wasm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNode = "node";
constexpr const char* kServer = "kernel_server.mjs";
constexpr const char* kRelaxedFlag = "--experimental-wasm-relaxed-simd";  // of Node 20 and older
enum Request : int64_t { kLoad = 1, kCall = 2, kUnload = 3 };

bool is_package(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kServer, ignored) && fs::exists(folder / "tenon-kernels.wasm", ignored);
}

fs::path own_folder() {
  Dl_info info = {};
  ::dladdr(reinterpret_cast<void*>(&package_folder), &info);
  std::error_code ignored;
  return info.dli_fname ? fs::weakly_canonical(info.dli_fname, ignored).parent_path() : fs::path();
}

// Starts a program whose input and output are the socket.
int start(const std::vector<std::string>& command, int socket) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int failure = ::posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) fail("{} does not start: {}", command[0], std::strerror(failure));
  return process;
}

// Node 21 and newer have relaxed SIMD, and refuse the flag of those before.
bool wants_relaxed_flag() {
  static const bool wants = std::system(fmt::format("{} {} -e 0 >/dev/null 2>&1", kNode, kRelaxedFlag).c_str()) == 0;
  return wants;
}

}  // namespace

std::string package_folder() {
  if (const std::string chosen = environment("TENON_WEB"); !chosen.empty()) return is_package(chosen) ? chosen : "";
  for (fs::path folder = own_folder(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (is_package(folder / "web")) return (folder / "web").string();
  }
  return "";
}

std::string NodeProcess::missing() {
  if (!can_run(kNode)) return "Node (the program `node`)";
  if (package_folder().empty()) return "the package of `make web`, whose folder TENON_WEB may name";
  return "";
}

std::shared_ptr<NodeProcess> NodeProcess::get() {
  static std::mutex mutex;
  static std::shared_ptr<NodeProcess> node;
  const std::lock_guard lock(mutex);
  if (!node || node->has_ended_ || node->owner_ != ::getpid()) node = std::make_shared<NodeProcess>();
  return node;
}

NodeProcess::NodeProcess() : owner_(::getpid()) {
  if (const std::string text = missing(); !text.empty()) fail("backend wasm needs {}", text);
  std::array<int, 2> ends;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail("there is no socket for Node: {}", std::strerror(errno));
  socket_ = ends[0];
  std::vector<std::string> command = {kNode, (fs::path(package_folder()) / kServer).string()};
  if (wants_relaxed_flag()) command.insert(command.begin() + 1, kRelaxedFlag);
  try {
    process_ = start(command, ends[1]);
    ::close(ends[1]);
    ends[1] = -1;
    has_relaxed_simd_ = receive() != 0;
  } catch (...) {
    if (ends[1] >= 0) ::close(ends[1]);
    end();
    throw;
  }
}

NodeProcess::~NodeProcess() { end(); }

// Without the socket, Node ends; closed alone, a fork would keep it open.
void NodeProcess::end() noexcept {
  const bool is_own = owner_ == ::getpid();
  if (is_own) ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
  if (is_own && process_ > 0) ::waitpid(process_, nullptr, 0);
}

// The conversation of one request.
std::unique_lock<std::mutex> NodeProcess::begin() {
  if (owner_ != ::getpid())
    fail("a kernel of backend wasm runs in the process that compiled it: compile it after a fork");
  return std::unique_lock(mutex_);
}

int64_t NodeProcess::load(const std::string& module) {
  const auto lock = begin();
  send(kLoad);
  send(static_cast<int64_t>(module.size()));
  send(module.data(), module.size());
  const int64_t kernel = receive();
  if (kernel < 0) fail("Node refuses a kernel: {}", receive_text());
  return kernel;
}

void NodeProcess::unload(int64_t kernel) noexcept {
  if (has_ended_ || owner_ != ::getpid()) return;
  try {
    const auto lock = begin();
    send(kUnload);
    send(kernel);
  } catch (const Error&) {  // It ended, and its kernels with it.
  }
}

int64_t NodeProcess::call(int64_t kernel, std::span<const Array> arrays, std::span<const int64_t> sizes,
                          std::span<int64_t, 4> error) {
  const auto lock = begin();
  send(kCall);
  send(kernel);
  send(static_cast<int64_t>(arrays.size()));
  for (const Array& array : arrays) {
    send(array.bytes);
    send(int64_t{array.is_output});
    if (!array.is_output) send(array.data, static_cast<size_t>(array.bytes));
  }
  send(static_cast<int64_t>(sizes.size()));
  for (const int64_t size : sizes) send(size);
  const int64_t status = receive();
  if (status < 0) fail("Node cannot run a kernel: {}", receive_text());
  for (int64_t& word : error) word = receive();
  if (status != 0) return status;
  for (const Array& array : arrays) {
    if (array.is_output) receive(array.data, static_cast<size_t>(array.bytes));
  }
  return status;
}

// ---- the socket -----------------------------------------------------------------------------------------------------

void NodeProcess::send(int64_t word) { send(&word, sizeof word); }

void NodeProcess::send(const void* bytes, size_t count) {
  for (const char* at = static_cast<const char*>(bytes); count > 0;) {
    const ssize_t sent = ::send(socket_, at, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      has_ended_ = true;
      fail("the Node that runs kernels ended");
    }
    at += sent;
    count -= static_cast<size_t>(sent);
  }
}

int64_t NodeProcess::receive() {
  int64_t word = 0;
  receive(&word, sizeof word);
  return word;
}

void NodeProcess::receive(void* bytes, size_t count) {
  for (char* at = static_cast<char*>(bytes); count > 0;) {
    const ssize_t got = ::recv(socket_, at, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      has_ended_ = true;
      fail("the Node that runs kernels ended");
    }
    at += got;
    count -= static_cast<size_t>(got);
  }
}

std::string NodeProcess::receive_text() {
  std::string text(static_cast<size_t>(receive()), '\0');
  receive(text.data(), text.size());
  return text;
}

}  // namespace tenon::wasm
