// Counters and events of all ports, the first broken rule, and the rule that an offer stays until it is accepted.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "abi.h"

namespace {

// A payload that a channel offered in the last cycle and that was not accepted: it must be offered again, unchanged.
template <typename Payload>
struct Offer {
    bool waiting = false;
    Payload payload{};
};

// Counters and events of all ports, and the first broken rule.
struct Bus {
    Counters counters{};
    Monitor monitor{};
    uint64_t base_beats = 0;
    bool resetting = false, failed = false, error_seen = false;

    // Records the first broken rule of a run. Returns false, for callers that return it.
    bool fail(const char* rule, const char* format, ...) __attribute__((format(printf, 3, 4))) {
        if (failed) return false;
        failed = true;
        int used = std::snprintf(message_, sizeof message_, "%s in cycle %llu: ", rule,
                                 static_cast<unsigned long long>(counters.cycles));
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(message_ + used, sizeof message_ - used, format, arguments);
        va_end(arguments);
        return false;
    }

    const char* message() const { return failed ? message_ : nullptr; }

  private:
    char message_[256] = {};
};

template <typename Payload>
void check_offer(Bus& bus, const char* channel, Offer<Payload>& offer, const Payload& payload, bool valid, bool ready) {
    char rule[32];
    if (offer.waiting && !valid) {
        std::snprintf(rule, sizeof rule, "%s_DROPPED", channel);
        bus.fail(rule, "%sVALID fell before it was accepted", channel);
    } else if (offer.waiting && payload != offer.payload) {
        std::snprintf(rule, sizeof rule, "%s_UNSTABLE", channel);
        bus.fail(rule, "a payload of %s changed before it was accepted", channel);
    }
    offer.waiting = valid && !ready;
    offer.payload = payload;
}

}  // namespace
