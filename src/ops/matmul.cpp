// Contractions.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "loops/lower.h"
#include "ops/accumulate.h"
#include "ops/common.h"

namespace tenon::ops {
namespace {

// "bik,bkj->bij": one letter for each dimension of a, of b and of the result.
struct Spec {
  std::string a;
  std::string b;
  std::string out;
};

void check_letters(std::string_view letters, std::string_view spec) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!std::isalpha(static_cast<unsigned char>(letters[i]))) {
      fail("'{}' in spec \"{}\" is not a letter", letters[i], spec);
    }
    if (letters.find(letters[i], i + 1) != letters.npos) {
      fail("'{}' appears twice in \"{}\" of spec \"{}\"", letters[i], letters, spec);
    }
  }
}

Spec parse_spec(const std::string& text) {
  const size_t comma = text.find(',');
  const size_t arrow = text.find("->");
  if (comma == text.npos || arrow == text.npos || arrow < comma) fail("spec \"{}\" must look like \"ik,kj->ij\"", text);
  Spec spec{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
  for (const std::string* letters : {&spec.a, &spec.b, &spec.out}) check_letters(*letters, text);
  return spec;
}

bool has(const std::string& letters, char letter) { return letters.find(letter) != letters.npos; }

using LetterSizes = std::map<char, Expr>;

void add_letter_sizes(LetterSizes& sizes, const std::string& letters, const TensorType& type, const Facts& facts) {
  if (letters.size() != type.shape.size()) fail("\"{}\" does not name the dimensions of {}", letters, to_string(type));
  for (size_t dim = 0; dim < letters.size(); ++dim) {
    const auto [found, added] = sizes.emplace(letters[dim], type.shape[dim]);
    if (!added && !facts.equal(found->second, type.shape[dim])) {
      fail("'{}' stands for size {} and for size {}", letters[dim], found->second, type.shape[dim]);
    }
  }
}

LetterSizes letter_sizes(const OpView& c, const Spec& spec, const Facts& facts) {
  LetterSizes sizes;
  add_letter_sizes(sizes, spec.a, c.type(0), facts);
  add_letter_sizes(sizes, spec.b, c.type(1), facts);
  return sizes;
}

void require_one_dtype(const OpView& c) {
  const std::vector<TensorType> types = c.present_types();
  for (const TensorType& type : types) {
    if (type.dtype != types[0].dtype) {
      fail("operands must have one dtype, got {} and {}", to_string(types[0]), to_string(type));
    }
  }
}

Types contract_type(InferContext& c) {
  require_one_dtype(c);
  const Spec spec = parse_spec(c.string("spec"));
  const LetterSizes sizes = letter_sizes(c, spec, c.facts());
  Shape shape;
  for (char letter : spec.out) {
    if (!sizes.contains(letter)) fail("'{}' of the result is a dimension of neither operand", letter);
    shape.push_back(sizes.at(letter));
  }
  return {{c.type(0).dtype, std::move(shape)}};
}

// A tensor as seen from the loop over `letters`: one stride for each, 0 where it has no such dimension.
Sizes strides_over(const std::string& letters, const std::string& own, const Tensor& tensor) {
  Sizes strides;
  for (char letter : letters) {
    const size_t dim = own.find(letter);
    strides.push_back(dim == own.npos ? 0 : tensor.strides()[dim]);
  }
  return strides;
}

int64_t dot(const Sizes& index, const Sizes& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

// For each index of the result: the sum over the letters that it does not have.
void run_contract(ReferenceContext& c) {
  const Spec spec = parse_spec(c.string("spec"));
  const LetterSizes sizes = letter_sizes(c, spec, {});
  std::string summed;
  for (const auto& [letter, size] : sizes) summed += has(spec.out, letter) ? "" : std::string(1, letter);
  Sizes summed_sizes;
  for (char letter : summed) summed_sizes.push_back(sizes.at(letter).constant());
  const Sizes a_outer = strides_over(spec.out, spec.a, c.in(0)), a_inner = strides_over(summed, spec.a, c.in(0));
  const Sizes b_outer = strides_over(spec.out, spec.b, c.in(1)), b_inner = strides_over(summed, spec.b, c.in(1));
  for_each_index(c.out().shape(), [&](const Sizes& outer) {
    Accumulator sum(c.out().dtype());
    for_each_index(summed_sizes, [&](const Sizes& inner) {
      const int64_t a = dot(outer, a_outer) + dot(inner, a_inner);
      const int64_t b = dot(outer, b_outer) + dot(inner, b_inner);
      sum.add_product(c.in(0), a, c.in(1), b);
    });
    sum.store(c.out(), c.out().offset(outer));
  });
}

// The products over all letters, those of the result first, and then the sum over the others.
void lower_contract(LoopContext& l) {
  const Spec spec = parse_spec(l.string("spec"));
  std::string letters = spec.out;
  Shape shape = l.result().shape;
  std::vector<int64_t> summed;
  for (const auto& [letter, size] : letter_sizes(l, spec, l.facts())) {
    if (has(spec.out, letter)) continue;
    summed.push_back(std::ssize(shape));
    letters += letter;
    shape.push_back(size);
  }
  const auto over_letters = [&](size_t operand, const std::string& own) {
    LoopValue x = l.wide(l.in(operand));
    LoopDims dims;
    for (char letter : letters) dims.push_back(has(own, letter) ? x.dims[own.find(letter)] : loops::VarRef());
    return LoopValue{x.node, std::move(dims)};
  };
  const LoopValue products = l.compute("mul", {over_letters(0, spec.a), over_letters(1, spec.b)});
  l.out(l.cast(l.fold("add", products, shape, summed), l.result().dtype));
}

// The gradient of an operand is the contraction of the result's gradient with the other operand. A letter that only
// this operand has was summed: its gradient is the same along it.
Value contract_gradient(GradContext& g, const std::string& letters, const std::string& out, const std::string& other,
                        Value other_value, const Shape& shape) {
  std::string kept;
  Shape kept_shape;
  for (size_t dim = 0; dim < letters.size(); ++dim) {
    const bool known = has(out, letters[dim]) || has(other, letters[dim]);
    if (known) kept += letters[dim];
    kept_shape.push_back(known ? shape[dim] : Expr(1));
  }
  const Value contracted = g.contract(g.dout(), other_value, fmt::format("{},{}->{}", out, other, kept));
  return g.expand(g.reshape(contracted, kept_shape), shape);
}

// A multiplication and an addition for each combination of letters.
double contract_flops(const OpView& view, const TensorType&) {
  double flops = 2;
  for (const auto& [letter, size] : letter_sizes(view, parse_spec(view.string("spec")), {})) {
    flops *= static_cast<double>(size.constant());
  }
  return flops;
}

// PyTorch adds in the dtype of the operands: where large values cancel, it depends on the order.
constexpr bool kSpecialValues = false;

const OpDef kContract{
    .name = "contract",
    .family = "matmul",
    .doc =
        "A sum of products over named dimensions. The spec `\"bik,bkj->bij\"` gives each dimension of `a`, `b` and the "
        "result a letter; letters that the result lacks are summed. Nothing broadcasts.",
    .operands = std::vector<OperandDef>{{"a", kNumbers}, {"b", kNumbers}},
    .attrs = {{"spec", AttrKind::kString, "the letters of a, b and the result"}},
    .infer = contract_type,
    .semantics = reference(run_contract),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Spec spec = parse_spec(g.string("spec"));
      return {contract_gradient(g, spec.a, spec.out, spec.b, g.in(1), g.in(0).shape()),
              contract_gradient(g, spec.b, spec.out, spec.a, g.in(0), g.in(1).shape())};
    }),
    .loops = lower_contract,
    .role = Role::kContraction,
    .flops = contract_flops,
    .peer = torch_is("torch.einsum(spec, a, b).to(a.dtype)"),
    .samples =
        Samples{"T[2, 3], T[3, 4]; spec=\"ik,kj->ij\"", "T[2, 3, 4], T[2, 4, 5]; spec=\"bik,bkj->bij\"",
                "T[2, 3], T[4, 3]; spec=\"ik,jk->ji\"", "T[3], T[3]; spec=\"k,k->\"", "T[], T[]; spec=\",->\"",
                "T[3], T[2]; spec=\"i,j->ij\"", "T[3], T[]; spec=\"i,->i\"", "T[3], T[3]; spec=\"i,i->i\"",
                "T[2, 3], T[4, 5]; spec=\"ik,jl->i\"", "T[2, 3], T[4]; spec=\"ij,k->kj\"",
                "T[2, 0], T[0, 3]; spec=\"ik,kj->ij\"", "T[0, 2], T[2, 3]; spec=\"ik,kj->ij\"",
                "T[2, 1], T[1, 3]; spec=\"ik,kj->ij\"", "T[2, 2, 3], T[3, 2, 2]; spec=\"abc,cAb->Aa\"",
                "T[40], T[40]; spec=\"K,K->\"", "i8[2, 3] in -128..127, i8[3, 2] in -128..127; spec=\"ik,kj->ij\""},
    .special_values = kSpecialValues,
};

