// A host that uses the hook of Swift concurrency's global executor by itself.
#ifndef VICTIM_TASK_HOOK_H
#define VICTIM_TASK_HOOK_H

/// Sets the hook to a function that passes each job on to the runtime, also if another hook is set.
void victim_take_task_hook(void);

#endif
