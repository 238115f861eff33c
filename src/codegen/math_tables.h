// Made by bench/minimax.py: the polynomials of codegen's math, and numbers in parts.
#pragma once

#include <cstdint>

#include "codegen/math_builder.h"

namespace tenon::codegen {

// (exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2.
inline constexpr double kExpF32[] = {0x1p-1, 0x1.5554a4p-3, 0x1.55552ep-5, 0x1.122ffp-7,
                                     0x1.6d0c9p-10};  // off by 2^-26.0
inline constexpr double kExpF64[] = {0x1p-1,
                                     0x1.5555555555559p-3,
                                     0x1.555555555555ap-5,
                                     0x1.111111110f721p-7,
                                     0x1.6c16c16c0fa36p-10,
                                     0x1.a01a01afd247ap-13,
                                     0x1.a01a01d3b06dep-16,
                                     0x1.71ddf80149375p-19,
                                     0x1.27e46fa8ec8efp-22,
                                     0x1.af603920d1dd8p-26,
                                     0x1.201fdabcdaad7p-29};  // off by 2^-60.3
inline constexpr Polynomial kExp = {kExpF32, kExpF64};

// the same to more digits than a sum with 1 keeps.
inline constexpr double kExpm1F32[] = {0x1p-1,        0x1.555556p-3,  0x1.5554a6p-5,
                                       0x1.111082p-7, 0x1.6d7bc2p-10, 0x1.a1b78ap-13};  // off by 2^-28.6
inline constexpr Polynomial kExpm1 = {kExpm1F32, kExpF64};

// (2^r - 1) / r, |r| <= 1/2.
inline constexpr double kExp2F32[] = {0x1.62e43p-1,  0x1.ebfbep-3,   0x1.c6aecap-5,
                                      0x1.3b298ap-7, 0x1.5f4a36p-10, 0x1.44aaecp-13};  // off by 2^-25.9
inline constexpr double kExp2F64[] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d1p-5,  0x1.3b2ab6fba4e87p-7,
    0x1.5d87fe78a214p-10,  0x1.430912f8673dap-13, 0x1.ffcbfc7665ae4p-17, 0x1.62c022549962dp-20,
    0x1.b524da31e63f3p-24, 0x1.e4ceccd30726ep-28, 0x1.ea05f09e290c2p-32, 0x1.c5029ad9dc73ep-36};  // off by 2^-56.0
inline constexpr Polynomial kExp2 = {kExp2F32, kExp2F64};

// f32: (log(1 + f) - f + f^2 / 2) / f^3; f64: (2 atanh(s) - 2s) / s^3 in s^2, s = f / (2 + f).
inline constexpr double kLogF32[] = {0x1.555546p-2,  -0x1.ffffeep-3, 0x1.99a54ap-3,  -0x1.5562dep-3, 0x1.23325cp-3,
                                     -0x1.fb4308p-4, 0x1.e656c2p-4,  -0x1.e2eee4p-4, 0x1.1b3b86p-4};  // off by 2^-29.9
inline constexpr double kLogF64[] = {0x1.5555555555593p-1, 0x1.999999997f9f4p-2, 0x1.249249422a068p-2,
                                     0x1.c71c51d866abap-3, 0x1.7466497ff9a62p-3, 0x1.39a09b9452aa5p-3,
                                     0x1.2f113997c79a1p-3};  // off by 2^-58.5
inline constexpr Polynomial kLog = {kLogF32, kLogF64};

// (sin(r) - r) / r^3 in r^2, |r| <= pi / 4.
inline constexpr double kSinF32[] = {-0x1.555544p-3, 0x1.1106bcp-7, -0x1.991648p-13};  // off by 2^-27.9
inline constexpr double kSinF64[] = {-0x1.5555555555547p-3,  0x1.111111110f578p-7,
                                     -0x1.a01a019bada9ap-13, 0x1.71de351e52a45p-19,
                                     -0x1.ae5e1e6029de8p-26, 0x1.5d7db295bd3f3p-33};  // off by 2^-57.8
