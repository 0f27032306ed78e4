"""The common part of launchers in C: the calls of the CUDA driver and of OpenCL, which are looked up at run time."""

from __future__ import annotations

ARITHMETIC = r"""__attribute__((unused)) static int64_t tilewright_truncdiv(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b;
}
__attribute__((unused)) static int64_t tilewright_truncmod(int64_t a, int64_t b) {
  return b == 0 ? 0 : a % b;
}
__attribute__((unused)) static int64_t tilewright_floordiv(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
__attribute__((unused)) static int64_t tilewright_floormod(int64_t a, int64_t b) {
  return b == 0 ? 0 : a - tilewright_floordiv(a, b) * b;
}
__attribute__((unused)) static int64_t tilewright_min(int64_t a, int64_t b) { return a < b ? a : b; }
__attribute__((unused)) static int64_t tilewright_max(int64_t a, int64_t b) { return a > b ? a : b; }"""
"""Functions that the host's part of a program in C computes sizes by; a division by 0 gives 0, as in kernels."""

COMMON = r"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { OUT_OF_MEMORY = 1, NO_DEVICE = 3, CONTEXTS = 16 };

static atomic_flag tilewright_lock = ATOMIC_FLAG_INIT;

/* The function of that name: of the process where it has one, else of the library. */
static void *tilewright_symbol(const char *library, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  void *handle = found ? NULL : dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  return found ? found : handle ? dlsym(handle, name) : NULL;
}"""

_CUDA = r"""typedef struct {
  void *context, *module;
  void *functions[KERNELS + 1];
} tilewright_loaded;
typedef struct {
  tilewright_loaded *loaded;
  void *stream;
} tilewright_gpu;