// ---- matmul: PyTorch's rules for vectors, matrices and batches, said as one contraction -----------------------------

void require_dimensions(const TensorType& type) {
  if (type.rank() == 0) fail("operands need at least one dimension, got {}", to_string(type));
}

std::span<const Expr> batch_of(const TensorType& type) {
  return std::span(type.shape).first(type.rank() < 2 ? 0 : type.shape.size() - 2);
}

Shape matmul_shape(const TensorType& a, const TensorType& b, const Facts& facts) {
  require_dimensions(a);
  require_dimensions(b);
  const Expr& left = a.shape.back();
  const Expr& right = b.size(std::max<int64_t>(b.rank() - 2, 0));
  if (!facts.equal(left, right)) {
    fail("cannot multiply {} by {}: inner sizes {} and {} differ", to_string(a), to_string(b), left, right);
  }
  Shape shape = broadcast(batch_of(a), batch_of(b));
  if (a.rank() > 1) shape.push_back(a.size(a.rank() - 2));
  if (b.rank() > 1) shape.push_back(b.shape.back());
  return shape;
}

// Batch dimension i of the result is the letter 'a' + i; the matrix dimensions are R, K and C.
constexpr size_t kMostBatchDims = 26;

// An operand without its stretched batch dimensions: a contraction needs no copies of it.
struct Unstretched {
  Value value;
  std::string letters;
};

