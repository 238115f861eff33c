#include "tests/arm64/support_emulator.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "support/diagnostic.h"

namespace tenon::test {
namespace {

constexpr const char* kEmulator = "qemu-aarch64";
constexpr const char* kServer = "build/arm64/bin/kernel_server";

struct Ends {
  int read, write;
};

// Ends that the emulator does not inherit: it ends when this process closes its end.
Ends make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("there is no pipe: {}", std::strerror(errno));
  return {ends[0], ends[1]};
}

struct Pipes {
  Ends to = make_pipe(), from = make_pipe();
};

void start(const Pipes& pipes, int sve_bits) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipes.to.read, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, pipes.from.write, STDOUT_FILENO);
  std::string emulator = kEmulator, option = "-cpu", cpu = "max", server = kServer;
  if (sve_bits > 0) cpu += ",sve-default-vector-length=" + std::to_string(sve_bits / 8);
  std::array<char*, 5> arguments = {emulator.data(), option.data(), cpu.data(), server.data(), nullptr};
  pid_t process = 0;
  const int failure = ::posix_spawnp(&process, kEmulator, &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) fail("{} does not start: {}", kEmulator, std::strerror(failure));
  ::close(pipes.to.read);
  ::close(pipes.from.write);
}

}  // namespace

std::string Arm64Emulator::missing() {
  if (!std::filesystem::exists(kServer)) return std::string("there is no ") + kServer + ": say make arm64";
  static const bool has_emulator = std::system("command -v qemu-aarch64 >/dev/null") == 0;
  return has_emulator ? "" : "there is no qemu-aarch64: say make arm64";
}

Arm64Emulator& Arm64Emulator::get(int sve_bits) {
  static std::map<int, Arm64Emulator> emulators;
  const auto found = emulators.find(sve_bits);
  if (found != emulators.end()) return found->second;
  if (const std::string text = missing(); !text.empty()) fail("{}", text);
  std::signal(SIGPIPE, SIG_IGN);  // if the emulator ends, the next call fails
  const Pipes pipes;
  start(pipes, sve_bits);
  Arm64Emulator emulator(::fdopen(pipes.from.read, "rb"), ::fdopen(pipes.to.write, "wb"));
  return emulators.emplace(sve_bits, std::move(emulator)).first->second;
}

int64_t Arm64Emulator::load(const std::string& object, const std::string& function) {
  wire_.send(static_cast<int64_t>(Request::kLoad));
  wire_.send(object);
  wire_.send(function);
  wire_.flush();
  const int64_t kernel = wire_.receive();
  const std::string complaint = wire_.receive_text();
  if (kernel < 0) fail("{}", complaint);
  return kernel;
}

FencedResult Arm64Emulator::call(int64_t kernel, std::span<const FencedArray> arrays, std::span<const int64_t> sizes) {
  wire_.send(static_cast<int64_t>(Request::kCall));
  wire_.send(kernel);
  wire_.send(static_cast<int64_t>(arrays.size()));
  for (const FencedArray& array : arrays) {
    wire_.send(array.name);
    wire_.send(array.alignment);
    wire_.send(static_cast<int64_t>(array.is_output));
    wire_.send(static_cast<int64_t>(array.bytes));
    wire_.send_bytes(array.data, array.bytes);
  }
  wire_.send(static_cast<int64_t>(sizes.size()));
  for (const int64_t size : sizes) wire_.send(size);
  wire_.flush();
  FencedResult result{.code = wire_.receive()};
  for (int64_t& word : result.error) word = wire_.receive();
  result.complaints = wire_.receive_text();
  for (const FencedArray& array : arrays) {
    if (!array.is_output) continue;
    const std::string bytes = wire_.receive_text();
    if (!bytes.empty()) std::memcpy(array.data, bytes.data(), array.bytes);
  }
  return result;
}

}  // namespace tenon::test
