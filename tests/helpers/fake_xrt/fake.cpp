// The library of fake.h: it hands every call to the hook that Python has set.

#include "fake.h"

static Hooks hooks;

extern "C" void fake_xrt_connect(Hooks given) { hooks = given; }

namespace fake {
int64_t call(const char *what, int64_t first, uint64_t second, uint64_t third, const std::string &name, std::string *text) {
    char answer[TEXT_BYTES] = "";
    const int64_t result = hooks.call(what, first, second, third, name.c_str(), answer);
    if (result < 0) throw std::runtime_error(answer);
    if (text) *text = answer;
    return result;
}

std::shared_ptr<int64_t> held(int64_t identity, const char *release) {
    return std::shared_ptr<int64_t>(new int64_t(identity), [release](int64_t *each) {
        char answer[TEXT_BYTES];
        hooks.call(release, *each, 0, 0, "", answer);
        delete each;
    });
}
}  // namespace fake