inline constexpr Polynomial kSin = {kSinF32, kSinF64};

// (cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4.
inline constexpr double kCosF32[] = {0x1.55554ap-5, -0x1.6c0c1ap-10, 0x1.99e0eep-16};  // off by 2^-33.1
inline constexpr double kCosF64[] = {0x1.555555555554ap-5,  -0x1.6c16c16c14dc3p-10,
                                     0x1.a01a019c512bbp-16, -0x1.27e4f7c206defp-22,
                                     0x1.1ee9b9bbfc40cp-29, -0x1.8f9408a9e1563p-37};  // off by 2^-63.9
inline constexpr Polynomial kCos = {kCosF32, kCosF64};

// (sinh(r) - r) / r^3 in r^2, |r| <= ln(2) / 2.
inline constexpr double kSinhF32[] = {0x1.555556p-3, 0x1.110fc2p-7, 0x1.a2d72p-13};  // off by 2^-34.3
inline constexpr double kSinhF64[] = {0x1.5555555555559p-3, 0x1.111111110f5a2p-7, 0x1.a01a01b07c4abp-13,
                                      0x1.71ddf67cf822dp-19, 0x1.af62773060258p-26};  // off by 2^-61.5
inline constexpr Polynomial kSinh = {kSinhF32, kSinhF64};

// (cosh(r) - 1) / r^2 in r^2, |r| <= ln(2) / 2.
inline constexpr double kCoshF32[] = {0x1p-1, 0x1.5554e2p-5, 0x1.6d54b6p-10};  // off by 2^-33.1
inline constexpr double kCoshF64[] = {0x1.000000000000dp-1, 0x1.555555554f793p-5, 0x1.6c16c187886c8p-10,
                                      0x1.a019917433bc1p-16, 0x1.28b50ea0ec945p-22};  // off by 2^-57.8
inline constexpr Polynomial kCosh = {kCoshF32, kCoshF64};

// (asin(x) - x) / x^3 in x^2, |x| <= 1/2.
inline constexpr double kAsinF32[] = {0x1.5555cap-3, 0x1.33016cp-4, 0x1.748a12p-5, 0x1.8bb4dap-6,
                                      0x1.59cep-5};  // off by 2^-27.6
inline constexpr double kAsinF64[] = {
    0x1.5555555555578p-3, 0x1.333333332df1ep-4,  0x1.6db6db722acdfp-5, 0x1.f1c71a8be3b0ap-6, 0x1.6e8bdfdd85c5cp-6,
    0x1.1c49deb716e7cp-6, 0x1.ca2131cf127e9p-7,  0x1.75782eed09389p-7, 0x1.6186fb930d0e3p-7, 0x1.e1969c990c88fp-9,
    0x1.64ef32bc3b63bp-6, -0x1.59daecdfa1bf8p-6, 0x1.0bdb7e8dee645p-5};  // off by 2^-59.8
inline constexpr Polynomial kAsin = {kAsinF32, kAsinF64};

// (atan(x) - x) / x^3 in x^2, |x| <= tan(pi / 8).
inline constexpr double kAtanF32[] = {-0x1.55554ap-2, 0x1.9991e2p-3, -0x1.23b98cp-3, 0x1.b2217ap-4,
                                      -0x1.f2cee6p-5};  // off by 2^-30.4
inline constexpr double kAtanF64[] = {
    -0x1.5555555555554p-2, 0x1.9999999999583p-3, -0x1.249249246f494p-3, 0x1.c71c71b44de41p-4,
    -0x1.745d144e562a6p-4, 0x1.3b1364bc83ddcp-4, -0x1.110be81e830cbp-4, 0x1.e167740ea4087p-5,
    -0x1.ab3a0a80274fep-5, 0x1.6fdccaf89dd8ap-5, -0x1.0fc1b4a1fb004p-5, 0x1.e7fb16616e163p-7};  // off by 2^-63.8
inline constexpr Polynomial kAtan = {kAtanF32, kAtanF64};

