static __device__ __forceinline__ int dp4a_int8(int a, int b, int c) {
  int d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

extern "C" __global__ void __launch_bounds__(4) main_kernel(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ D
) {
  const int blockIdx_x = blockIdx.x;
  const int threadIdx_x = threadIdx.x;
  int D_local[16];  // D.local
  #pragma unroll
  for (int i_c_init = 0; i_c_init < 4; ++i_c_init) {
    #pragma unroll
    for (int j_c_init = 0; j_c_init < 4; ++j_c_init) {
      D_local[i_c_init * 4 + j_c_init] = 0;
    }
  }
  for (int x_outer = 0; x_outer < 4; ++x_outer) {
    #pragma unroll
    for (int i_c = 0; i_c < 4; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 4; ++j_c) {
        {
          // 1 x 1 x 8 (rows, columns, depth) by dp4a.s32.s32
          #pragma unroll
          for (int depth = 0; depth < 2; ++depth) {
            D_local[i_c * 4 + j_c] = dp4a_int8(*(const int*)(B + threadIdx_x * 128 + j_c * 32 + x_outer * 8 + depth * 4), *(const int*)(A + blockIdx_x * 128 + i_c * 32 + x_outer * 8 + depth * 4), D_local[i_c * 4 + j_c]);
          }
        }
      }
    }
  }
  #pragma unroll
  for (int i_inner = 0; i_inner < 4; ++i_inner) {
    #pragma unroll
    for (int j_inner = 0; j_inner < 4; ++j_inner) {
      D[blockIdx_x * 64 + i_inner * 16 + threadIdx_x * 4 + j_inner] = D_local[i_inner * 4 + j_inner];
    }
  }
}
