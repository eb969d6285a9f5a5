// The calls of XRT that a card needs, as functions of C for ctypes. Every function that can fail writes a message.
//
// XRT's headers: xrt_device.h, xrt_bo.h, xrt_xclbin.h, xrt_ip.h, of 2022.1 and later.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#if __has_include("xrt/experimental/xrt_ip.h")
#include "xrt/experimental/xrt_ip.h"
#include "xrt/experimental/xrt_xclbin.h"
#else
#include "experimental/xrt_ip.h"
#include "experimental/xrt_xclbin.h"
#endif
#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"

namespace {

struct Card {
    xrt::xclbin xclbin;
    xrt::device device;
    xrt::ip ip;
    std::string kernel;
};

struct Memory {
    xrt::bo bo;
};

// Runs a body; on an exception writes "STEP: what" and returns false.
template <typename Body>
bool attempt(char *message, const char *step, Body body) {
    try {
        body();
        return true;
    } catch (const std::exception &error) {
        std::snprintf(message, MESSAGE_BYTES, "%s: %s", step, error.what());
    } catch (...) {
        std::snprintf(message, MESSAGE_BYTES, "%s: unknown exception", step);
    }
    return false;
}

xrt::device open_device(const std::string &name) {
    const bool is_index = name.find_first_not_of("0123456789") == std::string::npos;
    return is_index ? xrt::device(static_cast<unsigned int>(std::stoul(name))) : xrt::device(name);
}

}  // namespace

extern "C" {

// Loads an .xclbin into a card, given by its index or its address on the PCI bus, and opens its kernel; null on failure.
void *bitlane_card_open(const char *file, const char *name, const char *kernel, char *message) {
    std::unique_ptr<Card> card(new Card);
    const bool opened = attempt(message, "reading the .xclbin", [&] { card->xclbin = xrt::xclbin(std::string(file)); }) &&
                        attempt(message, "opening the card", [&] { card->device = open_device(name); }) &&
                        attempt(message, "loading the .xclbin",
                                [&] {
                                    card->kernel = kernel;
                                    const xrt::uuid id = card->device.load_xclbin(card->xclbin);
                                    card->ip = xrt::ip(card->device, id, kernel);
                                });
    return opened ? card.release() : nullptr;
}

void bitlane_card_close(void *card) { delete static_cast<Card *>(card); }

// The memory that an argument of the kernel is linked to: its index and bytes. Of several the largest, a group of banks.
bool bitlane_card_bank(void *handle, const char *argument, int32_t *index, uint64_t *bytes, char *message) {
    Card *card = static_cast<Card *>(handle);
    *bytes = 0;
    return attempt(message, "reading the memories of the .xclbin", [&] {
        for (const auto &arg : card->xclbin.get_kernel(card->kernel).get_args()) {
            if (arg.get_name() != argument) continue;
            for (const auto &memory : arg.get_mems()) {
                const uint64_t size = memory.get_size_kb() * UINT64_C(1024);
                if (size <= *bytes) continue;
                *bytes = size;
                *index = memory.get_index();
            }
        }
    });
}

bool bitlane_card_read(void *card, uint32_t offset, uint32_t *value, char *message) {
    return attempt(message, "reading", [&] { *value = static_cast<Card *>(card)->ip.read_register(offset); });
}

bool bitlane_card_write(void *card, uint32_t offset, uint32_t value, char *message) {
    return attempt(message, "writing", [&] { static_cast<Card *>(card)->ip.write_register(offset, value); });
}

// A buffer in a memory of the card, with its address there and its copy on the host; null on failure.
void *bitlane_card_allocate(void *card, uint64_t bytes, int32_t bank, uint64_t *address, void **host, char *message) {
    std::unique_ptr<Memory> memory(new Memory);
    const bool allocated = attempt(message, "allocating", [&] {
        memory->bo = xrt::bo(static_cast<Card *>(card)->device, bytes, xrt::bo::flags::normal,
                             static_cast<xrt::memory_group>(bank));
        *host = memory->bo.map();
        *address = memory->bo.address();
    });
    return allocated ? memory.release() : nullptr;
}

void bitlane_card_free(void *memory) { delete static_cast<Memory *>(memory); }

bool bitlane_card_sync(void *memory, bool to_card, char *message) {
    return attempt(message, to_card ? "copying to the card" : "copying from the card", [&] {
        static_cast<Memory *>(memory)->bo.sync(to_card ? XCL_BO_SYNC_BO_TO_DEVICE : XCL_BO_SYNC_BO_FROM_DEVICE);
    });
}

}  // extern "C"