// -log(erfc(x)) / x - 1, as far as erf(x) is below 1.
inline constexpr double kErfF32[] = {
    0x1.06eba8p-3,  0x1.45f3p-1,     0x1.a4f8c4p-4,  -0x1.39b7cep-6, -0x1.636f18p-13,
    0x1.b7422ap-10, -0x1.4e252ep-11, 0x1.f27daap-14, -0x1.3af44ap-17};  // off by 2^-27.8
inline constexpr double kErfF64[] = {
    0x1.06eba8214db68p-3,   0x1.45f306dc9c897p-1,   0x1.a4f4e2a1b2074p-4,   -0x1.39668593d7af1p-6,
    -0x1.b6b68beee966cp-13, 0x1.bca67bd162cd2p-10,  -0x1.35654f9df23f2p-11, 0x1.b22bc3dc20dc7p-16,
    0x1.0e7f9acf4072bp-14,  -0x1.f2afc7a564a58p-16, 0x1.c950717f47c41p-19,  0x1.7c870bbbe2a07p-19,
    -0x1.d37efa10d4065p-20, 0x1.692dc14a88846p-22,  0x1.26950a249d937p-23,  -0x1.306c5934166b9p-23,
    0x1.1a50c641eff55p-24,  -0x1.681fd862cb1b8p-26, 0x1.576d449b23d5p-28,   -0x1.f347431fc999cp-31,
    0x1.12837b5f02338p-33,  -0x1.bbaead263eb87p-37, 0x1.f1ecf015d67a5p-41,  -0x1.5acbc25c7a8c2p-45,
    0x1.c391669317813p-51};  // off by 2^-56.0
inline constexpr Polynomial kErf = {kErfF32, kErfF64};

// (1 + 2x) exp(x^2) erfc(x) - 9/8 in (x - c) / (x + c), as far as erfc(x) is above 0; c is 3 for f32, 4 for f64.
inline constexpr double kErfcF32[] = {
    0x1.062916dc18c2fp-3,  -0x1.15c0854fcbde8p-3,  -0x1.85a19649074dcp-5,  0x1.098379eea93bcp-3,
    -0x1.e88919e2fbc96p-4, 0x1.17c9898e2eb18p-4,   -0x1.85bea06033bcp-6,   0x1.4aa9b6a60d091p-9,
    0x1.fdfc36ded7447p-10, -0x1.7fd3d6f8829aap-11, -0x1.62429bc822e83p-13, 0x1.52bc7f848066dp-15};  // off by 2^-30.1
inline constexpr double kErfcF64[] = {
    0x1.ba5916e9fd7edp-4,   -0x1.1df1ad154a29fp-3,  0x1.f7f5df66fd407p-7,   0x1.16ecefcfa6283p-4,
    -0x1.9ddb23c3e735bp-4,  0x1.7fee004df2b9fp-4,   -0x1.0fb06dfe79e5bp-4,  0x1.3079edfa548b4p-5,
    -0x1.0962387a68819p-6,  0x1.49c67183c1a3bp-8,   -0x1.8d4aa50191fd2p-11, -0x1.a1de82e6f9834p-13,
    0x1.3be124cc13137p-13,  -0x1.9968f67d2fa44p-16, -0x1.78b4fbcc3f487p-17, 0x1.7f9df3fe5ae45p-18,
    0x1.466f3a2321954p-22,  -0x1.becee5440eb4bp-21, 0x1.05fe86e2cca6dp-24,  0x1.e3360f92be56bp-24,
    -0x1.08d563ae3642bp-27, -0x1.aecb419ff2716p-27, -0x1.8aecc9e33dafp-30};  // off by 2^-55.0

// log2(1 + f) / f, good for f32.
inline constexpr double kShortLog2F32[] = {
    0x1.71547652b61d5p0,   -0x1.715476519500bp-1, 0x1.ec709ddd24095p-2, -0x1.715478c2b1ae3p-2, 0x1.2776b9a512b7bp-2,
    -0x1.ec6f13dd57c51p-3, 0x1.a61a7accfcdadp-3,  -0x1.718ae9286992p-3, 0x1.483533835afedp-3,  -0x1.23cbbae811d5dp-3,
    0x1.09f5c1f95aba4p-3,  -0x1.1341fc64bc943p-3, 0x1.129db0673abe3p-3, -0x1.25c5e0d7ccf6ap-4};  // off by 2^-37.9

