// Numbers and bytes through a pair of pipes, between a test and the program that runs kernels in the emulator. Both
// machines have the same byte order.
//
//     request   object, name of the function               -> number of the kernel or -1, complaint
//     request   number of the kernel, arrays, sizes        -> code, error[4], complaints, bytes of the outputs
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

namespace tenon::test {

enum class Request : int64_t { kLoad, kCall };

class Wire {
 public:
  Wire(FILE* in, FILE* out) : in_(in), out_(out) {}

  void send(int64_t number) { send_bytes(&number, sizeof number); }
  void send(const std::string& text) {
    send(static_cast<int64_t>(text.size()));
    send_bytes(text.data(), text.size());
  }
  void send_bytes(const void* bytes, size_t size) { require(std::fwrite(bytes, 1, size, out_) == size); }
  void flush() { require(std::fflush(out_) == 0); }

  // False at the end of the input.
  bool receive(Request* request) { return std::fread(request, sizeof *request, 1, in_) == 1; }
  int64_t receive() {
    int64_t number = 0;
    receive_bytes(&number, sizeof number);
    return number;
  }
  std::string receive_text() {
    std::string text(static_cast<size_t>(receive()), '\0');
    receive_bytes(text.data(), text.size());
    return text;
  }
  void receive_bytes(void* bytes, size_t size) { require(std::fread(bytes, 1, size, in_) == size); }

 private:
  static void require(bool went_well) {
    if (!went_well) throw std::runtime_error("the program in the emulator has ended");
  }

  FILE* in_;
  FILE* out_;
};

}  // namespace tenon::test
