// Whether an address between two segments of a module belongs to another module, or to none: the kernel puts the vDSO,
// and what a program maps, between the segments of the loader and of an executable that is linked for larger pages.
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cunwind_process.h"

#define GAPS_MAX 16
static struct {
  uint64_t start, end;
} gaps[GAPS_MAX];
static unsigned count, gap_count;
static uint64_t page;

// The module that has a segment there, if one has, by its load bias.
static uint64_t wanted, owner;
static bool has_owner;
static int find_owner(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size, (void)argument;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && wanted - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
      has_owner = true, owner = info->dlpi_addr;
  }
  return 0;
}

// The executable and the loader: the kernel keeps no gaps of them.
static int find_gaps(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size, (void)argument;
  uint64_t end = 0;
  if (*info->dlpi_name != 0 && info->dlpi_addr != getauxval(AT_BASE)) return 0;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD) continue;
    uint64_t start = (info->dlpi_addr + segment->p_vaddr) & ~(page - 1);
    if (end != 0 && start > end && gap_count < GAPS_MAX) gaps[gap_count].start = end, gaps[gap_count++].end = start;
    end = (info->dlpi_addr + segment->p_vaddr + segment->p_memsz + page - 1) & ~(page - 1);
  }
  return 0;
}

static int check(uint64_t address, bool by_list) {
  cunwind_module module;
  wanted = address, has_owner = false;
  dl_iterate_phdr(find_owner, NULL);
  cunwind_use_module_list(by_list);
  bool is_found = cunwind_find_module(cunwind_own_process(), address, &module);
  count++;
  if (is_found == has_owner && (!is_found || (module.load_bias == owner && address - module.start < module.end - module.start))) return 0;
  printf("%llx by the %s: %s\n", (unsigned long long)address, by_list ? "list" : "loader", is_found ? module.path : "in no module");
  return 1;
}

int main(void) {
  int bad = 0;
  page = (uint64_t)sysconf(_SC_PAGESIZE);
  cunwind_memory_prepare();
  dl_iterate_phdr(find_gaps, NULL);
  for (unsigned i = 0; i < gap_count; i++)
    for (int by_list = 0; by_list < 2; by_list++) {
      bad += check(gaps[i].start - 1, by_list) + check(gaps[i].end, by_list);
      for (uint64_t at = gaps[i].start; at < gaps[i].end; at += page) bad += check(at, by_list) + check(at + page / 2, by_list);
    }
  // The kernel's code, wherever it lies, and the loader's.
  const uint64_t inside[] = {getauxval(AT_SYSINFO_EHDR), getauxval(AT_BASE), (uint64_t)(uintptr_t)main, (uint64_t)(uintptr_t)malloc};
  for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++)
    for (int by_list = 0; by_list < 2; by_list++) bad += check(inside[i] + 64, by_list);
  printf("%u gaps, %u addresses, %d of them wrong\n", gap_count, count, bad);
  return bad != 0 || gap_count == 0;
}
