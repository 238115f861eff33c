#include "code.h"

#include <memory>

namespace tenon::cuda {

using format::Expr;
using format::ExprOp;
namespace cuda = format::cuda;

const char* const kTestPtx = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry test_add(.param .u64 x, .param .u64 y, .param .u64 out, .param .u64 count)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %i<10>;
  .reg .f32 %f<4>;
  ld.param.u64 %i0, [x];
  ld.param.u64 %i1, [y];
  ld.param.u64 %i2, [out];
  ld.param.u64 %i3, [count];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.wide.u32 %i4, %r0, %r1, 0;
  cvt.u64.u32 %i5, %r2;
  add.s64 %i4, %i4, %i5;
  mov.u32 %r3, %nctaid.x;
  mad.wide.u32 %i6, %r3, %r1, 0;
Again:
  setp.ge.s64 %p, %i4, %i3;
  @%p bra Done;
  shl.b64 %i7, %i4, 2;
  add.s64 %i8, %i0, %i7;
  ld.global.f32 %f0, [%i8];
  add.s64 %i8, %i1, %i7;
  ld.global.f32 %f1, [%i8];
  add.f32 %f2, %f0, %f1;
  add.s64 %i8, %i2, %i7;
  st.global.f32 [%i8], %f2;
  add.s64 %i4, %i4, %i6;
  bra Again;
Done:
  ret;
}

.visible .entry test_gather(.param .u64 x, .param .u64 index, .param .u64 out, .param .u64 count, .param .u64 rows, .param .u64 errors)
{
  .reg .pred %p;
  .reg .pred %q;
  .reg .b32 %r<4>;
  .reg .b64 %i<16>;
  .reg .f32 %f<4>;
  ld.param.u64 %i0, [x];
  ld.param.u64 %i1, [index];
  ld.param.u64 %i2, [out];
  ld.param.u64 %i3, [count];
  ld.param.u64 %i9, [rows];
  ld.param.u64 %i10, [errors];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.wide.u32 %i4, %r0, %r1, 0;
  cvt.u64.u32 %i5, %r2;
  add.s64 %i4, %i4, %i5;
  setp.ge.s64 %p, %i4, %i3;
  @%p bra Done;
  shl.b64 %i7, %i4, 3;
  add.s64 %i8, %i1, %i7;
  ld.global.u64 %i11, [%i8];
  setp.lt.u64 %q, %i11, %i9;
  @%q bra Inside;
  atom.global.cas.b64 %i12, [%i10], 0, 1;
  setp.ne.s64 %p, %i12, 0;
  @%p bra Done;
  st.global.u64 [%i10+8], 1;
  st.global.u64 [%i10+16], %i11;
  st.global.u64 [%i10+24], %i9;
  bra Done;
Inside:
  shl.b64 %i13, %i11, 2;
  add.s64 %i13, %i0, %i13;
  ld.global.f32 %f0, [%i13];
  shl.b64 %i14, %i4, 2;
  add.s64 %i14, %i2, %i14;
  st.global.f32 [%i14], %f0;
Done:
  ret;
}
)";

Expr CodeBuilder::leaf(ExprOp op, int64_t value) {
  code_.code.emplace_back(op, value);
  return {static_cast<uint32_t>(code_.code.size() - 1), 1};
}

Expr CodeBuilder::size_times(int64_t which, int64_t factor) {
  const Expr first = size(which);
  number(factor);
  code_.code.emplace_back(ExprOp::Mul, 0);
  return {first.first(), 3};
}

Expr CodeBuilder::blocks(int64_t which, int64_t threads) {
  const Expr first = size(which);
  number(threads - 1);
  code_.code.emplace_back(ExprOp::Add, 0);
  number(threads);
  code_.code.emplace_back(ExprOp::FloorDiv, 0);
  return {first.first(), 5};
}

CodeBuilder& CodeBuilder::buffer(Expr bytes) {
  code_.buffers.push_back(bytes);
  return *this;
}

CodeBuilder& CodeBuilder::scratch(Expr bytes, int64_t given) {
  code_.scratch = std::make_unique<Expr>(bytes);
  code_.given_scratch = given;
  return *this;
}

CodeBuilder& CodeBuilder::kernel(const std::string& entry, Expr grid, Expr block,
                                 std::vector<cuda::Argument> arguments) {
  code_.ptx = kTestPtx;
  auto step = std::make_unique<cuda::StepT>();
  step->kernel = std::make_unique<cuda::KernelT>();
  step->kernel->entry = entry;
  step->kernel->grid = std::make_unique<Expr>(grid);
  step->kernel->block = std::make_unique<Expr>(block);
  step->kernel->arguments = std::move(arguments);
  code_.steps.push_back(std::move(step));
  return *this;
}

CodeBuilder& CodeBuilder::matmul(cuda::MatmulT product) {
  auto step = std::make_unique<cuda::StepT>();
  step->matmul = std::make_unique<cuda::MatmulT>(std::move(product));
  code_.steps.push_back(std::move(step));
  return *this;
}

CodeBuilder& CodeBuilder::node(const std::string& name) {
  code_.nodes.push_back(name);
  return *this;
}

std::string CodeBuilder::bytes() {
  code_.architecture = 80;
  if (!code_.scratch) scratch(number(0));
  flatbuffers::FlatBufferBuilder builder;
  cuda::FinishCodeBuffer(builder, cuda::Code::Pack(builder, &code_));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

std::string add_code() {
  CodeBuilder code(1);
  for (int i = 0; i < 3; ++i) code.buffer(code.size_times(0, 4));
  code.kernel("test_add", code.blocks(0, 128), code.number(128),
              {CodeBuilder::buffer_argument(0, code.number(0)), CodeBuilder::buffer_argument(1, code.number(0)),
               CodeBuilder::buffer_argument(2, code.number(0)), CodeBuilder::number_argument(code.size(0))});
  return code.bytes();
}

std::string gather_code() {
  CodeBuilder code(2);
  code.buffer(code.size_times(1, 4)).buffer(code.size_times(0, 8)).buffer(code.size_times(0, 4));
  code.node("x").node("rows_of_x");
  code.kernel("test_gather", code.blocks(0, 128), code.number(128),
              {CodeBuilder::buffer_argument(0, code.number(0)), CodeBuilder::buffer_argument(1, code.number(0)),
               CodeBuilder::buffer_argument(2, code.number(0)), CodeBuilder::number_argument(code.size(0)),
               CodeBuilder::number_argument(code.size(1)), CodeBuilder::errors_argument()});
  return code.bytes();
}

}  // namespace tenon::cuda