// 2^r, |r| <= 1/2, good for f32.
inline constexpr double kShortExp2F32[] = {0x1.ffffffffa5a81p-1,  0x1.62e42fef6bf8p-1,  0x1.ebfbe0ac2366dp-3,
                                           0x1.c6b08e08b8669p-5,  0x1.3b29d6f6d00c6p-7, 0x1.5d8713de76cap-10,
                                           0x1.446de33c13d4cp-13, 0x1.00f8c4ae372e9p-16};  // off by 2^-34.5

// (2 atanh(s) - 2s - 2/3 s^3) / s^5 in s^2.
inline constexpr double kLongLogF64[] = {0x1.9999999999b33p-2, 0x1.249249245776dp-2, 0x1.c71c722df2562p-3,
                                         0x1.745ce9b11aa43p-3, 0x1.3b1ef57e804bdp-3, 0x1.0f7f04969f955p-3,
                                         0x1.0e4b47c67a921p-3};  // off by 2^-65.3

// erfinv(x) / x in w - 2.5 (f32; w is -log(1 - x^2)) or w - 1 (f64).
inline constexpr double kErfinvCenterF32[] = {0x1.805c5d01d2efbp0,    0x1.f91e8b3dcb463p-3,  -0x1.11c3f394795bep-8,
                                              -0x1.48667e8b7ec8dp-10, 0x1.c9be52b62e47p-13,  -0x1.4cdaf96e48dcap-18,
                                              -0x1.cc285637b172dp-19, 0x1.f3c7aba741bdep-22, 0x1.2235376db769ep-26,
                                              -0x1.2c55e790aa368p-27, 0x1.c28d8422ac69ep-32};  // off by 2^-28.3
inline constexpr double kErfinvCenterF64[] = {
    0x1.209b9bb73e395p0,    0x1.fb8fccc60652p-3,    0x1.16931130fac82p-8,   -0x1.3779be7c1d0bbp-9,
    0x1.a3f0f04a4cb2bp-14,  0x1.4075e58068316p-15,  -0x1.1eee00dce929ap-18, -0x1.2f73f6b065ba3p-21,
    0x1.06ac9215fb3e5p-23,  0x1.9f1302c1319bep-28,  -0x1.9fa42ba2c73c4p-29, 0x1.24011bba2a65cp-36,
    0x1.29402f12c6cabp-34,  -0x1.06ced34d2ea6ep-38, -0x1.7de6a15803609p-40, 0x1.52c860df0f783p-43,
    0x1.990f303aeb385p-46,  -0x1.a67de3146e114p-49, -0x1.70150b77c358dp-50, 0x1.f3d5d9caca19fp-52,
    -0x1.21acc0493f556p-54, 0x1.675ea0c6ed222p-58,  -0x1.5434afb07d5dcp-63, -0x1.2285bc0269353p-67,
    0x1.ee6eff6dca51fp-71,  -0x1.a54d52286fe06p-76};  // off by 2^-54.0

// the same in sqrt(w) - 3.125 or sqrt(w) - 3.25.
inline constexpr double kErfinvTailF32[] = {
    0x1.7aaa3c10d38eep1,    0x1.00f3b5659b23fp0,   0x1.cde63e300a6ep-8,    -0x1.5b6b4d8ef4d12p-8,
    0x1.f112e1eb88f43p-9,   -0x1.4a11679357792p-9, 0x1.4d54188305c3ep-10,  -0x1.5f8cd90a47cb7p-12,
    -0x1.e503f13c4419dp-14, 0x1.39217f911ecbep-13, -0x1.f9ce7627b0d39p-16, -0x1.7b944e2af17e9p-17};  // off by 2^-29.2
