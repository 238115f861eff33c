// A visitor of a variant, made of lambdas: std::visit(Overloaded{[](int) {...}, [](double) {...}}, variant).
#pragma once

namespace tenon {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace tenon
