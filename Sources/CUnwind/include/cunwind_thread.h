// What a thread does beforehand so that it can be captured by a signal while it runs.
#ifndef CUNWIND_THREAD_H
#define CUNWIND_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/// Makes the calling thread ready to be captured while it runs. Call it once on each watched thread.
///
/// Where perf events are permitted it changes nothing. Elsewhere it notes the bounds of the thread's stack, and gives
/// the thread an alternate signal stack for the rest of its life if it has none: captured with nearly no stack left, it
/// would not survive the handler. That stack is as large as the thread's own (64 KiB to 8 MiB), because from then on the
/// process's own SA_ONSTACK handlers run there, too. @return whether the thread is prepared: `cunwind_thread_ends` takes
/// back what it was given.
bool cunwind_prepare_thread(void);

/// The same, whether or not perf events are permitted.
void cunwind_prepare_thread_for_timer(void);

/// Notes the calling thread's alternate stack again, if the thread is prepared: the process may have set another. A
/// thread that was left unchanged because of perf events is prepared now if they are not permitted any more.
void cunwind_note_thread(void);

/// Sets for all threads whether captures need the timer, because perf events are not permitted.
void cunwind_threads_need_timer(bool need);

/// Takes back the alternate stack that the calling thread, which is about to end, was given.
void cunwind_thread_ends(void);

/// Whether the thread was prepared, and its alternate stack had space for the capture's handler when it was last noted.
bool cunwind_thread_is_prepared(int32_t thread);

#endif
