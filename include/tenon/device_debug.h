/* What a launch did, command by command: an optional second table of a plug-in, for those who build the device.
 * `tenon device diff` compares two devices with it, and `tenon device trace` shows when commands ran. C11.
 *
 *     const tenon_device_debug_api* tenon_device_debug_v1(void) { return &debug_api; }
 *
 * A command is a step of a program that the device counts: an instruction, a descriptor of a DMA. A program is a list
 * of commands, and every launch of it runs all of them. Functions follow the rules of tenon/device.h. */
#ifndef TENON_DEVICE_DEBUG_H
#define TENON_DEVICE_DEBUG_H

#include "tenon/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_NO_COMMAND UINT64_MAX

typedef struct tenon_debug_command {
  size_t size;
  uint32_t unit;   /* TENON_UNIT_LOAD, ...: that runs it; 0: another */
  uint32_t node;   /* of the segment: what it is for; UINT32_MAX: not known */
  uint64_t action; /* of the segment: that it encodes; TENON_NO_COMMAND: none */
} tenon_debug_command;

enum { TENON_DEBUG_MEMORY, TENON_DEBUG_SCRATCHPAD, TENON_DEBUG_ACCUMULATORS };

typedef struct tenon_debug_write {
  size_t size;
  uint32_t memory;  /* TENON_DEBUG_MEMORY, ... */
  uint32_t buffer;  /* of TENON_DEBUG_MEMORY: of the launch, or TENON_SCRATCH */
  uint64_t address; /* bytes from the start of the buffer, or of the scratchpad or the accumulators */
  const void* bytes;
  uint64_t count;
} tenon_debug_write;

/* In cycles since the launch began. */
typedef struct tenon_debug_event {
  uint64_t begin; /* its unit begins with the command, for which nothing has to be waited any more */
  uint64_t end;   /* its last write is done */
} tenon_debug_event;

/* One launch. The host sets what it asks for; null or TENON_NO_COMMAND: it does not ask. A device that cannot answer
 * one of the questions fails with TENON_UNSUPPORTED before the launch. */
typedef struct tenon_debug_run {
  size_t size;
  void* self;        /* for `write` and `counter` */
  uint64_t* digests; /* of each command: a hash of what it wrote, and where. Two devices that run the same program
                      * with equal data have equal digests, wherever their buffers lie. */
  tenon_debug_event* events; /* of each command */
  uint64_t logged;           /* the command of which `write` is told every write, in an order that devices share */
  void (*write)(void* self, const tenon_debug_write* write);
  void (*counter)(void* self, const char* name, uint64_t value); /* "cycles", then whatever else the device counts */
  uint64_t waved;                                                /* the command around which a waveform is written, */
  const char* waves_path;                                        /* to this file */
  /* Set by the device. */
  uint64_t failed; /* of a launch that fails: the command, or TENON_NO_COMMAND */
} tenon_debug_run;

typedef struct tenon_device_debug_api {
  size_t size;
  tenon_status (*commands)(tenon_device* device, tenon_device_program* program, uint64_t* count, tenon_text* error);
  /* A command, and its text for people. */
  tenon_status (*command)(tenon_device* device, tenon_device_program* program, uint64_t number,
                          tenon_debug_command* command, tenon_text* text);
  /* As submit() and wait(): returns when the launch, and all before it, are done. A launch that fails gives what it
   * knows of the commands before. */
  tenon_status (*launch)(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                         tenon_debug_run* run, tenon_text* error);
} tenon_device_debug_api;

#define TENON_DEVICE_DEBUG_SYMBOL "tenon_device_debug_v1"
typedef const tenon_device_debug_api* (*tenon_device_debug_plugin)(void);

#ifdef __cplusplus
}
#endif

#endif
