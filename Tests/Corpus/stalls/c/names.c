// Stalls in functions whose names are the difficulty, in C: assembly without types, and clones.
#include "../host.h"

// MARK: Assembly

// As people write it: a label, and neither a type nor a size. The function before it must not be named.
uint64_t mix_typed(uint64_t x, uint64_t rounds);
uint64_t mix_by_hand(uint64_t x, uint64_t rounds);
#ifdef __x86_64__
__asm__(
    ".text\n"
    ".globl mix_typed\n"
    ".type mix_typed, @function\n"
    "mix_typed:\n"
    "  lea (%rdi, %rsi), %rax\n"
    "  ret\n"
    ".size mix_typed, . - mix_typed\n"
    ".globl mix_by_hand\n"
    "mix_by_hand:\n"
    "  mov %rdi, %rax\n"
    "1: imul $0x5851f42d, %rax, %rax\n"
    "  inc %rax\n"
    "  dec %rsi\n"
    "  jnz 1b\n"
    "  ret\n");
#else
__asm__(
    ".text\n"
    ".globl mix_typed\n"
    ".type mix_typed, %function\n"
    "mix_typed:\n"
    "  add x0, x0, x1\n"
    "  ret\n"
    ".size mix_typed, . - mix_typed\n"
    ".globl mix_by_hand\n"
    "mix_by_hand:\n"
    "1: madd x0, x0, x1, x1\n"
    "  subs x1, x1, #1\n"
    "  b.ne 1b\n"
    "  ret\n");
#endif

// stall untyped_symbol: running in mix_by_hand
STALL(untyped_symbol) {
  uint64_t x = mix_typed(1, 2);
  while (!is_late()) x = mix_by_hand(x, ROUNDS);
  result = x;
}

// MARK: Clones

// One function, however many processors the compiler makes it for.
#ifdef __x86_64__
__attribute__((target_clones("avx2", "sse4.2", "default")))
#endif
uint64_t checksum(uint64_t x) {
  for (int i = 0; i < ROUNDS; i++) MIX(x);
  return x;
}

// stall target_clones: running in checksum
STALL(target_clones) {
  uint64_t x = 1;
  while (!is_late()) x = checksum(x);
  result = x;
}

// A clone for an argument that is always the same: `parse.constprop.0`.
static NOINLINE uint64_t parse(uint64_t x, int rounds, int unused) {
  (void)unused;
  for (int i = 0; i < rounds; i++) MIX(x);
  // No code like another function's: the compiler would make one of them.
  return x + 1;
}

// stall clone_for_constants: running in parse
STALL(clone_for_constants) {
  uint64_t x = 1;
  while (!is_late()) x = parse(x, ROUNDS, 4);
  result = x;
}