Unstretched unstretch(Builder& b, Value x, const Shape& batch, std::string_view matrix_letters) {
  const size_t own = x.shape().size() - matrix_letters.size();
  Shape kept;
  std::string letters;
  for (size_t dim = 0; dim < own; ++dim) {
    const size_t position = batch.size() - own + dim;
    if (x.shape()[dim] != batch[position]) continue;
    kept.push_back(batch[position]);
    letters += static_cast<char>('a' + position);
  }
  kept.insert(kept.end(), x.shape().begin() + static_cast<int64_t>(own), x.shape().end());
  return {b.reshape(x, kept), letters.append(matrix_letters)};
}

std::string batch_letters(size_t count) {
  if (count > kMostBatchDims) fail("{} batch dimensions are too many: at most {} are supported", count, kMostBatchDims);
  std::string letters;
  for (size_t i = 0; i < count; ++i) letters += static_cast<char>('a' + i);
  return letters;
}

// A vector acts as a row on the left and as a column on the right.
Value multiply(Builder& builder, Value a, Value b) {
  const Shape batch = broadcast(batch_of(a.type()), batch_of(b.type()));
  const std::string out = batch_letters(batch.size()) + (a.rank() > 1 ? "R" : "") + (b.rank() > 1 ? "C" : "");
  const Unstretched left = unstretch(builder, a, batch, a.rank() > 1 ? "RK" : "K");
  const Unstretched right = unstretch(builder, b, batch, b.rank() > 1 ? "KC" : "K");
  return builder.contract(left.value, right.value, fmt::format("{},{}->{}", left.letters, right.letters, out));
}

const OpDef kMatmul{
    .name = "matmul",
    .family = "matmul",
    .doc = "The matrix product with PyTorch's rules: vectors act as a row or a column, leading dimensions broadcast.",
    .operands = std::vector<OperandDef>{{"a", kNumbers}, {"b", kNumbers}},
    .infer = [](InferContext& c) -> Types {
      require_one_dtype(c);
      return {{c.type(0).dtype, matmul_shape(c.type(0), c.type(1), c.facts())}};
    },
    .semantics = composite([](ExpandContext& e) { return multiply(e, e.in(0), e.in(1)); }),
    .gradient = ByExpansion{},
    .cost = Cost::kProduct,
    .peer = torch_is("torch.matmul(a, b)"),
    .samples = Samples{"T[2, 3], T[3, 4]", "T[3], T[3]", "T[3], T[3, 2]", "T[2, 3], T[3]", "T[3], T[2, 3, 4]",
                       "T[2, 4, 3], T[3]", "T[2, 3, 4], T[4, 2]", "T[3, 4], T[2, 4, 2]", "T[2, 3, 4], T[2, 4, 2]",
                       "T[2, 1, 2, 3], T[4, 3, 1]", "T[1, 2, 3], T[2, 3, 2]", "T[1, 1, 2], T[1, 2, 1]",
                       "T[0, 3], T[3, 2]", "T[2, 0], T[0, 3]", "T[0], T[0]", "T[0, 2, 3], T[3, 2]"},
    .special_values = kSpecialValues,
};

Types linear_type(InferContext& c) {
  require_one_dtype(c);
  const TensorType& x = c.type(0);
  const TensorType& weight = c.type(1);
  if (weight.rank() != 2) fail("the weight must be a matrix [out, in], got {}", to_string(weight));
  require_dimensions(x);
  if (!c.facts().equal(x.shape.back(), weight.size(1))) {
    fail("{} has {} features, but the weight {} takes {}", to_string(x), x.shape.back(), to_string(weight),
         weight.size(1));
  }
  if (c.has(2)) check_broadcasts_to(c.type(2).shape, std::span(weight.shape).first(1));
  Shape shape = x.shape;
  shape.back() = weight.size(0);
  return {{x.dtype, std::move(shape)}};
}

