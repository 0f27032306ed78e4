extern "C" __global__ void __launch_bounds__(32) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ B
) {
  const int blockIdx_x = blockIdx.x;
  const int threadIdx_x = threadIdx.x;
  __shared__ float W_shared[4];  // W.shared
  float B_local[1];  // B.local
  B_local[0] = 0.0f;
  float W_shared_next[1];
  if (threadIdx_x < 4) {
    W_shared_next[0] = W[threadIdx_x];
  }
  for (int r_outer = 0; r_outer < 8; ++r_outer) {
    __syncthreads();
    if (threadIdx_x < 4) {
      W_shared[threadIdx_x] = W_shared_next[0];
    }
    if (r_outer < 7) {
      if (threadIdx_x < 4) {
        W_shared_next[0] = W[r_outer * 4 + threadIdx_x + 4];
      }
    }
    __syncthreads();
    for (int r_inner = 0; r_inner < 4; ++r_inner) {
      if (blockIdx_x * 32 + threadIdx_x < 16415) {
        B_local[0] = B_local[0] + (0 <= blockIdx_x * 32 + threadIdx_x - r_inner - r_outer * 4 && blockIdx_x * 32 + threadIdx_x - r_inner - r_outer * 4 < 16384 ? A[blockIdx_x * 32 + threadIdx_x - r_inner - r_outer * 4] : 0.0f) * W_shared[r_inner];
      }
    }
  }
  if (blockIdx_x * 32 + threadIdx_x < 16415) {
    B[blockIdx_x * 32 + threadIdx_x] = B_local[0];
  }
}
