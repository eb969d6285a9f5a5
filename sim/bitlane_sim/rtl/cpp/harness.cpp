// The Verilated accelerator behind a C ABI: an AXI4-Lite master, an AXI4 memory and the checks of the protocol.
//
//   simulator.h  one cycle; the master of the register port
//   memory.h     the memory: latency, rate, stalls, errors
//   bus.h        counters, and the first broken rule
//   ports.h      the signals of the design
//   abi.h        the structures that harness.py reads and writes
//   axi.h, random.h  constants; random choices
//
// Everything, random choices included, is a function of the settings and of the calls: runs repeat exactly.
// A broken rule, or an assertion in the RTL, ends the simulation: every later call except `reset` does nothing.
#include "simulator.h"

// Verilator calls these at $stop or a failed assertion. Its own versions end the process.
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    if (current) current->bus().fail("ASSERTION", "an assertion of the RTL failed, %s line %d", file, line);
}
void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE {
    if (current) current->bus().fail("FINISH", "the RTL called $finish, %s line %d", file, line);
}
void vl_fatal(const char* file, int line, const char*, const char* text) VL_MT_UNSAFE {
    if (current) current->bus().fail("FATAL", "%s, %s line %d", text, file, line);
}

// A pointer refers to one simulator. Only one thread at a time may use it.
extern "C" {
#define EXPORT __attribute__((visibility("default")))
EXPORT Simulator* bitlane_new(uint8_t* memory, const Settings* settings, const char* waves) {
    return new Simulator(memory, *settings, waves);
}
EXPORT void bitlane_delete(Simulator* s) { delete s; }
EXPORT void bitlane_configure(Simulator* s, const Settings* settings) { s->configure(*settings); }
EXPORT void bitlane_reset(Simulator* s, uint32_t cycles) { s->reset(cycles); }
EXPORT uint64_t bitlane_run(Simulator* s, uint64_t cycles) { return s->run(cycles); }
EXPORT uint64_t bitlane_idle(Simulator* s, uint64_t cycles) { return s->idle(cycles); }
EXPORT int bitlane_read(Simulator* s, uint32_t offset, uint32_t* value) { return s->read(offset, value); }
EXPORT int bitlane_write(Simulator* s, uint32_t offset, uint32_t value) { return s->write(offset, value); }
EXPORT int bitlane_irq(Simulator* s) { return s->irq(); }
EXPORT const char* bitlane_message(Simulator* s) { return s->bus().message(); }
EXPORT void bitlane_counters(Simulator* s, Counters* counters) { *counters = s->bus().counters; }
EXPORT void bitlane_monitor(Simulator* s, Monitor* monitor) { *monitor = s->bus().monitor; }
EXPORT int bitlane_coverage(Simulator* s, const char* path) { return s->write_coverage(path); }
}
