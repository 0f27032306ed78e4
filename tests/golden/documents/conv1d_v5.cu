extern "C" __global__ void __launch_bounds__(32) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ B
) {
  const int blockIdx_x = blockIdx.x;
  const int threadIdx_x = threadIdx.x;
  const int threadIdx_y = threadIdx.y;
  __shared__ float W_shared[8];  // W.shared
  float B_local[1];  // B.local
  B_local[0] = 0.0f;
  float W_shared_next[1];
  if (threadIdx_y < 2) {
    W_shared_next[0] = W[threadIdx_y * 4 + threadIdx_x];
  }
  for (int r_outer = 0; r_outer < 4; ++r_outer) {
    __syncthreads();
    if (threadIdx_y < 2) {
      W_shared[threadIdx_y * 4 + threadIdx_x] = W_shared_next[0];
    }
    if (r_outer < 3) {
      if (threadIdx_y < 2) {
        W_shared_next[0] = W[r_outer * 8 + threadIdx_y * 4 + threadIdx_x + 8];
      }
    }
    __syncthreads();
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (0 <= blockIdx_x * 8 + threadIdx_y - r_outer * 2 && blockIdx_x * 8 + threadIdx_y - r_outer * 2 < 4096 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8] : 0.0f) * W_shared[0];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (1 <= blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 && blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 < 16385 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 1] : 0.0f) * W_shared[1];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (2 <= blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 && blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 < 16386 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 2] : 0.0f) * W_shared[2];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (3 <= blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 && blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 < 16387 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 3] : 0.0f) * W_shared[3];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (1 <= blockIdx_x * 8 + threadIdx_y - r_outer * 2 && blockIdx_x * 8 + threadIdx_y - r_outer * 2 < 4097 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 4] : 0.0f) * W_shared[4];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (5 <= blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 && blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 < 16389 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 5] : 0.0f) * W_shared[5];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (6 <= blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 && blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 < 16390 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 6] : 0.0f) * W_shared[6];
    }
    if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
      B_local[0] = B_local[0] + (7 <= blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 && blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 < 16391 ? A[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x - r_outer * 8 - 7] : 0.0f) * W_shared[7];
    }
  }
  if (blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x < 16415) {
    B[blockIdx_x * 32 + threadIdx_y * 4 + threadIdx_x] = B_local[0];
  }
}
