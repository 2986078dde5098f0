/* dxgi.dll for Wine without a display: a factory that has no adapters. Without it, ONNX Runtime
 * writes "Failed to create DXGI factory." on stderr in each process. */
#include <windows.h>

/* IUnknown's three slots, then the factory's: the largest interface has 30. */
static void* slots[40];
static struct {
  void** slots;
} factory = {slots};

static HRESULT WINAPI query(void* self, void* id, void** out) {
  *out = self;
  return S_OK;
}
static ULONG WINAPI count(void* self) { return 1; }
static HRESULT WINAPI refuse(void* self) { return E_NOTIMPL; }
static HRESULT WINAPI no_adapter(void* self, UINT place, void** out) {
  if (out) *out = 0;
  return (HRESULT)0x887A0002; /* DXGI_ERROR_NOT_FOUND */
}
static HRESULT WINAPI no_adapter_by_preference(void* self, UINT place, UINT preference, void* id,
                                               void** out) {
  return no_adapter(self, place, out);
}

static HRESULT make(void** out) {
  for (int place = 0; place < 40; place++) slots[place] = refuse;
  slots[0] = query;
  slots[1] = slots[2] = count;
  slots[7] = slots[12] = no_adapter; /* EnumAdapters, EnumAdapters1 */
  slots[29] = no_adapter_by_preference;
  *out = &factory;
  return S_OK;
}

__declspec(dllexport) HRESULT WINAPI CreateDXGIFactory(void* id, void** out) { return make(out); }
__declspec(dllexport) HRESULT WINAPI CreateDXGIFactory1(void* id, void** out) { return make(out); }
__declspec(dllexport) HRESULT WINAPI CreateDXGIFactory2(UINT flags, void* id, void** out) {
  return make(out);
}
