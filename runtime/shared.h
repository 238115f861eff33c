// Shared objects. std::make_shared makes a class of its own for each type: a table of functions, which the library
// relocates when it is loaded, and the functions. These objects are all of one class.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tenon::runtime {

// The last owner calls `destroy`. It is also called if there is no memory for the owner.
std::shared_ptr<void> owned(void* object, void (*destroy)(void* object));

template <class T, class... Arguments>
std::shared_ptr<T> new_shared(Arguments&&... arguments) {
  using Object = std::remove_const_t<T>;
  auto* const object = new Object(std::forward<Arguments>(arguments)...);
  return {owned(object, [](void* it) { delete static_cast<Object*>(it); }), object};
}

}  // namespace tenon::runtime
