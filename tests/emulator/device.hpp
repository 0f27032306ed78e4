// The part of CUDA C++ that generated kernels use, for a compiler of C++; the machine is machine.cpp.
#pragma once
#include <limits.h>
#include <string.h>

#include "machine.hpp"

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define EMULATED static __attribute__((noinline, unused, no_sanitize("kernel-address", "alignment")))

// Vectors

#define VECTORS(type, name, a2, a4)                                                                         \
  struct __attribute__((aligned(a2))) name##2 { type x, y; };                                          \
  struct __attribute__((aligned(a4))) name##4 { type x, y, z, w; };                                    \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                              \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VECTORS(signed char, char, 2, 4)
VECTORS(unsigned char, uchar, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(unsigned short, ushort, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(unsigned int, uint, 8, 16)
VECTORS(long long, longlong, 16, 16)
VECTORS(unsigned long long, ulonglong, 16, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)

// Numbers

static inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static inline int __float_as_int(float x) { return (int)emulated_bits(x); }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }

template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

// Conversions saturate; NaN becomes 0.
#define CONVERSION(kind, to, name, low, high, least, most)                                       \
  static inline to name(kind x) {                                                                \
    return x != x ? 0 : x <= (kind)(low) ? least : x >= (kind)(high) ? most : (to)x;             \
  }
#define CONVERSIONS(kind)                                                                             \
  CONVERSION(kind, int, __##kind##2int_rz, -2147483648.0, 2147483648.0, INT_MIN, INT_MAX)             \
  CONVERSION(kind, unsigned, __##kind##2uint_rz, 0.0, 4294967296.0, 0, UINT_MAX)                      \
  CONVERSION(kind, long long, __##kind##2ll_rz, -9223372036854775808.0, 9223372036854775808.0, LLONG_MIN, LLONG_MAX) \
  CONVERSION(kind, unsigned long long, __##kind##2ull_rz, 0.0, 18446744073709551616.0, 0, ULLONG_MAX)
CONVERSIONS(float)
CONVERSIONS(double)

static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long both = x | (unsigned long long)y << 32;
  unsigned made = 0;
  for (int i = 0; i < 4; ++i) made |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return made;
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }

static inline float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }

// Warps

template <class T> EMULATED T emulated_shuffled(T value, int argument, int width, bool down) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = emulated_shuffle(bits, argument, width, down);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> static inline T __shfl_down_sync(unsigned, T x, int by, int width = 32) { return emulated_shuffled(x, by, width, true); }
template <class T> static inline T __shfl_sync(unsigned, T x, int from, int width = 32) { return emulated_shuffled(x, from, width, false); }

// Atomic updates: fibers do not interrupt each other

#define ATOMIC(name, value)                                                                       \
  template <class T, class V> EMULATED T name(T* place, V given) {                                \
    T x = *place, y = (T)given;                                                                   \
    *place = value;                                                                               \
    return x;                                                                                     \
  }
ATOMIC(atomicAdd, x + y)
ATOMIC(atomicSub, x - y)
ATOMIC(atomicMin, y < x ? y : x)
ATOMIC(atomicMax, y > x ? y : x)
ATOMIC(atomicAnd, x & y)
ATOMIC(atomicOr, x | y)
ATOMIC(atomicXor, x ^ y)
ATOMIC(atomicExch, y)
template <class T> EMULATED T atomicCAS(T* place, T seen, T value) {
  T x = *place;
  if (x == seen) *place = value;
  return x;
}

// Instructions of PTX

template <class T> static inline unsigned long long emulated_raw(T x) {
  unsigned long long bits = 0;
  memcpy(&bits, &x, sizeof x);
  return bits;
}
static inline unsigned emulated_pair(unsigned low, unsigned high) { return low | high << 16; }
static inline float emulated_extreme(float a, float b, bool most) {
  return a != a || b != b ? NAN : most ? fmaxf(a, b) : fminf(a, b);
}
template <class T> static inline int emulated_dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (unsigned)((int)(T)(a >> i) * (int)(T)(b >> i));
  return (int)c;
}
static inline int __dp4a(int a, int b, int c) { return emulated_dp4a<signed char>(a, b, c); }
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return (unsigned)emulated_dp4a<unsigned char>(a, b, c); }

// Fast functions, here as exact as the others

#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
#define __fdividef(x, y) ((x) / (y))
#define __fmaf_rn(x, y, z) fmaf(x, y, z)
