/* Rounding, saturation and random words of single integers, with the names and results of bitlane.contract. */

static inline int64_t round_half_up(int64_t x, int64_t n)
{
    return (x + ((INT64_C(1) << n) >> 1)) >> n;
}

/* Return round_half_up(dot, bits - exponent), of a negative number of bits too. */
static inline int64_t rounded_dot(int64_t dot, int64_t bits, int64_t exponent)
{
    return round_half_up(dot << LARGEST_EXPONENT, bits + LARGEST_EXPONENT - exponent);
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t size_of(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Return x within two limits, and count it if that changes it. */
static inline int64_t clip(int64_t x, int64_t low, int64_t high, int64_t *clipped)
{
    int64_t inside = x < low ? low : x > high ? high : x;
    *clipped += inside != x;
    return inside;
}

static inline uint16_t rotated(uint16_t half, int left)
{
    return (uint16_t)(half << left | half >> (16 - left));
}

/* The random word of an index and a lane, by its offset: bitlane.contract.prng.random_words. */
static inline uint32_t random_word(int64_t seed, int64_t index, int64_t lane)
{
    static const uint16_t keys[] = {ROUND_KEYS};
    uint32_t mixed = ((uint32_t)seed + (uint32_t)index * INDEX_STEP) ^ (uint32_t)lane;
    uint16_t high = (uint16_t)(mixed >> 16), low = (uint16_t)mixed;
    for (size_t round = 0; round < sizeof keys / sizeof *keys; round++) {
        uint16_t next = (uint16_t)(low ^ (rotated(high, 1) & rotated(high, 8)) ^ rotated(high, 2) ^ keys[round]);
        low = high;
        high = next;
    }
    return (uint32_t)high << 16 | low;
}

/* x rounded up or down to a multiple of 2**cut by the low bits of a random word. */
static inline int64_t round_at_random(int64_t x, uint32_t word, int64_t cut)
{
    int64_t below = (INT64_C(1) << cut) - 1;
    return (x + (word & below)) & ~below;
}
