// A CUDA driver of two GPUs that compute nothing: contexts, memory of the host, streams, and launches that are counted.
//
// Whatever belongs to a context must be used while that context is current, or the call fails as NVIDIA's driver fails
// (launches) or is counted as wrong (everything else). So is a capture that nothing was launched into.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500,
       CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };
enum { DEVICES = 2, MAJOR = 75, MINOR = 76, ORDINAL = 9 };

constexpr size_t MOST = size_t(1) << 30;

struct Context { int device; };
struct Owned {  // a module, a function, a stream, an event or a graph
    Context *context;
    int captured = -1;  // launches into a stream since its capture began, or -1
};
struct Memory { size_t size; int device; };

Context contexts[DEVICES] = {{0}, {1}};
thread_local std::vector<Context *> stack;
std::mutex lock;
std::map<uintptr_t, Memory> memory;
int launches[DEVICES], wrong, modules, waits;

Context *current() { return stack.empty() ? nullptr : stack.back(); }

int within(bool right) {
    std::lock_guard<std::mutex> held(lock);
    wrong += !right;
    return right ? OK : INVALID_CONTEXT;
}

int within(const Owned *owned) { return within(owned && owned->context == current()); }

bool named(const Owned *stream) { return reinterpret_cast<uintptr_t>(stream) > 2; }

// The default streams are those of any context.
bool here(const Owned *stream) { return current() && (!named(stream) || stream->context == current()); }

int within(const Owned *owned, const Owned *stream) { return within(owned && owned->context == current() && here(stream)); }

int owner(uintptr_t address) {
    std::lock_guard<std::mutex> held(lock);
    auto found = memory.upper_bound(address);
    if (found == memory.begin()) return -1;
    --found;
    return address < found->first + found->second.size ? found->second.device : -1;
}

int of_memory(uintptr_t address) { return within(current() && owner(address) == current()->device); }

template <typename Handle> int make(Handle *made) {
    *made = reinterpret_cast<Handle>(new Owned{current()});
    return within(current() != nullptr);
}
}  // namespace

extern "C" {
int fake_current() { return current() ? current()->device : -1; }
int fake_depth() { return int(stack.size()); }
int fake_launches(int device) { return launches[device]; }
int fake_modules() { return modules; }
int fake_waits() { return waits; }
int fake_wrong() { return wrong; }

int cuInit(unsigned) { return OK; }
int cuDriverGetVersion(int *version) {
    const char *given = getenv("FAKE_CUDA_VERSION");
    return *version = given ? atoi(given) : 13000, OK;
}
int cuDeviceGetCount(int *count) { return *count = DEVICES, OK; }
int cuDeviceGet(int *device, int index) { return *device = index, OK; }
int cuDeviceGetName(char *name, int size, int) { return strncpy(name, "a GPU that computes nothing", size), OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = MOST, OK; }
int cuDeviceGetAttribute(int *value, int which, int) {
    return *value = which == MAJOR ? 9 : which == MINOR ? 0 : 1024, OK;
}
int cuGetErrorName(int status, const char **text) {
    return *text = status == INVALID_HANDLE ? "CUDA_ERROR_INVALID_HANDLE" : "CUDA_ERROR_INVALID_CONTEXT", OK;
}
int cuGetErrorString(int, const char **text) { return *text = "the fake driver says no", OK; }

int cuDevicePrimaryCtxRetain(Context **context, int device) { return *context = &contexts[device], OK; }
int cuCtxGetCurrent(Context **context) { return *context = current(), OK; }
int cuCtxSetCurrent(Context *context) {
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return OK;
}
int cuCtxPushCurrent_v2(Context *context) { return stack.push_back(context), OK; }
int cuCtxPopCurrent_v2(Context **context) {
    if (stack.empty()) return INVALID_CONTEXT;
    *context = stack.back();
    return stack.pop_back(), OK;
}
int cuCtxSynchronize() { return within(current() != nullptr); }

int cuMemAlloc_v2(uintptr_t *address, size_t size) {
    if (int status = within(current() != nullptr)) return status;
    if (size > MOST) return OUT_OF_MEMORY;
    *address = reinterpret_cast<uintptr_t>(aligned_alloc(256, (size + 255) / 256 * 256));
    std::lock_guard<std::mutex> held(lock);
    memory[*address] = {size, current()->device};
    return OK;
}
int cuMemGetInfo_v2(size_t *left, size_t *total) { return *left = *total = MOST, within(current() != nullptr); }
int cuMemFree_v2(uintptr_t address) {
    int status = of_memory(address);
    std::lock_guard<std::mutex> held(lock);
    memory.erase(address);
    free(reinterpret_cast<void *>(address));
    return status;
}
int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t size) {
    return memcpy(reinterpret_cast<void *>(to), from, size), of_memory(to);
}
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t size) {
    return memcpy(to, reinterpret_cast<void *>(from), size), of_memory(from);
}
int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t size, Owned *stream) {
    memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), size);
    return of_memory(to) ? INVALID_CONTEXT : within(here(stream));
}
int cuPointerGetAttribute(int *value, int which, uintptr_t address) {
    int device = owner(address);
    if (which != ORDINAL || device < 0) return INVALID_VALUE;
    return *value = device, OK;
}

