// A stand-in for the part of XRT that a card needs. What it does is in Python (tests/helpers/fake_xrt/cards.py).

#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Each returns an identity of at least 0, or below 0 for an exception with the text in `text`.
struct Hooks {
    int64_t (*call)(const char *what, int64_t first, uint64_t second, uint64_t third, const char *name, char *text);
};
extern "C" void fake_xrt_connect(Hooks hooks);
namespace fake {
constexpr int TEXT_BYTES = 4096;
int64_t call(const char *what, int64_t first = 0, uint64_t second = 0, uint64_t third = 0, const std::string &name = "",
             std::string *text = nullptr);
std::shared_ptr<int64_t> held(int64_t identity, const char *release);
}  // namespace fake

enum xclBOSyncDirection { XCL_BO_SYNC_BO_TO_DEVICE, XCL_BO_SYNC_BO_FROM_DEVICE };

namespace xrt {
using memory_group = uint32_t;
class uuid {
 public:
    int64_t xclbin = -1;
};

class xclbin {
 public:
    class mem {
     public:
        std::string tag;
        uint64_t kb;
        int32_t index;
        uint64_t get_size_kb() const { return kb; }
        int32_t get_index() const { return index; }
    };
    class arg {
     public:
        std::string name;
        std::vector<mem> mems;
        std::string get_name() const { return name; }
        std::vector<mem> get_mems() const { return mems; }
    };
    class kernel {
     public:
        std::vector<arg> args;
        std::vector<arg> get_args() const { return args; }
    };
    xclbin() = default;
    explicit xclbin(const std::string &file) : id(fake::call("xclbin", 0, 0, 0, file)) {}
    kernel get_kernel(const std::string &name) const {
        std::string text;
        fake::call("kernel", id, 0, 0, name, &text);
        kernel found;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            arg one;
            words >> one.name;
            for (mem bank; words >> bank.index >> bank.kb;) one.mems.push_back(bank);
            found.args.push_back(one);
        }
        return found;
    }
    int64_t id = -1;
};

class device {
 public:
    device() = default;
    explicit device(unsigned int index) : device(std::to_string(index)) {}
    explicit device(const std::string &name) : id(fake::held(fake::call("device", 0, 0, 0, name), "close device")) {}
    uuid load_xclbin(const xclbin &file) {
        fake::call("load", *id, file.id);
        return uuid{file.id};
    }
    std::shared_ptr<int64_t> id;
};

class ip {
 public:
    ip() = default;
    ip(const device &card, const uuid &file, const std::string &name)
        : id(fake::held(fake::call("ip", *card.id, file.xclbin, 0, name), "close ip")) {}
    void write_register(uint32_t offset, uint32_t data) { fake::call("write", *id, offset, data); }
    uint32_t read_register(uint32_t offset) const { return static_cast<uint32_t>(fake::call("read", *id, offset)); }
    std::shared_ptr<int64_t> id;
};

class bo {
 public:
    enum class flags : uint32_t { normal };
    bo() = default;
    bo(const device &card, size_t size, flags, memory_group group)
        : id(fake::held(fake::call("bo", *card.id, size, group), "free bo")), device_(card) {}
    void *map() { return reinterpret_cast<void *>(fake::call("map", *id)); }
    uint64_t address() const { return static_cast<uint64_t>(fake::call("address", *id)); }
    void sync(xclBOSyncDirection direction) { fake::call("sync", *id, direction); }
    std::shared_ptr<int64_t> id;
    device device_;  // a buffer holds its device open, as in XRT
};
}  // namespace xrt