const OpDef kLinear{
    .name = "linear",
    .family = "matmul",
    .doc = "x times the transposed weight, plus bias: the fully connected layer.",
    .operands = std::vector<OperandDef>{{"x", kNumbers}, {"weight", kNumbers}, {"bias", kNumbers, Arity::kOptional}},
    .infer = linear_type,
    .semantics = composite([](ExpandContext& e) {
      const std::string rows = batch_letters(e.in(0).shape().size() - 1);
      const Value product = e.contract(e.in_wide(0), e.in_wide(1), fmt::format("{}K,CK->{}C", rows, rows));
      return e.cast(e.has(2) ? product + e.in_wide(2) : product, e.in(0).dtype());
    }),
    .gradient = ByExpansion{},
    .cost = Cost::kProduct,
    .peer = torch_is("F.linear(x, weight, bias)"),
    .samples =
        Samples{"T[2, 3], T[4, 3], T[4]", "T[2, 3], T[4, 3], none", "T[3], T[4, 3], T[4]", "T[2, 2, 3], T[1, 3], T[1]",
                "T[2, 1, 2, 3], T[4, 3], none", "T[0, 3], T[4, 3], T[4]", "T[2, 0], T[4, 0], T[4]"},
    .special_values = kSpecialValues,
};

bool is_zero(const Attr& number) {
  const auto* real = std::get_if<double>(&number);
  return real ? *real == 0 : std::get<Expr>(number).is_constant(0);
}

bool is_one(const Attr& number) {
  const auto* real = std::get_if<double>(&number);
  return real ? *real == 1 : std::get<Expr>(number).is_constant(1);
}

Value scaled(Builder& b, Value x, const Attr& number) { return is_one(number) ? x : x * b.full(number, {}, x.dtype()); }

const OpDef kAddmm{
    .name = "addmm",
    .family = "matmul",
    .doc =
        "beta * input + alpha * (a @ b) of two matrices. The input broadcasts; with beta 0 it is not read, so that its "
        "NaN does not spread.",
    .operands = std::vector<OperandDef>{{"input", kNumbers}, {"a", kNumbers}, {"b", kNumbers}},
    .attrs = {{"beta", AttrKind::kScalar, "factor of the input", Attr(Expr(1))},
              {"alpha", AttrKind::kScalar, "factor of the product", Attr(Expr(1))}},
    .infer = [](InferContext& c) -> Types {
      require_one_dtype(c);
      if (c.type(1).rank() != 2 || c.type(2).rank() != 2) {
        fail("a and b must be matrices, got {} and {}", to_string(c.type(1)), to_string(c.type(2)));
      }
      for (std::string_view name : {"beta", "alpha"}) {
        const bool real = std::holds_alternative<double>(c.attr(name));
        if (real && is_integral(c.type(0).dtype)) fail("{} must be an integer for {}", name, to_string(c.type(0)));
      }
      Shape shape = matmul_shape(c.type(1), c.type(2), c.facts());
      check_broadcasts_to(c.type(0).shape, shape);
      return {{c.type(0).dtype, std::move(shape)}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value product = scaled(e, multiply(e, e.in_wide(1), e.in_wide(2)), e.attr("alpha"));
      const bool reads_input = !is_zero(e.attr("beta"));
      return e.cast(reads_input ? scaled(e, e.in_wide(0), e.attr("beta")) + product : product, e.in(0).dtype());
    }),
    .gradient = ByExpansion{},
    .cost = Cost::kProduct,
    .peer = torch_is("torch.addmm(input, a, b, beta=beta, alpha=alpha)"),
    .samples = Samples{"T[4], T[2, 3], T[3, 4]", "T[2, 4], T[2, 3], T[3, 4]; beta=2, alpha=3", "T[], T[2, 3], T[3, 1]",
                       "T[2, 1], T[2, 3], T[3, 4]; beta=0", "f32[2, 1], f32[2, 3], f32[3, 4]; beta=0.5, alpha=-1.5",
                       "bf16[4], bf16[2, 3], bf16[3, 4]; beta=0.5, alpha=0.1", "T[4], T[2, 0], T[0, 4]; beta=2",
                       "T[4], T[0, 3], T[3, 4]", "T[1, 1], T[1, 1], T[1, 1]"},
    .special_values = kSpecialValues,
};

}  // namespace

OpRefs matmul_ops() { return {&kContract, &kMatmul, &kLinear, &kAddmm}; }

}  // namespace tenon::ops
