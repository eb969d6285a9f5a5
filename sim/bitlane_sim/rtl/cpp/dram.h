// When a DRAM channel moves the beats of a burst: banks with one open row each, refresh, and the turnaround of its bus.
//
// Times are in 1 / TICKS of a cycle of the port. Bursts use the bus in the order in which they arrive. A bank opens the
// row of a burst while the bursts before it use the bus. Rows stay open until another row of their bank is needed, or
// until a refresh, which takes all banks and finishes the bursts before it.
//
// Consecutive rows of the channel lie in consecutive banks.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "abi.h"

namespace {

constexpr uint64_t TICKS = 1024;

class Dram {
  public:
    // The first refresh of channel `number` of `count` comes after its share of the period.
    void configure(const DramSettings& settings, unsigned number = 0, unsigned count = 1) {
        settings_ = settings;
        banks_.assign(settings.banks, Bank{});
        free_ = blocked_ = 0;
        next_refresh_ = (number + 1) * uint64_t{settings.refresh_every} / count;
        writing_ = false;
    }

    bool present() const { return settings_.banks != 0; }
    uint64_t beat() const { return settings_.beat; }

    // Returns when the bus begins to move a burst that lies in one row and arrives now.
    uint64_t begin(uint64_t now, uint64_t address, unsigned beats, bool writes) {
        const uint64_t length = beats * settings_.beat, line = address / settings_.row_bytes;
        Bank& bank = banks_[line % settings_.banks];
        const int64_t row = static_cast<int64_t>(line / settings_.banks);
        for (;;) {
            const uint64_t turned = free_ + (writes != writing_ ? settings_.turnaround : 0);
            const uint64_t start = std::max(open(bank, row, now) + settings_.column, turned);
            if (start + length <= next_refresh_) {
                bank.free = free_ = start + length;
                writing_ = writes;
                return start;
            }
            refresh();
        }
    }

  private:
    struct Bank {
        int64_t row = NONE;
        uint64_t opened = 0, ready = 0, free = 0;  // when its row began to open, was open, and was last used
    };
    static constexpr int64_t NONE = -1;

    // Returns when the bank can take a column of the row, which it opens if another one is open.
    uint64_t open(Bank& bank, int64_t row, uint64_t now) {
        if (bank.row == row) return std::max(bank.ready, now);
        uint64_t at = std::max(now, blocked_);
        if (bank.row != NONE) at = std::max(at, bank.free) + settings_.precharge;
        if (bank.opened) at = std::max(at, bank.opened + settings_.row_cycle);
        bank = {row, at, at + settings_.activate, bank.free};
        return bank.ready;
    }

    void refresh() {
        blocked_ = std::max(next_refresh_, free_ + settings_.precharge) + settings_.refresh;
        next_refresh_ += settings_.refresh_every;
        for (Bank& bank : banks_) bank.row = NONE;
    }

    DramSettings settings_{};
    std::vector<Bank> banks_;
    uint64_t free_ = 0, blocked_ = 0, next_refresh_ = 0;  // of the bus, of all banks
    bool writing_ = false;
};

}  // namespace