inline constexpr double kErfinvTailF64[] = {
    0x1.8abcc380d5a48p1,   0x1.0158a6d641d54p0,    0x1.5ffcfe5b628fbp-8,   -0x1.ebadabb9f72b6p-9,
    0x1.468eecaed03ffp-9,  -0x1.ba9240dc0132p-10,  0x1.f3cc520795062p-11,  -0x1.7448bbcad7f6p-12,
    0x1.9332996b55d2fp-16, 0x1.1e6a94d1ef45ep-14,  -0x1.8d04ab5ec4e4dp-15, 0x1.a248fe715a30dp-17,
    0x1.8eb84fe6ba2ep-19,  -0x1.0baf4bbabdfd5p-18, 0x1.6cae25384f859p-20,  -0x1.5deb73947dac3p-26,
    0x1.4d207b1500218p-27, 0x1.0457b2e6dad34p-23,  -0x1.774788d1dae2p-22,  -0x1.e384415693d17p-28,
    0x1.08f7f9e262c0ap-22, -0x1.848d568bcaca9p-29, -0x1.42a5f7ffefd4cp-24};  // off by 2^-53.3

// the same in sqrt(w) - 5.
inline constexpr double kErfinvEndF64[] = {
    0x1.3664ddd1ad7fbp2,   0x1.02a30d1fba10bp0,    -0x1.22ea5df2599efp-13, -0x1.c2f36aa141337p-13,
    0x1.3ebf4f1ee8952p-14, -0x1.4a34905312be4p-16, 0x1.2fbce177e2a18p-18,  -0x1.0a902be1fa45bp-20,
    0x1.ebf96fc38fe11p-23, -0x1.223a8ad78dce3p-24, 0x1.effcd2757b58dp-26,  -0x1.054e1e2e96af5p-26,
    0x1.18150b91d674ap-27, -0x1.e68aa8413c9a8p-29, 0x1.d9c41a4be9b31p-31,  -0x1.9c8444a252222p-32,
    0x1.ebc24ed2f8f13p-32, 0x1.a0a2dd63838dcp-37,  -0x1.ab1c893eb1e38p-33, 0x1.c9f7f51ee6e68p-38,
    0x1.2b134cde1bc4fp-35};  // off by 2^-53.4

// ---- numbers in parts: a product of a leading part with a small whole number is exact
inline constexpr double kLn2F32[] = {0x1.63p-1, -0x1.bd0106p-13};                         // ln(2)
inline constexpr double kLn2F64[] = {0x1.62e42fefa4p-1, -0x1.8432a1b0e2634p-43};          // ln(2)
inline constexpr double kLog10Of2F32[] = {0x1.344p-2, 0x1.3509f8p-18};                    // log10(2)
inline constexpr double kLog10Of2F64[] = {0x1.34413509f8p-2, -0x1.80433b83b532ap-44};     // log10(2)
inline constexpr double kLog2eF32[] = {0x1.715476p0, 0x1.4ae0cp-26};                      // 1 / ln(2)
inline constexpr double kLog2eF64[] = {0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56};       // 1 / ln(2)
inline constexpr double kLog10eF32[] = {0x1.bcb7b2p-2, -0x1.5b235ep-27};                  // 1 / ln(10)
inline constexpr double kLog10eF64[] = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};     // 1 / ln(10)
inline constexpr double kTwoThirds[] = {0x1.5555555555555p-1, 0x1.5555555555555p-55};     // 2/3
inline constexpr double kHalfPiF32[] = {0x1.921fb6p0, -0x1.777a5cp-25, -0x1.ee59dap-50};  // pi / 2
inline constexpr double kHalfPiF64[] = {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};  // pi / 2
inline constexpr double kHalfPiShort[] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                                          0x1.b839a252049c1p-104};  // pi / 2 for targets without fma

// 2 / pi, in 32 bits each; the third ends before the point.
inline constexpr uint32_t kTwoOverPi[] = {
    0x00000000, 0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5,
    0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7,
    0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d, 0xa9e39161,
};

}  // namespace tenon::codegen
