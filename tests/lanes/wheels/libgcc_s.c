// The names of libgcc_s.so.1, with which zig links for Linux. glibc ends threads with that library's unwinder, which must be
// the one that the modules use; zig would link another one into them.
#define NAME(name) void name(void) {}
NAME(_Unwind_Backtrace)
NAME(_Unwind_DeleteException)
NAME(_Unwind_GetGR)
NAME(_Unwind_GetIP)
NAME(_Unwind_GetIPInfo)
NAME(_Unwind_GetLanguageSpecificData)
NAME(_Unwind_GetRegionStart)
NAME(_Unwind_RaiseException)
NAME(_Unwind_Resume)
NAME(_Unwind_Resume_or_Rethrow)
NAME(_Unwind_SetGR)
NAME(_Unwind_SetIP)