int cuStreamCreate(Owned **stream, unsigned) { return make(stream); }
int cuStreamSynchronize(Owned *stream) { return within(here(stream)); }
int cuEventCreate(Owned **event, unsigned) { return make(event); }
int cuEventRecord(Owned *event, Owned *stream) { return within(event, stream); }
int cuStreamWaitEvent(Owned *stream, Owned *event, unsigned) { return ++waits, within(event, stream); }
int cuEventSynchronize(Owned *event) { return within(event); }
int cuEventElapsedTime(float *milliseconds, Owned *first, Owned *) { return *milliseconds = 1, within(first); }
int cuStreamDestroy_v2(Owned *stream) { return delete stream, OK; }
int cuEventDestroy_v2(Owned *event) { return delete event, OK; }
int cuThreadExchangeStreamCaptureMode(int *) { return OK; }

int cuStreamBeginCapture_v2(Owned *stream, int) {
    if (!named(stream)) return CAPTURE_UNSUPPORTED;
    return stream->captured = 0, within(stream);
}
int cuStreamEndCapture(Owned *stream, Owned **graph) {
    int captured = stream->captured;
    stream->captured = -1;
    *graph = new Owned{stream->context};
    return within(captured > 0) ? CAPTURE_INVALIDATED : within(stream);
}
int cuGraphInstantiateWithFlags(Owned **made, Owned *graph, unsigned long long) {
    return *made = new Owned{graph->context}, within(graph);
}
int cuGraphUpload(Owned *graph, Owned *stream) { return within(graph, stream); }
int cuGraphLaunch(Owned *graph, Owned *stream) { return within(graph, stream); }
int cuGraphDestroy(Owned *graph) { return delete graph, OK; }
int cuGraphExecDestroy(Owned *graph) { return delete graph, OK; }

int cuModuleLoadData(Owned **module, const void *) { return ++modules, make(module); }
int cuModuleUnload(Owned *module) {
    int status = within(module);
    return --modules, delete module, status;
}
int cuModuleGetFunction(Owned **function, Owned *module, const char *) {
    *function = new Owned{module->context};
    return within(module);
}
int cuFuncSetAttribute(Owned *function, int, int) { return within(function); }
int cuLaunchKernel(Owned *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Owned *stream,
                   void **, void **) {
    if (!current()) return INVALID_CONTEXT;
    if (current() != function->context || !here(stream)) return INVALID_HANDLE;
    std::lock_guard<std::mutex> held(lock);
    if (named(stream) && stream->captured >= 0) ++stream->captured;
    return ++launches[current()->device], OK;
}

int cuGetProcAddress_v2(const char *name, void **found, int, uint64_t, int *status) {
    void *here = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *found = dlsym(here, (std::string(name) + "_v2").c_str());
    if (!*found) *found = dlsym(here, name);
    if (status) *status = *found ? 0 : 1;
    return *found ? OK : NOT_FOUND;
}
}