static struct {
  int (*init)(unsigned), (*current)(void **), (*load)(void **, const void *);
  int (*function)(void **, void *, const char *);
  int (*attribute)(void *, int, int), (*allocate)(uint64_t *, size_t, void *), (*release)(uint64_t, void *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} cuda;

static int tilewright_find(void **at, const char *name) {
  *at = tilewright_symbol("libcuda.so.1", name);
  return *at != NULL;
}

static int tilewright_driver(void) {
  return cuda.launch || (
    tilewright_find((void **)&cuda.init, "cuInit") && cuda.init(0) == 0
    && tilewright_find((void **)&cuda.current, "cuCtxGetCurrent")
    && tilewright_find((void **)&cuda.load, "cuModuleLoadData")
    && tilewright_find((void **)&cuda.function, "cuModuleGetFunction")
    && tilewright_find((void **)&cuda.attribute, "cuFuncSetAttribute")
    && tilewright_find((void **)&cuda.allocate, "cuMemAllocAsync")
    && tilewright_find((void **)&cuda.release, "cuMemFreeAsync")
    && tilewright_find((void **)&cuda.launch, "cuLaunchKernel"));
}

/* The kernels in the current context, loaded once for each. */
static tilewright_loaded *tilewright_load(void) {
  static tilewright_loaded known[CONTEXTS];
  void *context = NULL;
  if (!tilewright_driver() || cuda.current(&context) || !context) return NULL;
  for (int i = 0; i < CONTEXTS; ++i) {
    tilewright_loaded *at = &known[i];
    if (at->context == context) return at;
    if (at->context) continue;
    if (KERNELS && cuda.load(&at->module, tilewright_image)) return NULL;
    for (int k = 0; k < KERNELS; ++k) {
      if (cuda.function(&at->functions[k], at->module, tilewright_names[k])) return NULL;
      /* 8: the most bytes of dynamic shared memory */
      if (tilewright_dynamic_bytes[k] && cuda.attribute(at->functions[k], 8, tilewright_dynamic_bytes[k])) return NULL;
    }
    at->context = context;
    return at;
  }
  return NULL;
}

static tilewright_gpu *tilewright_device(void *stream, int32_t *status) {
  static _Thread_local tilewright_gpu gpu;
  while (atomic_flag_test_and_set(&tilewright_lock)) { }
  gpu.loaded = tilewright_load();
  atomic_flag_clear(&tilewright_lock);
  gpu.stream = stream;
  *status = gpu.loaded ? 0 : NO_DEVICE;
  return gpu.loaded ? &gpu : NULL;
}

__attribute__((unused)) static void *tilewright_allocate(tilewright_gpu *gpu, size_t bytes, int32_t *status) {
  uint64_t found = 0;
  if (!*status && cuda.allocate(&found, bytes ? bytes : 1, gpu->stream)) *status = OUT_OF_MEMORY;
  return (void *)(uintptr_t)found;
}

__attribute__((unused)) static void tilewright_free(tilewright_gpu *gpu, void *memory) {
  if (memory) cuda.release((uint64_t)(uintptr_t)memory, gpu->stream);
}

__attribute__((unused)) static int32_t tilewright_launch(
    tilewright_gpu *gpu, int kernel, const int64_t *extents, void **values, const size_t *sizes, int count) {
  (void)sizes, (void)count;
  for (int i = 0; i < 6; ++i)
    if (extents[i] <= 0) return 0;
  return cuda.launch(
             gpu->loaded->functions[kernel], (unsigned)extents[0], (unsigned)extents[1], (unsigned)extents[2],
             (unsigned)extents[3], (unsigned)extents[4], (unsigned)extents[5],
             (unsigned)tilewright_dynamic_bytes[kernel], gpu->stream, values, NULL) ? NO_DEVICE : 0;
}"""

_OPENCL = r"""typedef struct {
  void *context, *device, *program;
  void *kernels[KERNELS + 1];
} tilewright_loaded;
typedef struct {
  tilewright_loaded *loaded;
  void *queue;
} tilewright_gpu;

static struct {
  int32_t (*info)(void *, uint32_t, size_t, void *, size_t *);
  void *(*program)(void *, uint32_t, const char **, const size_t *, int32_t *);
  int32_t (*build)(void *, uint32_t, void *const *, const char *, void *, void *);
  void *(*kernel)(void *, const char *, int32_t *);
  int32_t (*argument)(void *, uint32_t, size_t, const void *);
  int32_t (*enqueue)(
      void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *, void *);
  void *(*buffer)(void *, uint64_t, size_t, void *, int32_t *);
  int32_t (*release)(void *);
} cl;

static int tilewright_find(void **at, const char *name) {
  *at = tilewright_symbol("libOpenCL.so.1", name);
  return *at != NULL;
}

static int tilewright_driver(void) {
  return cl.enqueue || (
    tilewright_find((void **)&cl.info, "clGetCommandQueueInfo")
    && tilewright_find((void **)&cl.program, "clCreateProgramWithSource")
    && tilewright_find((void **)&cl.build, "clBuildProgram")
    && tilewright_find((void **)&cl.kernel, "clCreateKernel")
    && tilewright_find((void **)&cl.argument, "clSetKernelArg")
    && tilewright_find((void **)&cl.buffer, "clCreateBuffer")
    && tilewright_find((void **)&cl.release, "clReleaseMemObject")
    && tilewright_find((void **)&cl.enqueue, "clEnqueueNDRangeKernel"));
}

/* The kernels for the queue's context and device, built once for each pair. */
static tilewright_loaded *tilewright_load(void *queue) {
  static tilewright_loaded known[CONTEXTS];
  void *context = NULL, *device = NULL;
  int32_t wrong = 0;
  if (!queue || !tilewright_driver()) return NULL;
  if (cl.info(queue, 0x1090, sizeof context, &context, NULL)) return NULL; /* CL_QUEUE_CONTEXT */
  if (cl.info(queue, 0x1091, sizeof device, &device, NULL)) return NULL;   /* CL_QUEUE_DEVICE */
  for (int i = 0; i < CONTEXTS; ++i) {
    tilewright_loaded *at = &known[i];
    if (at->context == context && at->device == device) return at;
    if (at->context) continue;
    const char *text = (const char *)tilewright_image;
    const size_t length = IMAGE_BYTES;
    at->program = cl.program(context, 1, &text, &length, &wrong);
    if (wrong || cl.build(at->program, 1, &device, "", NULL, NULL)) return NULL;
    for (int k = 0; k < KERNELS; ++k) {
      at->kernels[k] = cl.kernel(at->program, tilewright_names[k], &wrong);
      if (wrong) return NULL;
    }
    at->context = context;
    at->device = device;
    return at;
  }
  return NULL;
}

static tilewright_gpu *tilewright_device(void *queue, int32_t *status) {
  static _Thread_local tilewright_gpu gpu;
  while (atomic_flag_test_and_set(&tilewright_lock)) { }
  gpu.loaded = tilewright_load(queue);
  atomic_flag_clear(&tilewright_lock);
  gpu.queue = queue;
  *status = gpu.loaded ? 0 : NO_DEVICE;
  return gpu.loaded ? &gpu : NULL;
}

__attribute__((unused)) static void *tilewright_allocate(tilewright_gpu *gpu, size_t bytes, int32_t *status) {
  int32_t wrong = 0;
  if (*status) return NULL;
  void *found = cl.buffer(gpu->loaded->context, 1, bytes ? bytes : 1, NULL, &wrong);
  if (wrong) *status = OUT_OF_MEMORY;
  return wrong ? NULL : found;
}

/* OpenCL keeps the memory until the kernels in the queue that use it have ended. */
__attribute__((unused)) static void tilewright_free(tilewright_gpu *gpu, void *memory) {
  (void)gpu;
  if (memory) cl.release(memory);
}

/* A kernel object holds its arguments: they are set and enqueued by one thread at a time. */
__attribute__((unused)) static int32_t tilewright_launch(
    tilewright_gpu *gpu, int kernel, const int64_t *extents, void **values, const size_t *sizes, int count) {
  size_t global[3], local[3];
  int32_t wrong = 0;
  for (int i = 0; i < 6; ++i)
    if (extents[i] <= 0) return 0;
  for (int i = 0; i < 3; ++i) {
    local[i] = (size_t)extents[3 + i];
    global[i] = (size_t)extents[i] * local[i];
  }
  void *at = gpu->loaded->kernels[kernel];
  while (atomic_flag_test_and_set(&tilewright_lock)) { }
  for (int i = 0; i < count && !wrong; ++i) wrong = cl.argument(at, (uint32_t)i, sizes[i], values[i]);
  if (!wrong) wrong = cl.enqueue(gpu->queue, at, 3, NULL, global, local, 0, NULL, NULL);
  atomic_flag_clear(&tilewright_lock);
  return wrong ? NO_DEVICE : 0;
}"""

CALLS = {"cuda": _CUDA, "opencl": _OPENCL}
"""`tilewright_device`, `tilewright_allocate`, `tilewright_free` and `tilewright_launch`, by kind of target."""
TYPES = dict.fromkeys(CALLS, "tilewright_gpu")
