// Random choices that repeat: a seeded generator for each channel.
#pragma once
#include <cstdint>

namespace {

uint64_t mix(uint64_t x) {  // splitmix64: spreads a seed over all bits
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

class Random {  // xorshift64*
  public:
    void seed(uint64_t value) {
        state_ = mix(value);
        if (state_ == 0) state_ = 1;
    }
    bool below(uint32_t threshold) {  // true with probability threshold / 2**32; draws nothing for 0
        if (threshold == 0) return false;
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1D) >> 32) < threshold;
    }

  private:
    uint64_t state_ = 1;
};

}  // namespace
