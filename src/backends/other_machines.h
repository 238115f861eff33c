// Compiling for devices that this machine lacks.
#pragma once

namespace tenon {

// While one exists, its thread compiles for other machines: a backend that needs no hardware to compile does not ask
// for it. The code runs from files; running it here is an error.
class ForOtherMachines {
 public:
  ForOtherMachines();
  ~ForOtherMachines();
  ForOtherMachines(const ForOtherMachines&) = delete;

  static bool is_on();

 private:
  bool around_;
};

}  // namespace tenon
