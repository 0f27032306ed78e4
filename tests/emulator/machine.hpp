// What machine.cpp offers to kernels; see there.
#pragma once
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // C's own header: that of C++17 takes half of the time to compile a kernel
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <stddef.h>

struct Index3 {
  unsigned x, y, z;
};
extern Index3 threadIdx, blockIdx, blockDim, gridDim;

enum Type { F16, BF16, TF32, S8, U8, F64 };
enum Sums { SUM_F16, SUM_F32, SUM_S32, SUM_F64 };

struct Product {  // mma.sync: the words of a lane
  int m, k, a_count, b_count;
  Type type;
  Sums sums;
  void* d[4];
  unsigned long long a[4], b[2];
};

struct GroupProduct {  // wgmma: the registers of a lane, and the matrices in shared memory
  int n, k;
  Type type;
  Sums sums;
  unsigned long long a, b;
  bool turned;  // lines of b have 64 columns of one term each
  void* d[128];
};

[[gnu::format(printf, 1, 2)]] void fail(const char* format, ...);
void __syncthreads();
int __all_sync(unsigned mask, int holds);
void __syncwarp(unsigned mask = 0xffffffffu);
unsigned long long emulated_shuffle(unsigned long long value, int argument, int width, bool down);
void emulated_shared(void* begin, size_t size);
void* emulated_dynamic_shared();
size_t __cvta_generic_to_shared(const void* p);
void emulated_access(const void* p, size_t size, bool writes);
void emulated_copy(size_t to, const void* from, int size, int given);
void emulated_commit();
void emulated_wait(int pending);
void emulated_ldmatrix(int count, bool transposed, unsigned* const* words, unsigned at);
void emulated_stmatrix(int count, bool transposed, const unsigned* words, unsigned at);
void emulated_mma(Product* mine);
void emulated_wgmma(const GroupProduct& mine);
void emulated_wgmma_fence();
void emulated_wgmma_commit();
void emulated_wgmma_wait(int pending);
void emulated_fence_async();
float emulated_half(unsigned short bits);
unsigned short emulated_half_bits(float x);
unsigned short emulated_bfloat_bits(float x, bool to_zero);
unsigned emulated_bits(float x);
int emulated_run(void (*start)(void**), void** args, const unsigned* extents, size_t dynamic_bytes,
                 const size_t* ranges, int range_count, unsigned seed, char* text, size_t size);
